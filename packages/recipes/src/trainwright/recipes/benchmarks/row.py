"""A benchmark recipe as a row of a table: the numbers in which public ones differ."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

NAME = re.compile(
    r"(?P<task>pretrain|sft|peft)_(?P<gpus>[1-9][0-9]*)gpu_(?P<hardware>[a-z0-9]+)"
    r"_(?P<precision>bf16|fp8cs|fp8ds|fp8mx|fp8sc|nvfp4)(?:_(?P<variant>[a-z0-9_]+))?"
)
"""What a benchmark's name says between the model's stem and `_config`."""


@dataclass(frozen=True)
class Benchmark:
    """A row. Short names are those of run-recipe's flags; what a row leaves out is the default here."""

    stem: str
    written_for: str
    """Task, GPUs, hardware, precision and variant, as the name has them: `pretrain_8gpu_b200_bf16`."""

    tp: int = 1
    pp: int = 1
    vp: int | None = None
    cp: int = 1
    ep: int = 1
    layout: str | None = None
    """`model.pipeline_model_parallel_layout`."""
    sequence_parallel: bool = True
    """Wherever `tp` is above 1."""

    mbs: int = 1
    gbs: int = 512
    seq: int = 4096
    eval_interval: int = 2000
    save_interval: int = 500

    lr: float = 3e-4
    min_lr: float = 3e-5
    beta2: float = 0.95
    warmup: int = 10

    recompute: int | tuple[str, ...] = ()
    """The first so many blocks of a stage as a whole, or some modules of every block."""
    graphs: Literal["iteration"] | None = None
    """What is recorded as a CUDA graph: null for nothing."""
    overlap: Mapping[str, Any] | None = field(default_factory=dict)
    """Section `comm_overlap`; null where there is none."""
    tokenizer: int | str = 32_000
    """A number of tokens to count (`NullTokenizer`), or the hub id of a tokenizer."""
    workers: int = 8
    seed: int = 1234
    model: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `model`."""
    mixed: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `mixed_precision`, on top of what the precision stands for."""
    ddp: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `ddp`."""
    env: Mapping[str, str | None] = field(default_factory=dict)
    """Process environment, on top of what hardware and precision stand for; null takes a variable away."""

    @property
    def name(self) -> str:
        """The recipe's name."""
        return f"{self.stem}_{self.written_for}_config"

    def said(self, part: str) -> str:
        """A part of the name: `task`, `gpus`, `hardware`, `precision` or `variant`, which may be empty."""
        match = NAME.fullmatch(self.written_for)
        if match is None:
            raise ValueError(f"{self.name}: not the name of a benchmark")
        return match[part] or ""
