"""Bind the modules of Megatron Core to the CPU: those imported already, and those imported later."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch

from trainwright.runner.devices.cpu.messages import silence_messages
from trainwright.runner.devices.cpu.replacements import ONLY_WITH_APEX, REPLACEMENTS
from trainwright.runner.devices.cpu.tensor_methods import wrap_tensor_methods
from trainwright.runner.devices.cpu.view import VIEW

PACKAGE = "megatron.core"


def bind_megatron() -> None:
    """Bind Megatron Core to the CPU for the rest of this process. Call it once."""
    silence_messages()
    wrap_tensor_methods()
    sys.meta_path.insert(0, _MegatronFinder())
    loaded = [module for name, module in sys.modules.items() if _is_megatron(name)]
    replaced: dict[int, Any] = {}
    for module in loaded:
        replaced |= bind_module(module)
    # A module loaded before may hold a replaced object under a name of its own.
    for module in loaded:
        for name, value in list(vars(module).items()):
            if id(value) in replaced:
                setattr(module, name, replaced[id(value)])


def _is_megatron(name: str) -> bool:
    return name == PACKAGE or name.startswith(PACKAGE + ".")


def bind_module(module: ModuleType) -> dict[int, Any]:
    """Give a module the view of torch and its replacements; returns them by the identity of what they replace.

    Raises `AttributeError` when a name to be replaced is gone: another Megatron Core than the pinned one.
    """
    for name, value in list(vars(module).items()):
        if value is torch:
            setattr(module, name, VIEW)
    replaced = {}
    for name, make in REPLACEMENTS.get(module.__name__, {}).items():
        original = getattr(module, name, None) if name in ONLY_WITH_APEX else getattr(module, name)
        replacement = make(original)
        setattr(module, name, replacement)
        if callable(original):  # flags are not objects of their own: True is True everywhere
            replaced[id(original)] = replacement
    return replaced


_compile = torch.compile


def _uncompiled(*args: Any, **kwargs: Any) -> Any:
    """What `torch.compile` is while a module of Megatron Core is executed: its decorators leave functions as they are.

    They fuse for a GPU what the CPU's settings do not call, and only to decorate imports torch's compiler: a third of
    all that a rank imports. For another library's module, imported by one of Megatron Core's, it is what it was.
    """
    if not _is_megatron(sys._getframe(1).f_globals.get("__name__", "")):
        return _compile(*args, **kwargs)
    return args[0] if args else lambda function: function


class _BindingLoader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        compiler, torch.compile = torch.compile, _uncompiled
        try:
            super().exec_module(module)
        finally:
            torch.compile = compiler
        bind_module(module)


class _MegatronFinder(importlib.abc.MetaPathFinder):
    """Finds Megatron Core's modules where Python would, and loads their source with `_BindingLoader`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not _is_megatron(fullname):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _BindingLoader(spec.loader.name, spec.loader.path)
        return spec
