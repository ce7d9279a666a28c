"""How fast are models converted beside copying their files, and in how much memory?

    python benchmarks/checkpoint_convert.py [--shards 8] [--shard-mb 512] [--pairs 3] [--folder DIR]

A synthetic Llama in bfloat16, in that many safetensors files, is imported and exported again; between the two its files
are copied, so that a busy machine or disk slows all. Prints GB/s of each and the ratio to copying (median over pairs),
and how far anonymous memory rose above what Python's imports alone take, in shards. The aim: below 1.3 shards. Files
are synced to disk in all three.
"""

import argparse
import importlib
import json
import math
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

HIDDEN, FEED_FORWARD, HEADS, GROUPS, VOCABULARY = 4096, 14_336, 32, 8, 32_000


def make(folder: Path, shards: int, shard_bytes: int) -> None:
    """As many blocks of Llama-3-8B's sizes as fill the shards, random."""
    from trainwright.recipes.config.model import ModelConfig
    from trainwright.runner.huggingface.llama import FAMILY
    from trainwright.runner.huggingface.safetensors_file import Planned, write_safetensors

    block = HIDDEN * (HIDDEN * 2 + HIDDEN // HEADS * GROUPS * 2 + FEED_FORWARD * 3) * 2
    sizes = {
        "num_layers": max(1, (shards * shard_bytes - VOCABULARY * HIDDEN * 2) // block),
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_query_groups": GROUPS,
        "kv_channels": HIDDEN // HEADS,
        "ffn_hidden_size": FEED_FORWARD,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 8192,
        **FAMILY.ours,
        "position_embedding_type": "rope",
    }
    model = ModelConfig.model_validate(sizes)
    slots = {slot.name: slot.shape for rule in FAMILY.rules(model) for slot in rule.theirs}
    planned = {name: Planned(shape, torch.bfloat16) for name, shape in slots.items()}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**FAMILY.hf_config(model), "torch_dtype": "bfloat16"}))
    write_safetensors(folder, planned, lambda name: torch.randn(slots[name], dtype=torch.bfloat16), largest=shard_bytes)


def anonymous() -> int:
    """Bytes of this process that are in no file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not say RssAnon")


def watched(work: Callable[[], object]) -> tuple[float, int]:
    """Seconds of the work, and the most anonymous memory in bytes above what there was before."""
    before, most, done = anonymous(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            most[0] = max(most[0], anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    return seconds, max(0, most[0] - before)


def copied(source: Path, target: Path) -> None:
    """The files, synced."""
    shutil.copytree(source, target)
    for file in target.iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--shard-mb", type=int, default=512)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to work; by default the folder for temporary files")
    asked = parser.parse_args()

    from trainwright.runner.devices import use_device

    use_device("cpu")
    for module in ("native", "write_weights"):  # so that their memory is not the work's
        importlib.import_module(f"trainwright.runner.checkpoints.{module}")
    from trainwright.runner.checkpoints.conversion import export_huggingface, import_huggingface

    shard = asked.shard_mb * 10**6
    found: dict[str, list[tuple[float, int]]] = {"copy": [], "import": [], "export": []}
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        folder = Path(name)
        source, copy, native, back = (folder / part for part in ("source", "copy", "native", "back"))
        make(source, asked.shards, shard)
        gigabytes = sum(file.stat().st_size for file in source.iterdir()) / 1e9
        for _ in range(asked.pairs):
            found["import"].append(watched(lambda: import_huggingface(source, native, lambda _: None)))
            found["copy"].append(watched(lambda: copied(source, copy)))
            found["export"].append(watched(lambda: export_huggingface(native, back, lambda _: None, largest=shard)))
            for made in (native, copy, back):
                shutil.rmtree(made)
    result = {"gigabytes": round(gigabytes, 2), "shards": math.ceil(gigabytes * 1e9 / shard)}
    for kind, runs in found.items():
        speed = statistics.median(gigabytes / seconds for seconds, _ in runs)
        pairs = zip(runs, found["copy"], strict=True)
        ratio = statistics.median(of_copy / seconds for (seconds, _), (of_copy, _) in pairs)
        memory = max(most for _, most in runs) / shard
        result[kind] = {
            "gb_per_s": round(speed, 3),
            "speed_of_copy": round(ratio, 2),
            "shards_of_memory": round(memory, 2),
        }
        print(f"{kind:<7} {speed:6.2f} GB/s  {ratio:5.2f} of copying  {memory:5.2f} shards of anonymous memory")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
