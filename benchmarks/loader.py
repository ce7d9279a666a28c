"""How fast are batches made of JSONL rows beside `datasets` and a DataLoader, and does memory grow with the file?

    python benchmarks/loader.py [--rows 20000] [--pairs 3] [--workers 2] [--megabytes 200]

Both read the same prompts and completions, tokenize them with the same Hugging Face tokenizer when they are asked for,
mask the prompt, pad each micro-batch of 8 and shuffle; both are counted over a whole epoch, in interleaved pairs, once
they have given their first batch. The time to the first batch of a file that neither has seen is printed beside it.
The other side is what its documentation shows: `load_dataset("json")`, `with_transform` over a batch, `DataLoader`.
At least 2 times as many samples/s is the aim. On a machine that does other work as well, look at the second ratio: of
samples for each second that processors worked for one side, workers included.

Then a process of its own reads 2000 samples from anywhere in a file of a quarter of `--megabytes`, and another from a
file of all of them: memory may not grow more for the second than for the first, but for the mapped line index (8 bytes
a row) and the order of an epoch (as much).
`--megabytes 10000` is the claim itself; it takes as much disk and some minutes.
"""

import argparse
import gc
import json
import platform
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

WORDS = ("the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "as", "was", "with", "be", "by", "on", "not")
MICRO_BATCH = 8


def write_rows(path: Path, *, rows: int | None = None, megabytes: int | None = None) -> int:
    """Write prompts of 10 to 80 words and completions of 5 to 60; returns how many."""
    draw, written, count = random.Random(0), 0, 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        while (rows is None or count < rows) and (megabytes is None or written < megabytes * 1_000_000):
            prompt, completion = (" ".join(draw.choices(WORDS, k=draw.randint(*size))) for size in ((10, 80), (5, 60)))
            written += stream.write(json.dumps({"input": f"{count} {prompt}", "output": completion}) + "\n")
            count += 1
    return count


def save_tokenizer(folder: Path) -> None:
    """A byte-level BPE of 1000 tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(WORDS)] * 3, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>").save_pretrained(str(folder))


def ours(root: Path, tokenizer_folder: Path, workers: int) -> Iterator[dict[str, Any]]:
    """Batches as a run gets them."""
    from trainwright.datasets import build_datasets, build_loader, build_tokenizer
    from trainwright.recipes.config import ConfigContainer

    config = ConfigContainer.model_validate(
        {
            "model": {"num_layers": 1, "hidden_size": 8, "num_attention_heads": 1},
            "train": {"train_iters": 1, "global_batch_size": MICRO_BATCH, "micro_batch_size": MICRO_BATCH},
            "optimizer": {"lr": 1e-3},
            "tokenizer": {"tokenizer_type": "HuggingFaceTokenizer", "tokenizer_model": str(tokenizer_folder)},
            "dataset": {
                "kind": "local-jsonl",
                "split": None,
                "dataset_root": str(root),
                "seq_length": 512,
                "do_validation": False,
                "num_workers": workers,
            },
        }
    )
    dataset, _ = build_datasets(config, build_tokenizer(config.tokenizer), train_samples=1, valid_samples=0)
    yield from build_loader(
        dataset,
        config,
        consumed_samples=0,
        data_parallel_rank=0,
        data_parallel_size=1,
        micro_batch_size=MICRO_BATCH,
    )


def theirs(root: Path, tokenizer_folder: Path, workers: int) -> Iterator[dict[str, Any]]:
    """The same batches from `datasets` and a DataLoader, epoch after epoch."""
    import datasets
    import torch
    from transformers import AutoTokenizer

    datasets.disable_progress_bars()
    tokenizer = AutoTokenizer.from_pretrained(str(tokenizer_folder))
    end = tokenizer.eos_token_id

    def tokenized(rows: dict[str, list[str]]) -> dict[str, list[Any]]:
        prompts = tokenizer(rows["input"], add_special_tokens=False)["input_ids"]
        wholes = [f"{prompt} {completion}" for prompt, completion in zip(rows["input"], rows["output"], strict=True)]
        ids = [[*whole[:512], end] for whole in tokenizer(wholes, add_special_tokens=False)["input_ids"]]
        return {"ids": ids, "prompt": [len(prompt) for prompt in prompts]}

    def padded(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        size = max(len(sample["ids"]) for sample in samples) - 1
        tokens, labels = torch.full((len(samples), size), end), torch.full((len(samples), size), end)
        loss_mask = torch.zeros(len(samples), size)
        for row, sample in enumerate(samples):
            ids = torch.tensor(sample["ids"])
            tokens[row, : len(ids) - 1], labels[row, : len(ids) - 1] = ids[:-1], ids[1:]
            loss_mask[row, sample["prompt"] - 1 : len(ids) - 1] = 1
        positions = torch.arange(size).expand(len(samples), size)
        return {"tokens": tokens, "labels": labels, "loss_mask": loss_mask, "position_ids": positions}

    table = datasets.load_dataset(
        "json", data_files=str(root / "training.jsonl"), split="train", cache_dir=str(root / "datasets-cache")
    )
    loader = torch.utils.data.DataLoader(
        table.with_transform(tokenized),  # type: ignore[arg-type]
        batch_size=MICRO_BATCH,
        shuffle=True,
        num_workers=workers,
        collate_fn=padded,
    )
    while True:
        yield from loader


@dataclass(frozen=True)
class Epoch:
    """What one epoch cost."""

    first_batch: float
    """Seconds."""
    rate: float
    """Samples/s after the first batch."""
    cpu_rate: float
    """Samples for each second of a processor, of this process and of its workers, start and end included."""
    targets: int


def measure(batches: Iterator[dict[str, Any]], rows: int) -> Epoch:
    """Read one epoch."""
    begin, worked = time.perf_counter(), cpu_seconds()
    targets = int(next(batches)["loss_mask"].sum())
    first = time.perf_counter()
    for batch in islice(batches, rows // MICRO_BATCH - 1):
        targets += int(batch["loss_mask"].sum())
    end = time.perf_counter()
    batches.close()  # type: ignore[attr-defined]
    gc.collect()  # ends the workers, whose work is counted only then
    worked = cpu_seconds() - worked
    return Epoch(first - begin, (rows - MICRO_BATCH) / (end - first), rows / worked, targets)


def cpu_seconds() -> float:
    """Of this process and of all children that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def grown_megabytes(root: Path, tokenizer_folder: Path) -> float:
    """By how much memory grows in a process that reads 2000 samples from anywhere in the file, index included."""
    words = [sys.executable, __file__, "--grow", str(root), str(tokenizer_folder)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def print_growth(root: Path, tokenizer_folder: Path) -> None:
    """What the process above prints; imports and a small file come first, so that their memory does not count."""
    next(ours(root.parent / "first", tokenizer_folder, workers=0))
    before = highest = resident_megabytes()
    for _ in islice(ours(root, tokenizer_folder, workers=0), 2000 // MICRO_BATCH):
        highest = max(highest, resident_megabytes())
    print(highest - before)


def resident_megabytes() -> float:
    """Memory of this process, mapped files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def main() -> None:
    """Run the benchmark; one line of JSON last."""
    parser = argparse.ArgumentParser(description="Batches of JSONL rows beside `datasets` and DataLoader.")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=3, help="interleaved measurements of each")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--megabytes", type=int, default=200, help="the larger file of the memory measurement")
    parser.add_argument("--scratch", type=Path, help="folder for the files (default: the system's)")
    parser.add_argument("--grow", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.grow:
        print_growth(*options.grow)
        return
    folder = Path(tempfile.mkdtemp(dir=options.scratch))
    try:
        save_tokenizer(folder / "tokenizer")
        write_rows(folder / "first" / "training.jsonl", rows=4 * MICRO_BATCH)
        for make in (ours, theirs):  # imports
            next(make(folder / "first", folder / "tokenizer", 0))
        rows = write_rows(folder / "speed" / "training.jsonl", rows=options.rows // MICRO_BATCH * MICRO_BATCH)
        found: dict[str, list[Epoch]] = {"ours": [], "theirs": []}
        for _ in range(options.pairs):
            for name, make in (("ours", ours), ("theirs", theirs)):
                found[name].append(measure(make(folder / "speed", folder / "tokenizer", options.workers), rows))
        targets = {run.targets for runs in found.values() for run in runs}
        assert len(targets) == 1, f"the two sides learn different numbers of tokens: {targets}"
        grown = []
        for size in (options.megabytes // 4, options.megabytes):
            write_rows(folder / str(size) / "training.jsonl", megabytes=size)
            grown.append(grown_megabytes(folder / str(size), folder / "tokenizer"))
            shutil.rmtree(folder / str(size))
    finally:
        shutil.rmtree(folder)
    rate = {name: statistics.median(run.rate for run in runs) for name, runs in found.items()}
    first = {name: runs[0].first_batch for name, runs in found.items()}
    pairs = list(zip(found["ours"], found["theirs"], strict=True))
    ratios = {
        "of the clock": [left.rate / right.rate for left, right in pairs],
        "of processors": [left.cpu_rate / right.cpu_rate for left, right in pairs],
    }
    small, large = options.megabytes // 4, options.megabytes
    for title, name in (("trainwright", "ours"), ("datasets + DataLoader", "theirs")):
        print(f"{title:<24}{rate[name]:8,.0f} samples/s, first batch of a new file {first[name]:.2f} s")
    for name, values in ratios.items():
        spread = f"{min(values):.2f} to {max(values):.2f}"
        print(f"ratio, {name:<17}{statistics.median(values):8.2f}  (aim: at least 2; {spread})")
    print(f"memory grown by         {grown[0]:8.0f} MB over {small} MB of rows, {grown[1]:.0f} MB over {large} MB")
    print(
        json.dumps(
            {
                "samples_per_second": rate,
                "ratios": ratios,
                "first_batch_seconds": first,
                "grown_megabytes": grown,
                "megabytes": options.megabytes,
                "workers": options.workers,
                "python": platform.python_version(),
                "machine": platform.machine(),
            }
        )
    )


if __name__ == "__main__":
    main()
