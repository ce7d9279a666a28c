"""The adapter of one linear layer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trainwright.runner.adapters.linear import bias_in_output, group_of, input_of
from trainwright.runner.adapters.rows import Rows
from trainwright.runner.adapters.ways import Way, way_of

if TYPE_CHECKING:
    from trainwright.recipes.config.peft import PeftConfig


class Part(torch.nn.Module):
    """The parameters of a part of a layer, as much of them as this rank holds."""

    lora_a: torch.nn.Parameter
    """[dim, columns]"""
    lora_b: torch.nn.Parameter
    """[rows, dim], zero at first: an adapter that changes nothing."""
    magnitude: torch.nn.Parameter | None
    """[rows]: the length of each row of W + alpha / dim * B A."""

    def __init__(self, weight: Tensor, rows: int, dim: int, *, with_magnitude: bool) -> None:
        super().__init__()
        # Of the weight's type and device, but never of its class: that may be one of eight bits.
        like = {"dtype": weight.dtype, "device": weight.device}
        self.lora_a = torch.nn.Parameter(torch.empty(dim, weight.size(1), **like))
        self.lora_b = torch.nn.Parameter(torch.zeros(rows, dim, **like))
        self.magnitude = torch.nn.Parameter(torch.zeros(rows, **like)) if with_magnitude else None

    def forward(self) -> Part:
        """Itself, its parameters up to date: what gathers them from other ranks waits for a module to be called."""
        return self


class Adapter(torch.nn.Module):
    """What is trained beside a frozen linear layer of weight W, bias b: of each part that has one, in place of W x + b

        LoRA  W x + alpha / dim * B A x + b                                        (arXiv:2106.09685)
        DoRA  m / |W + alpha / dim * B A| * (W x + alpha / dim * B A x) + b        (arXiv:2402.09353)

    m, a learnt number for each row, begins as the length of the row, and the length itself is a constant to the
    gradient, as the paper has it (section 4.3) and PEFT too. Dropout is of x before A, or of what B gives.
    """

    def __init__(
        self, layer: Any, rows: Rows, parts: tuple[str, ...], peft: PeftConfig, *, of_expert: bool = False
    ) -> None:
        super().__init__()
        self.rows, self.names, self.peft, self.way = rows, parts, peft, way_of(layer)
        self.scale = peft.alpha / peft.dim
        local = {name: width * rows.groups for name, width in rows.widths.items()}
        for name in parts:
            part = Part(layer.weight, local[name], peft.dim, with_magnitude=peft.scheme == "dora")
            for kind, parameter in part.named_parameters():
                mark(parameter, layer, self.way, kind)
            self.add_module(name, part)
        self.in_training_stream = stream_of(self.way, peft.dropout_position, of_expert=of_expert)

    def part(self, name: str) -> Part:
        """By its name."""
        found: Part = self.get_submodule(name)  # type: ignore[assignment]
        return found

    def forward(self, layer: Any, x: Tensor, output: Tensor) -> Tensor:
        """The layer's output for x, [..., columns], in place of `output`, [..., rows], which it gave without this."""
        group, parts = group_of(layer), self.rows.split(output)
        trained: dict[str, Part] = {name: self.part(name)() for name in self.names}
        narrow = self._narrow(input_of(layer, x), trained, group)
        added = {
            name: self._drop("post", self.way.up(narrow[name] * self.scale, part.lora_b, group))
            for name, part in trained.items()
        }
        if self.peft.scheme == "lora":
            return self.rows.join(parts | {name: parts[name] + more for name, more in added.items()})
        weights = self.rows.split(layer.weight.t())
        bias_of_all = bias_in_output(layer)
        biases = self.rows.split(bias_of_all) if bias_of_all is not None else {}
        for name, more in added.items():
            factor, bias = self._factor(trained[name], weights[name].t(), group), biases.get(name)
            if bias is None:
                parts[name] = factor * (parts[name] + more)
            else:
                parts[name] = factor * (parts[name] - bias + more) + bias
        return self.rows.join(parts)

    def _narrow(self, x: Tensor, trained: dict[str, Part], group: Any) -> dict[str, Tensor]:
        """What lies between A and B of each part; one product and one exchange between ranks for all of them."""
        x = self._drop("pre", x)
        matrices = [part.lora_a for part in trained.values()]
        all_of_them = matrices[0] if len(matrices) == 1 else torch.cat(list(matrices))
        narrow = self.way.down(x, all_of_them, group)
        return dict(zip(trained, narrow.split(self.peft.dim, dim=-1), strict=True))

    def _drop(self, position: str, x: Tensor) -> Tensor:
        if not self.peft.dropout or position != self.peft.dropout_position or not self.training:
            return x
        with self.in_training_stream():
            return F.dropout(x, self.peft.dropout)

    def _factor(self, part: Part, weight: Tensor, group: Any) -> Tensor:
        """m / |W + alpha / dim * B A|, [rows]."""
        magnitude = self.way.shared(part.get_parameter("magnitude"), group)
        return (magnitude.float() / self._lengths(part, weight, group)).to(magnitude.dtype)

    @torch.no_grad()
    def _lengths(self, part: Part, weight: Tensor, group: Any) -> Tensor:
        """Of each row over all columns, float32 [rows]."""
        whole = torch.addmm(weight.float(), part.lora_b.float(), part.lora_a.float(), alpha=self.scale)
        squares = whole.square_().sum(dim=1)
        if self.way.lora_a is not None and group is not None and group.size() > 1:
            torch.distributed.all_reduce(squares, group=group)
        # A row of zeros stays one, whatever it is divided by.
        return squares.sqrt_().clamp_(min=torch.finfo(torch.float32).tiny)

    @torch.no_grad()
    def measure(self, layer: Any) -> None:
        """Set DoRA's magnitudes to the lengths of the rows as they are."""
        group = group_of(layer)
        weights = self.rows.split(layer.weight.t())
        for name in self.names:
            part = self.part(name)
            if part.magnitude is not None:
                part.magnitude.copy_(self._lengths(part, weights[name].t(), group))

    @torch.no_grad()
    def initialize(self, layer: Any, path: str, columns: int, *, seed: int, std: float) -> None:
        """Draw A, whole, from a stream of its own, and keep this rank's columns: the same at every topology."""
        group = group_of(layer)
        for name in self.names:
            whole = torch.empty(self.peft.dim, columns)
            INITS[self.peft.lora_A_init_method](whole, std, generator_of(f"{seed} {path} {name}"))
            lora_a = self.part(name).lora_a
            if self.way.lora_a == 1 and group is not None:
                whole = whole.chunk(group.size(), dim=1)[group.rank()]
            lora_a.copy_(whole)


