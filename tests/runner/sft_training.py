"""Runs of the tiny Llama on rows of text, for the tests that fine-tune."""

import json
import random
from pathlib import Path

from tests.runner.training import TINY

SETTINGS = (
    *(word for word in TINY if not word.startswith("dataset.split")),
    "train.train_iters=8",
    "dataset.num_workers=0",
    "tokenizer.tokenizer_model=null",
    "model.vocab_size=257",
)


def folder_of_rows(folder: Path, training: int = 48, validation: int = 0) -> Path:
    """`training.jsonl`, and `validation.jsonl` where it is to have rows: sums, of very different lengths."""
    draw = random.Random(3)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("training", training), ("validation", validation)):
        rows = []
        for _ in range(count):
            first, second = draw.randrange(100), draw.randrange(100)
            rows.append(
                {
                    "input": f"{'Think. ' * draw.randrange(5)}{first} + {second} =",
                    "output": f"{first + second}{'!' * draw.randrange(9)}",
                }
            )
        if rows:
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def supervised_tokens(folder: Path) -> int:
    """Of one pass over the training rows with a token a byte: the space before each completion, it, and the end."""
    lines = (folder / "training.jsonl").read_text().splitlines()
    return sum(len(json.loads(line)["output"].encode()) + 2 for line in lines)


def train_rows(world_size: int, run_dir: Path, root: Path, *words: str) -> int:
    """One session on this rank of `world_size`; returns the exit code. To be called by `run_ranks`."""
    from trainwright.recipes import Selection, resolve
    from trainwright.runner.run import run

    selection = Selection(recipe="llama32_1b_sft_config", mode="sft", dataset="local-jsonl")
    overrides = [*SETTINGS, f"dataset.dataset_root={root}", *words]
    return run(resolve(selection, overrides, world_size=world_size, device="cpu"), run_dir=run_dir)
