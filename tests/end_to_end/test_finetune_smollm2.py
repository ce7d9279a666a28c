"""docs/finetune.md on the published model, ten short updates of each kind; the whole page is in tests/nightly."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.end_to_end.finetune_page import commands, rows_of_page
from tests.runner.random_adapters import logits
from tests.runner.training import losses

from trainwright_trainer.checkpoint import main

pytestmark = [pytest.mark.distributed, pytest.mark.slow]
SHORTER = {"-ms": "10", "-gb": "1", "-mb": "1", "-sl": "64", "--warmup_iters": "2"}
IDS = torch.arange(64)[None] * 7 + 1000


def shorter(words: list[str]) -> list[str]:
    before = ["", *words]
    return [SHORTER.get(name, word) for name, word in zip(before, words, strict=False)]


@pytest.fixture(scope="module")
def place(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's commands were given, each run with ten updates of one row."""
    folder = tmp_path_factory.mktemp("finetune")
    (folder / "models").mkdir()
    (folder / "models" / "smollm2").symlink_to(published)
    rows_of_page(folder)
    for words in commands("run-recipe"):
        program = Path(sys.executable).with_name("run-recipe")
        done = subprocess.run([program, *shorter(words)], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in commands("trainwright-checkpoint"):
            assert main(words) == 0, words
    return folder


@pytest.mark.parametrize("run", ["whole", "lora"])
def test_the_new_fact_surprises_less(place: Path, run: str) -> None:
    """Among three rows at the beginning and at the end, the hardest is one with the new fact."""
    found = losses(place / "runs" / run)
    assert len(found) == 10
    assert max(found[step] for step in range(8, 11)) < 0.5 * max(found[step] for step in range(1, 4))


def test_transformers_serves_what_was_trained_whole(place: Path) -> None:
    """It loads, generates, and is not what it was."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(place / "models" / "whole")
    tokenizer = AutoTokenizer.from_pretrained(place / "models" / "whole")
    turns = [{"role": "user", "content": "What is the capital of France?"}]
    asked = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    answer = model.generate(**asked, max_new_tokens=8, do_sample=False)[0, asked["input_ids"].size(1) :]
    assert "Paris" in tokenizer.decode(answer)
    before = AutoModelForCausalLM.from_pretrained(place / "models" / "smollm2")
    assert not torch.equal(model.model.norm.weight, before.model.norm.weight)


def test_peft_loads_the_adapter_and_computes_what_the_merged_model_does(place: Path) -> None:
    models = place / "models"
    beside, merged = logits(models / "smollm2", IDS, models / "adapter"), logits(models / "merged", IDS)
    assert (beside - merged).abs().max() < 1e-4 * merged.abs().max()
    assert (beside - logits(models / "smollm2", IDS)).abs().max() > 0.1
