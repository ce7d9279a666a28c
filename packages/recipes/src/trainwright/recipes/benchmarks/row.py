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
    sequence_parallel: bool | None = None
    """Null: wherever `tp` is above 1."""

    mbs: int = 1
    gbs: int = 512
    seq: int = 4096

    dispatcher: Literal["alltoall", "deepep", "hybridep"] | None = None
    """How tokens get to experts; the last two are `flex` with that backend. Null for a dense model."""
    sms: int | None = None
    """Multiprocessors that HybridEP takes; null means 32 where it is used."""
    scan_sms: int | None = None
    """Multiprocessors that it takes to prepare."""
    capacity: float | None = None
    """Room for the tokens of a rank's experts, in even shares: Transformer Engine's fused products need it fixed."""
    stash: bool = True
    """Where there is `capacity`: activations of experts are kept in pages."""
    priority: bool = False
    """The stream on which tokens travel goes before others."""

    recompute: int | tuple[str, ...] | None = None
    """The first so many blocks of a stage as a whole, or these modules of every block."""
    graphs: Literal["iteration", "local"] | tuple[str, ...] | None = None
    """What is recorded as a CUDA graph: the whole iteration (`local` under its older name), or modules of a block."""
    graph_warmup: int = 3
    """Steps before that."""
    offload: int | None = None
    """Blocks whose activations wait in the host's memory."""
    offload_modules: tuple[str, ...] | None = None
    """Modules of every block whose activations do."""
    fsdp: bool = False
    """Megatron FSDP."""

    comm: bool = True
    """Whether there is a section `comm_overlap`."""
    tp_overlap: bool = False
    """`comm_overlap.tp_comm_overlap`."""
    buffers: str | None = None
    """Sizes in the name of its table of user buffers."""
    step_overlap: bool = False
    """Weights are gathered while others are still updated."""
    ep_overlap: bool = False
    """Tokens travel to experts behind another micro-batch's computation."""
    overlap: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `comm_overlap`."""

    lr: float = 3e-4
    min_lr: float = 3e-5
    beta2: float = 0.95
    warmup: int = 10
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `optimizer`."""
    weight_decay: float = 0.033
    """The scheduler's, which is the one that acts."""

    eval_interval: int = 2000
    save_interval: int = 500
    gc_interval: int = 100
    seed: int = 1234
    workers: int = 8
    tokenizer: int | str = 32_000
    """A number of tokens to count (`NullTokenizer`), or the hub id of a tokenizer."""
    te_rng: bool | None = None
    """Transformer Engine's states of random numbers; null: wherever a CUDA graph is recorded."""

    model: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `model`."""
    mixed: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `mixed_precision`, on top of what the precision stands for."""
    ddp: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `ddp`."""
    cudnn_norms: bool = False
    """Norms are cuDNN's."""
    env: Mapping[str, str | None] = field(default_factory=dict)
    """Process environment, on top of what the other columns stand for; null takes a variable away."""

    @property
    def name(self) -> str:
        """The recipe's name."""
        return f"{self.stem}_{self.written_for}_config"

    @property
    def records_iteration(self) -> bool:
        """Whether a CUDA graph holds the whole iteration."""
        return self.graphs in ("iteration", "local")

    def said(self, part: str) -> str:
        """A part of the name: `task`, `gpus`, `hardware`, `precision` or `variant`, which may be empty."""
        match = NAME.fullmatch(self.written_for)
        if match is None:
            raise ValueError(f"{self.name}: not the name of a benchmark")
        return match[part] or ""
