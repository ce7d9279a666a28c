"""An adapter written in PEFT's format, as peft 0.21 loads it beside a model of transformers 5.

There the experts of a block are stacked parameters, which peft adapts through `target_parameters`. In a model with
experts peft takes `gate_proj`, `up_proj` and `down_proj` in `target_modules` for those of experts, whatever stands
before them; so those of dense blocks and of shared experts are named as parameters too, under which their tensors have
the same names. Where a stack holds several parts of ours its rank is theirs together, which `rank_pattern` says; peft
then warns that the pattern matched no module, and follows it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trainwright.runner.checkpoints.adapter_rows import Factors
from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.families import family_of_model
from trainwright.runner.huggingface.peft_adapter import BASE_PATH, FINGERPRINT, PREFIX, STACKED_FIRST
from trainwright.runner.huggingface.peft_factors import to_peft, touching
from trainwright.runner.huggingface.peft_layout import Layer, Theirs, layers
from trainwright.runner.huggingface.peft_settings import ADAPTER_CONFIG, ADAPTER_FILE
from trainwright.runner.huggingface.safetensors_file import Planned, write_file

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright.runner.checkpoints.adapter import Adapter

TAKEN_FOR_EXPERTS = ("gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class Module:
    """A module or stacked parameter of theirs that gets an adapter."""

    layer: Layer
    theirs: Theirs
    parts: int
    """Parts of ours that act on it: by so much its rank is larger."""

    @property
    def name(self) -> str:
        """As patterns mean it."""
        return self.theirs.name

    def as_parameter(self, experts: bool) -> bool:
        """Whether peft has to be told of it as a parameter, in a model with experts or without."""
        return bool(self.theirs.members) or (experts and self.name.rpartition(".")[2] in TAKEN_FOR_EXPERTS)


def export_peft(
    adapter: Adapter, folder: Path, *, base: str | None, dtype: torch.dtype | None, progress: Callable[[int], None]
) -> list[str]:
    """Write `adapter_config.json` and `adapter_model.safetensors` into `folder`; `base` is where its weights are.

    One layer at a time is in memory. Returns what a person should know, a line each.

    Raises:
        RunRefused: PEFT has no such adapter, or transformers no such model.
    """
    every = layers(family_of_model(adapter.model), adapter.model)
    chosen = modules(adapter, every)
    remarks = _fit(adapter, chosen)
    tensors = _Tensors(adapter, chosen, dtype or adapter.dtype)
    words = {} if adapter.base is None else {FINGERPRINT: adapter.base.fingerprint, BASE_PATH: adapter.base.path}

    def tensor(name: str) -> Tensor:
        made = tensors.tensor(name)
        progress(made.nbytes)
        return made

    write_file(folder / ADAPTER_FILE, tensors.planned, tensor, words)
    settings = adapter_config(adapter, chosen, every, base)
    (folder / ADAPTER_CONFIG).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return remarks


def modules(adapter: Adapter, every: list[Layer]) -> list[Module]:
    """What of theirs the adapter acts on."""
    return [
        Module(layer, theirs, count)
        for layer in every
        if layer.linear.path in adapter.layers
        for theirs in layer.theirs
        if (count := len(touching(layer, adapter.model, theirs, adapter.layers[layer.linear.path])))
    ]


def _fit(adapter: Adapter, chosen: list[Module]) -> list[str]:
    """Find out whether PEFT has such an adapter; returns what is not carried over and changes nothing."""
    further = [path for path in adapter.layers if not path.startswith("decoder.")]
    experts = adapter.model.num_moe_experts is not None
    parameters = [module.name for module in chosen if module.as_parameter(experts)]
    if adapter.peft.scheme == "dora" and parameters:
        raise RunRefused(
            f"{adapter.path}: peft has no DoRA for {parameters[0]} in a model with experts ({len(parameters)} such); "
            "trainwright-checkpoint merge-lora makes a model of it"
        )
    if not chosen:
        raise RunRefused(f"{adapter.path} adapts multi-token prediction alone, which transformers does not compute")
    remarks = []
    if further:
        remarks.append(
            f"left out: adapters of multi-token prediction, which transformers does not compute ({further[0]})"
        )
    if adapter.peft.dropout and parameters:
        remarks.append("lora_dropout is written as 0: peft takes none where it adapts parameters")
    elif adapter.peft.dropout and adapter.peft.dropout_position == "post":
        remarks.append("peft has dropout before A alone; this adapter was trained with dropout after B")
    return remarks


def adapter_config(adapter: Adapter, chosen: list[Module], every: list[Layer], base: str | None) -> dict[str, Any]:
    """`adapter_config.json`."""
    peft, experts = adapter.peft, adapter.model.num_moe_experts is not None
    all_of_them = [Module(layer, theirs, 1) for layer in every for theirs in layer.theirs]
    plain = [module.name for module in chosen if not module.as_parameter(experts)]
    stacks = [_parameter(module) for module in chosen if module.as_parameter(experts)]
    names = [_parameter(one) for one in all_of_them if one.as_parameter(experts)]
    several = max((module.parts for module in chosen), default=1)
    larger = _short([module.name for module in chosen if module.parts == several > 1], names, 3)
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": peft.dim,
        "lora_alpha": _plain(peft.alpha),
        "lora_dropout": 0.0 if stacks else peft.dropout,
        "use_dora": peft.scheme == "dora",
        "target_modules": _short(plain, [module.name for module in all_of_them if not module.as_parameter(experts)]),
        "target_parameters": _short(stacks, names, 3) or None,
        "rank_pattern": {re.escape(name): peft.dim * several for name in larger},
        "alpha_pattern": {re.escape(name): _plain(peft.alpha * several) for name in larger},
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "modules_to_save": None,
        "use_rslora": False,
    }


def _plain(value: float) -> float:
    return int(value) if value == int(value) else value


def _parameter(module: Module) -> str:
    return module.name if module.theirs.members else f"{module.name}.weight"


def _short(chosen: list[str], every: list[str], skipped: int | None = None) -> list[str]:
    """Ends of names in place of the names, where all that have that end are chosen.

    The end of `model.layers.3.self_attn.q_proj` is `q_proj`, or what follows the first `skipped` words.
    """

    def end(name: str) -> str:
        return name.rpartition(".")[2] if skipped is None else name.split(".", skipped)[skipped]

    ends = {end(name): {one for one in every if one.endswith(f".{end(name)}")} for name in chosen}
    return list(dict.fromkeys(end(name) if ends[end(name)] <= set(chosen) else name for name in chosen))


class _Tensors:
    """The file's tensors: which there are, and each of them when it is asked for."""

    def __init__(self, adapter: Adapter, chosen: list[Module], dtype: torch.dtype) -> None:
        self.adapter = adapter
        self.planned: dict[str, Planned] = {}
        self._makers: dict[str, tuple[Module, str]] = {}
        self._read: tuple[str, dict[str, Factors]] | None = None
        modules_with_two = _first_of_two(chosen)
        for module in chosen:
            begin = PREFIX + module.theirs.module + (STACKED_FIRST if module.name in modules_with_two else "")
            for end, field, shape in self._of(module):
                self.planned[begin + end] = Planned(shape, dtype)
                self._makers[begin + end] = module, field

    def _of(self, module: Module) -> Iterable[tuple[str, str, tuple[int, ...]]]:
        linear, rank = module.layer.linear, self.adapter.peft.dim * module.parts
        experts = linear.experts or 1
        yield ".lora_A.weight", "a", (experts * rank, linear.columns)
        yield ".lora_B.weight", "b", (len(module.theirs.rows), experts * rank)
        if self.adapter.peft.scheme == "dora":
            yield ".lora_magnitude_vector", "magnitude", (len(module.theirs.rows),)

    def tensor(self, name: str) -> Tensor:
        module, field = self._makers[name]
        path = module.layer.linear.path
        if self._read is None or self._read[0] != path:
            self._read = path, to_peft(module.layer, self.adapter.model, self.adapter.parts(path))
        made: Tensor = getattr(self._read[1][module.name], field)
        if not module.theirs.members or made.dim() == 2:
            return made
        return made.flatten(0, 1) if field == "a" else made.permute(1, 2, 0).flatten(1)


def _first_of_two(chosen: list[Module]) -> set[str]:
    """Stacked parameters that are not the only ones adapted in their module, but for the last of it."""
    of_module: dict[str, list[str]] = {}
    for module in chosen:
        of_module.setdefault(module.theirs.module, []).append(module.name)
    return {name for names in of_module.values() for name in names[:-1]}
