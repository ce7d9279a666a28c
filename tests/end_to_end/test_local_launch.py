"""`trainwright launch` with real ranks under the real torchrun."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.distributed

WORDS = shlex.split("""
    --recipe vanilla_gpt_pretrain_config --dataset mock --device cpu --run-dir run -tp 2 model.sequence_parallel=true
    -gb 2 -mb 1 -sl 32 --warmup_iters 1 model.num_layers=1 model.hidden_size=32 model.num_attention_heads=2
    validation.eval_interval=null logger.log_interval=1
""")


def start(place: Path, *words: str) -> "subprocess.Popen[str]":
    """The command as a process of its own, on two ranks."""
    program = Path(sys.executable).with_name("trainwright")
    return subprocess.Popen(
        [program, "launch", "--executor", "local", "--nproc-per-node", "2", *WORDS, *words],
        cwd=place,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Its exit code, and what it said on standard error."""
    _, err = process.communicate(timeout=300)
    return process.returncode, err


def test_a_stopped_run_comes_back_as_75_and_goes_on(tmp_path: Path) -> None:
    """SIGTERM to the launcher: a checkpoint and exit code 75; the same words again: done, and accepted."""
    # Only cyclic data keeps its order when the duration changes, and this run is to end soon after it goes on.
    endless = ("dataset.dataloader_type=cyclic", "scheduler.lr_decay_iters=100000")
    process = start(tmp_path, "-ms", "100000", *endless)
    log = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 200
    while not (log.exists() and log.read_bytes().count(b"\n") >= 3):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no update in time"
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    code, err = finish(process)
    assert code == 75, err
    assert "Traceback" not in err
    last = json.loads(log.read_text().splitlines()[-1])
    assert last["event"] == "session_interrupted"
    assert json.loads((tmp_path / "run" / "launch.json").read_text())["nproc_per_node"] == 2

    further = last["step"] + 3
    code, err = finish(start(tmp_path, "-ms", str(further), *endless))
    assert code == 0, err
    audit = [sys.executable, "-m", "trainwright.metrics_audit", str(tmp_path / "run"), "--expect-step", str(further)]
    assert subprocess.run(audit, check=False, stdout=subprocess.DEVNULL).returncode == 0


def test_a_run_that_fails_is_a_1_with_one_line_for_torchruns_wall(tmp_path: Path) -> None:
    """A loss that is not a number ends the run; torchrun's own words stay in the log."""
    code, err = finish(start(tmp_path, "-ms", "50", "--lr", "1e30", "optimizer.clip_grad=0"))
    assert code == 1, err
    assert "ChildFailedError" not in err
    assert "torch/distributed" not in err
    assert "failed first, with exit code 1" in err
    assert "ChildFailedError" in (tmp_path / "run" / "logs" / "torchrun.log").read_text()


def test_a_mistake_starts_no_rank(tmp_path: Path) -> None:
    """Validation happens before torchrun; nothing is left behind."""
    code, err = finish(start(tmp_path, "-ms", "5", "model.hidden_sise=32"))
    assert code == 2
    assert "hidden_size" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()
