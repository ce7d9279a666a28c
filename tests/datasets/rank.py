"""One rank of a test: builds the datasets over gloo and writes what it saw as JSON.

python rank.py RANK WORLD_SIZE RENDEZVOUS_FILE CONFIG_JSON RESULT_JSON
"""

import json
import sys
from datetime import timedelta
from pathlib import Path


def main(rank: int, world_size: int, rendezvous: str, config_path: str, result_path: str) -> None:
    from torch import distributed

    distributed.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world_size, timeout=timedelta(seconds=60)
    )
    from trainwright.datasets import DataError, build_datasets, build_tokenizer
    from trainwright.recipes.config import ConfigContainer

    config = ConfigContainer.model_validate(json.loads(Path(config_path).read_text()))
    tokenizer = build_tokenizer(config.tokenizer)
    try:
        train, valid = build_datasets(config, tokenizer, train_samples=24, valid_samples=8)
        result = {
            "train": [train[i]["tokens"].tolist() for i in range(24)],
            "valid": [valid[i]["tokens"].tolist() for i in range(8)],
        }
    except DataError as error:
        result = {"error": str(error)}
    Path(result_path).write_text(json.dumps(result))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
