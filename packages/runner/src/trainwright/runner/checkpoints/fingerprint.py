"""Which weights these are: a fingerprint of names, shapes, types and values, whatever file they lie in.

A Hugging Face directory and the native checkpoint that was imported from it have the same one, at whatever topology it
was written; so have a checkpoint with rows that pad the vocabulary and one without. One changed number changes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright.runner.checkpoints.weights import Weights

KIND = "sha256"


def fingerprint(weights: Weights, progress: Callable[[int], None] = lambda _: None) -> str:
    """`sha256:` and 64 hexadecimal digits. Reads all of the weights, one tensor at a time, of experts one expert.

    Many processes share the work with `digests`, each for some of the names, and `combined`.
    """
    return combined(digests(weights, weights.held, progress))


def digests(weights: Weights, names: Iterable[str], progress: Callable[[int], None] = lambda _: None) -> dict[str, str]:
    """Of each named parameter. `progress` is called with the bytes that have just been read."""
    return {name: _digest(weights, name, progress) for name in names}


def combined(found: Mapping[str, str]) -> str:
    """The fingerprint of a model whose parameters have the digests `found`, in whatever order."""
    lines = "".join(f"{name} {digest}\n" for name, digest in sorted(found.items()))
    return f"{KIND}:{hashlib.sha256(lines.encode()).hexdigest()}"


def _digest(weights: Weights, name: str, progress: Callable[[int], None]) -> str:
    shape, dtype = _unpadded(weights, name), weights.held[name].dtype
    total = hashlib.sha256(f"{list(shape)} {str(dtype).removeprefix('torch.')}\n".encode())
    for part in _parts(weights, name, shape):
        data = _bytes(part.to(dtype))
        total.update(data)
        progress(len(data))
    return total.hexdigest()


def _unpadded(weights: Weights, name: str) -> tuple[int, ...]:
    """The shape without rows that only pad the vocabulary, where the checkpoint says how many tokens there are."""
    from trainwright.runner.huggingface.parts import VOCABULARY

    shape = weights.held[name].shape
    tokens = weights.model.vocab_size if weights.model is not None else None
    return (min(tokens, shape[0]), *shape[1:]) if name in VOCABULARY and tokens is not None else shape


def _parts(weights: Weights, name: str, shape: tuple[int, ...]) -> Iterator[Tensor]:
    """The tensor in order of its elements, the same for every file: whole, or one of a stack after another."""
    zeros = (0,) * len(shape)
    if len(shape) < 3:
        yield weights.block(name, zeros, shape)
        return
    for index in range(shape[0]):
        yield weights.block(name, (index, *zeros[1:]), (1, *shape[1:]))


def _bytes(tensor: Tensor) -> memoryview:
    import torch

    return memoryview(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
