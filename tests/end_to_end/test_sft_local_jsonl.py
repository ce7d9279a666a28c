"""`run-recipe --dataset local-jsonl` in each packing mode: stopped, continued, accepted, and as if never stopped."""

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.runner.sft_training import folder_of_rows
from tests.runner.training import losses, records

# GPT: its table of positions ends at seq_length, so that a packed row must count from 0 in each sequence.
WORDS = shlex.split("""
    --recipe vanilla_gpt_sft_config --dataset local-jsonl --device cpu -gb 4 -sl 64 --warmup_iters 1 --lr 0.003
    scheduler.lr_decay_iters=100000 dataset.dataset_root=rows model.num_layers=1 model.hidden_size=32
    model.num_attention_heads=2 validation.eval_interval=5 logger.log_interval=1
""")
MODES = {
    "padded": ["-mb", "2"],
    "packed beforehand": [
        "-mb", "1", "dataset.enable_offline_packing=true", "dataset.offline_packing_specs.packed_sequence_size=192",
    ],
    "packed in the batch": ["-mb", "2", "dataset.enable_in_batch_packing=true", "dataset.dataloader_type=single"],
}  # fmt: skip


def start(place: Path, *words: str) -> "subprocess.Popen[str]":
    program = Path(sys.executable).with_name("run-recipe")
    return subprocess.Popen(
        [program, *WORDS, *words], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Its exit code, and what it said on standard error."""
    _, err = process.communicate(timeout=300)
    return process.returncode, err


@pytest.mark.parametrize("mode", MODES)
def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(tmp_path: Path, mode: str) -> None:
    folder_of_rows(tmp_path / "rows", validation=7)
    process = start(tmp_path, *MODES[mode], "--run-dir", "run", "-ms", "100000")
    deadline = time.monotonic() + 200
    while len(losses(tmp_path / "run")) < 3:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no update in time"
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    code, err = finish(process)
    assert code == 75, err
    assert "Traceback" not in err
    stopped_at = records(tmp_path / "run")[-1]["step"]

    further = str(stopped_at + 6)  # longer than the rest of the epoch, and a validation falls into it
    code, err = finish(start(tmp_path, *MODES[mode], "--run-dir", "run", "-ms", further))
    assert code == 0, err
    audit = [sys.executable, "-m", "trainwright.metrics_audit", str(tmp_path / "run"), "--expect-step", further]
    assert subprocess.run(audit, check=False, stdout=subprocess.DEVNULL).returncode == 0
    report = json.loads((tmp_path / "run" / "training_report.json").read_text())
    assert [step["iteration"] for step in report["steps"]][-1] == int(further)
    assert report["config"]["seq_length"] == (192 if mode == "packed beforehand" else 64)
    log = records(tmp_path / "run")
    assert any(record["event"] == "val" and record["step"] > stopped_at for record in log)
    assert all(0 < r["supervised_tokens"] < r["tokens"] for r in log if r["event"] == "train")

    code, err = finish(start(tmp_path, *MODES[mode], "--run-dir", "whole", "-ms", further))
    assert code == 0, err
    assert losses(tmp_path / "whole") == losses(tmp_path / "run")
