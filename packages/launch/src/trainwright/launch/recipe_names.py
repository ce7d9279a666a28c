"""What the name of a recipe says: its GPUs and their kind. The only thing that the launcher knows of recipes."""

import re

_BENCHMARK = re.compile(
    r"_(?:pretrain|sft|peft)_(?P<gpus>[1-9][0-9]*)gpu_(?P<hardware>[a-z0-9]+)"
    r"_(?:bf16|fp8cs|fp8ds|fp8mx|fp8sc|nvfp4)(?:_[a-z0-9_]+)?_config\Z"
)


def is_benchmark_name(name: str) -> bool:
    """Whether the name has the form `<stem>_<task>_<N>gpu_<hardware>_<precision>[_<variant>]_config`."""
    return _BENCHMARK.search(name) is not None


def hardware(name: str) -> str | None:
    """The kind of GPU that a name in that form says, such as `vr200`; None for another form."""
    found = _BENCHMARK.search(name)
    return found["hardware"] if found else None


def gpu_count(name: str) -> int | None:
    """The number of GPUs that a name in that form says; None for another form."""
    found = _BENCHMARK.search(name)
    return int(found["gpus"]) if found else None
