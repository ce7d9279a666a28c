"""A model of transformers put into ours, the way that a user's model gets there: through a saved directory."""

import tempfile
from pathlib import Path
from typing import Any

import torch


def fill_from(chunks: list[Any], reference: Any) -> None:
    """Give this rank's unwrapped chunks the weights of `reference`. All ranks call it."""
    from trainwright.runner.checkpoints.pretrained import fill
    from trainwright.runner.huggingface.weights import HuggingFaceWeights

    with tempfile.TemporaryDirectory() as own:
        folder = [own]
        torch.distributed.broadcast_object_list(folder)
        reference.save_pretrained(own)  # which writes on the first rank only
        torch.distributed.barrier()
        fill(chunks, HuggingFaceWeights(Path(folder[0])))
        torch.distributed.barrier()
