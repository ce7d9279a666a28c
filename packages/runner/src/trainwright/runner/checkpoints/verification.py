"""Whether two checkpoints compute the same: their logits on a few tokens, on the CPU in float32."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright.recipes import ConfigContainer
    from trainwright.recipes.config.model import ModelConfig

SEED = 1234


@dataclass(frozen=True)
class Agreement:
    """How two models' logits compare."""

    difference: float
    """Largest absolute one."""
    largest: float
    """Largest absolute logit of the first."""
    same_choice: int
    """Tokens at which both have the same largest logit."""
    tokens: int


def compare(first: Path, second: Path, *, tokens: int, step: int | None = None) -> Agreement:
    """Compare the logits of two checkpoints on `tokens` random tokens; transformers computes Hugging Face's.

    Call it once in a process, before anything of Megatron is imported. `step` is for native ones.

    Raises:
        RunRefused: one of them cannot be read, or they have other vocabularies.
    """
    import torch

    sizes = [vocabulary(path, step) for path in (first, second)]
    if sizes[0] != sizes[1]:
        raise RunRefused(f"{first} has {sizes[0]} tokens and {second} {sizes[1]}: these are two models")
    ids = torch.randint(0, sizes[0], (1, tokens), generator=torch.Generator().manual_seed(SEED))
    ours, theirs = (logits(path, ids, step) for path in (first, second))
    return Agreement(
        difference=(ours - theirs).abs().max().item(),
        largest=ours.abs().max().item(),
        same_choice=int((ours.argmax(-1) == theirs.argmax(-1)).sum()),
        tokens=tokens,
    )


def vocabulary(path: Path, step: int | None) -> int:
    """Tokens of the model at `path`."""
    from trainwright.runner.devices import use_device

    use_device("cpu")
    from trainwright.runner.checkpoints.conversion import open_weights, require_model

    return int(require_model(open_weights(path, step)).vocab_size or 0)


def logits(path: Path, ids: Tensor, step: int | None = None) -> Tensor:
    """Of the model at `path` for `ids` [1, length]: float32 [1, length, vocabulary]."""
    from trainwright.runner.huggingface.folder import is_huggingface

    return _of_transformers(path, ids) if is_huggingface(path) else _of_ours(path, ids, step)


def _of_transformers(path: Path, ids: Tensor) -> Tensor:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(str(path), dtype=torch.float32, local_files_only=True).eval()
    with torch.no_grad():
        found: Tensor = model(input_ids=ids).logits.float()
    return found


def _of_ours(path: Path, ids: Tensor, step: int | None) -> Tensor:
    import torch

    from trainwright.runner.checkpoints.conversion import open_weights, require_model
    from trainwright.runner.checkpoints.pretrained import fill
    from trainwright.runner.devices import use_device
    from trainwright.runner.distributed import Place, start, stop
    from trainwright.runner.models import build_model

    weights = open_weights(path, step)
    model = require_model(weights)
    config = plain_run(model, ids.size(1))
    if not torch.distributed.is_initialized():
        start(config, use_device("cpu"), Place(0, 1, 0, 1, "none"))
    tokens = int(model.vocab_size or 0)
    (chunk,) = build_model(config, vocab_size=tokens)
    fill([chunk], weights)
    with torch.no_grad():
        found: Tensor = chunk.eval()(ids, torch.arange(ids.size(1))[None], None, runtime_gather_output=True)
    stop()
    return found[..., :tokens].float()


def plain_run(model: ModelConfig, length: int) -> ConfigContainer:
    """A configuration in which one CPU rank computes what the model is, in float32."""
    from trainwright.recipes import ConfigContainer
    from trainwright.runner.huggingface.family import architecture

    tokens = {
        "vocab_size": model.vocab_size,
        "seq_length": length,
        "max_position_embeddings": model.max_position_embeddings,
    }
    values: dict[str, Any] = {
        "model": {**architecture(model), **tokens},
        "train": {"train_iters": 1, "global_batch_size": 1, "micro_batch_size": 1},
        "dataset": {"seq_length": length},
        "optimizer": {"lr": 1.0},
        "dist": {"distributed_backend": "gloo"},
    }
    return ConfigContainer.model_validate(values)
