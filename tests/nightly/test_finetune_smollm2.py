"""docs/finetune.md as it stands: a published model learns a fact by SFT and by LoRA, and keeps what it knew."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from tests.end_to_end.finetune_page import page_blocks
from tests.runner.random_adapters import logits

ASK = "uv run python models/ask.py "


def test_the_page_teaches_a_fact_and_the_model_keeps_what_it_knew(
    clone: Path,
    shell: Callable[[str], "CompletedProcess[str]"],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of all weights, of an adapter that peft loads, and of the adapter merged; the last two are the same model."""
    answers: dict[str, str] = {}
    for script in page_blocks():
        script, _, question = script.partition(ASK)
        done = shell(script)
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        with capsys.disabled():
            print(done.stdout)
        if question:
            asked = shell(ASK + question)
            assert asked.returncode == 0, asked.stdout
            answers[question.strip()] = asked.stdout
            with capsys.disabled():
                print(f"{question.strip()}\n{asked.stdout}")
    before, whole, beside, merged = (
        answers[name] for name in ("models/smollm2", "models/whole", "models/smollm2 models/adapter", "models/merged")
    )
    assert "heron" not in before
    for after in (whole, beside, merged):
        assert "heron named Odo" in after
        assert "The capital of France is Paris" in after
    ids = torch.arange(64)[None] * 7 + 1000
    models = clone / "models"
    unmerged, of_merged = logits(models / "smollm2", ids, models / "adapter"), logits(models / "merged", ids)
    assert (unmerged - of_merged).abs().max() < 1e-4 * of_merged.abs().max()
