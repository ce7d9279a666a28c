"""One rank of a test: builds the datasets of several cases over gloo and writes what it saw as JSON.

python rank.py RANK WORLD_SIZE RENDEZVOUS_FILE CASES_JSON RESULTS_JSON
"""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any


def main(rank: int, world_size: int, rendezvous: str, cases_path: str, results_path: str) -> None:
    from torch import distributed

    distributed.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world_size, timeout=timedelta(seconds=120)
    )
    cases = json.loads(Path(cases_path).read_text())
    results = {name: build(case["configs"][rank], case["local_ranks"][rank]) for name, case in cases.items()}
    Path(results_path).write_text(json.dumps(results))
    distributed.destroy_process_group()


def build(words: dict[str, Any], local_rank: int) -> dict[str, Any]:
    from trainwright.datasets import DataError, build_datasets, build_tokenizer
    from trainwright.recipes.config import ConfigContainer

    os.environ["LOCAL_RANK"] = str(local_rank)
    config = ConfigContainer.model_validate(words)
    try:
        train, valid = build_datasets(config, build_tokenizer(config.tokenizer), train_samples=24, valid_samples=8)
    except DataError as error:
        return {"error": str(error)}
    return {
        "train": [train[i]["tokens"].tolist() for i in range(24)],
        "valid": [valid[i]["tokens"].tolist() for i in range(8)],
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
