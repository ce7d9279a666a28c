"""`adapter_config.json`: what PEFT says of an adapter, and what of it is an adapter here."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.folder import read_json

ADAPTER_CONFIG, ADAPTER_FILE = "adapter_config.json", "adapter_model.safetensors"

ONLY: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "lora_bias": (False,),
    "fan_in_fan_out": (False,),
    "use_qalora": (False,),
    # The other ways to begin change the weights that the adapter stands beside.
    "init_lora_weights": (True, False, "gaussian", "eva"),
}
"""Fields and the values with which an adapter is one of ours; the first one where a field is left out."""

WITHOUT_EFFECT = frozenset(
    """
    auto_mapping base_model_name_or_path ensure_weight_tying eva_config exclude_modules inference_mode layers_pattern
    layers_to_transform lora_alpha lora_dropout megatron_config megatron_core peft_version qalora_group_size r
    rank_pattern alpha_pattern revision runtime_config target_modules target_parameters task_type use_dora use_rslora
    """.split()  # noqa: SIM905 - a list of words reads better as words
) | frozenset(ONLY)
"""Fields that are read here, or that say nothing which the tensors do not; any other has to be empty."""


def is_peft(path: Path) -> bool:
    """Whether `path` is a folder as peft's `save_pretrained` leaves it."""
    return (path / ADAPTER_CONFIG).is_file()


@dataclass(frozen=True)
class PeftSettings:
    """What `adapter_config.json` says."""

    where: Path
    rank: int
    alpha: float
    dropout: float = 0.0
    dora: bool = False
    rank_stabilised: bool = False
    """The scale is alpha / sqrt(rank), arXiv:2312.03732."""
    ranks: dict[str, int] = field(default_factory=dict)
    alphas: dict[str, float] = field(default_factory=dict)
    """Patterns of names, and what holds there instead."""
    parameters: tuple[str, ...] = ()
    """Ends of names of stacked parameters that it adapts."""
    base: str | None = None

    def scale(self, name: str, rank: int) -> float:
        """By which the adapter of rank `rank` of the module or parameter `name` is multiplied.

        Raises:
            RunRefused: its rank should be another one.
        """
        wanted = self.ranks.get(_fitting(self.ranks, name), self.rank)
        if rank != wanted:
            raise RunRefused(f"{self.where}: {name} is of rank {rank}, and it says {wanted}")
        alpha = self.alphas.get(_fitting(self.alphas, name), self.alpha)
        return alpha / (math.sqrt(rank) if self.rank_stabilised else rank)


def _fitting(patterns: dict[str, Any], name: str) -> str:
    """The first pattern that fits, as peft looks for it: over the whole name, or over its end after a dot."""
    return next((one for one in patterns if re.fullmatch(rf"(.*\.)?({one})", name)), "")


def read_settings(folder: Path) -> PeftSettings:
    """Of the directory `folder`.

    Raises:
        RunRefused: there is none, it is no LoRA or DoRA, or it says something that is not known here.
    """
    where = folder / ADAPTER_CONFIG
    values = read_json(where)
    for name, allowed in ONLY.items():
        if values.get(name, allowed[0]) not in allowed:
            wanted = " or ".join(repr(value) for value in allowed)
            raise RunRefused(f"{where}: {name}={values[name]!r} is no adapter that is known here; it can be {wanted}")
    unknown = sorted(name for name in values.keys() - WITHOUT_EFFECT if values[name] not in (None, False, [], {}, ""))
    if unknown:
        raise RunRefused(f"{where}: {unknown[0]}={values[unknown[0]]!r} is not known here")
    rank, alpha = _number(values, "r", where), _number(values, "lora_alpha", where)
    if rank != int(rank):
        raise RunRefused(f"{where}: r={rank!r} has to be a whole number")
    return PeftSettings(
        where,
        int(rank),
        float(alpha),
        dropout=float(values.get("lora_dropout") or 0.0),
        dora=bool(values.get("use_dora")),
        rank_stabilised=bool(values.get("use_rslora")),
        ranks=_patterns(values, "rank_pattern", where),
        alphas=_patterns(values, "alpha_pattern", where),
        parameters=tuple(values.get("target_parameters") or ()),
        base=values.get("base_model_name_or_path") or None,
    )


def _number(values: dict[str, Any], name: str, where: Path) -> float:
    found = values.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float) or found <= 0:
        raise RunRefused(f"{where}: {name}={found!r} has to be a number above 0")
    return found


def _patterns(values: dict[str, Any], name: str, where: Path) -> dict[str, Any]:
    found = values.get(name) or {}
    try:
        for pattern, value in found.items():
            re.compile(pattern)
            _number({pattern: value}, pattern, where)
    except (AttributeError, TypeError, re.error) as error:
        raise RunRefused(f"{where}: {name}={found!r} is no object of patterns and numbers: {error}") from error
    return dict(found)
