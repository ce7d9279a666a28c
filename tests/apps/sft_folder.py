"""A small folder for `--dataset local-jsonl`, and the words of a run that reads it."""

import json
from pathlib import Path

SMALL = ["model.num_layers=1", "model.hidden_size=16", "model.num_attention_heads=2", "-sl", "64"]
PACKED = ["dataset.enable_offline_packing=true", "train.micro_batch_size=1"]


def words(folder: Path, *more: str) -> list[str]:
    """A run on the folder; ids are bytes."""
    return [
        *("--recipe", "vanilla_gpt_sft_config", "--dataset", "local-jsonl", f"dataset.dataset_root={folder}"),
        *("tokenizer.tokenizer_type=ByteLevelTokenizer", "--device", "cpu", *SMALL, *more),
    ]


def write(folder: Path, rows: int = 12) -> Path:
    """Row k asks "Q<k>" and answers with 3 k letters, so that the last are cut at 64 tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("training", rows), ("validation", 3), ("test", 2)):
        lines = [json.dumps({"input": f"Q{k}", "output": chr(97 + k % 26) * 3 * k + "!"}) for k in range(1, count + 1)]
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder
