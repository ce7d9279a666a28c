"""A benchmark that is not run as it was written says so wherever somebody will look."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from trainwright.report_schema import read_diagnostics

RECIPE = "llama3_8b_pretrain_8gpu_h100_bf16_config"
SMALL = """
    model.num_layers=2 model.hidden_size=64 model.ffn_hidden_size=128 model.num_attention_heads=4
    model.num_query_groups=2 model.kv_channels=16 tokenizer.vocab_size=512
    -sl 64 -cp 1 -ms 3 --warmup_iters 1
"""


def test_an_overridden_run_says_so_in_the_log_the_session_and_the_report(tmp_path: Path) -> None:
    """One rank instead of eight: 128 sequences become 16. The shell's variable stays, the recipe's are there."""
    words = ["--recipe", RECIPE, "--device", "cpu", "--run-dir", "run", *shlex.split(SMALL), "--dump-env"]
    done = subprocess.run(
        [sys.executable, "-m", "trainwright_trainer", *words],
        cwd=tmp_path,
        env={**os.environ, "NCCL_NVLS_ENABLE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert said.count("NCCL_NVLS_ENABLE=1  # shell") == said.count("TORCH_NCCL_HIGH_PRIORITY=1  # recipe") == 1
    (scaled,) = [line for line in said if "weak scaling" in line and "not the canonical" not in line]
    assert scaled.endswith("1 ranks instead of 8 keep 16 sequences per GPU: train.global_batch_size 128 -> 16")
    assert any(line.startswith("run-recipe: not the canonical benchmark: world size: 8 -> 1; ") for line in said)

    (session,) = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))["sessions"]
    recipe = session["recipe"]
    assert (recipe["name"], recipe["canonical"]) == (RECIPE, False)
    assert (recipe["batch_size"], recipe["gradient_accumulation_steps"]) == (1, 16)
    for line in (
        "world size: 8 -> 1",
        "train.train_iters: 50 -> 3 (flag --max_steps)",
        "train.global_batch_size: 128 -> 16 (weak scaling)",
        "model.num_layers: 32 -> 2 (override)",
        "mixed_precision.bf16: true -> false (device)",
        "env_vars.NCCL_NVLS_ENABLE: 0 -> 1 (shell)",
    ):
        assert line in recipe["canonical_differences"]
    diagnostics = read_diagnostics(tmp_path / "run" / "training_report.diagnostics.json")
    assert (diagnostics.canonical, diagnostics.canonical_differences) == (False, recipe["canonical_differences"])
    environment = json.loads((tmp_path / "run" / "environment.json").read_text(encoding="utf-8"))
    assert environment["canonical_differences"] == recipe["canonical_differences"]