def mark(parameter: Any, layer: Any, way: Way, kind: str) -> None:
    """Tell Megatron Core over which ranks a parameter is split, and over which its gradient is added up."""
    from megatron.core.tensor_parallel import (
        set_defaults_if_not_set_tensor_model_parallel_attributes,
        set_tensor_model_parallel_attributes,
    )

    split = {"lora_a": way.lora_a, "lora_b": way.lora_b, "magnitude": way.lora_b}[kind]
    if split is not None:
        set_tensor_model_parallel_attributes(parameter, True, split, 1)
    set_defaults_if_not_set_tensor_model_parallel_attributes(parameter)
    parameter.allreduce = getattr(layer.weight, "allreduce", True)
    parameter.sequence_parallel = kind in way.partial


def stream_of(way: Way, position: str, *, of_expert: bool) -> Callable[[], AbstractContextManager[Any]]:
    """Where dropout's random numbers come from.

    Ranks that hold the same numbers need the same mask, and those that hold different ones different masks: Megatron
    Core keeps a stream for either, and one for each rank's experts, of which ranks draw differently many.
    """
    from megatron.core.tensor_parallel.random import get_cuda_rng_tracker, get_expert_parallel_rng_tracker_name

    if of_expert:
        return lambda: get_cuda_rng_tracker().fork(get_expert_parallel_rng_tracker_name())
    of_sequence = bool(way.partial)
    split = way.lora_a is not None if position == "pre" else way.lora_b is not None
    return (lambda: get_cuda_rng_tracker().fork()) if of_sequence or split else nullcontext


def generator_of(name: str) -> torch.Generator:
    """A generator that everybody gets for this name."""
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big"))


INITS: Mapping[str, Callable[[Tensor, float, torch.Generator], Any]] = {
    "xavier": lambda matrix, std, draw: torch.nn.init.xavier_normal_(matrix, generator=draw),
    "kaiming": lambda matrix, std, draw: torch.nn.init.kaiming_uniform_(matrix, a=math.sqrt(5), generator=draw),
    "normal": lambda matrix, std, draw: torch.nn.init.normal_(matrix, std=std, generator=draw),
}
"""`peft.lora_A_init_method` -> what fills a matrix [dim, columns]."""
