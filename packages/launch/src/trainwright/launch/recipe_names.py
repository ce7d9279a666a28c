"""What the name of a recipe says of its GPUs: the only thing that the launcher knows of recipes."""

import re

_BENCHMARK = re.compile(
    r"_(?:pretrain|sft|peft)_[1-9][0-9]*gpu_(?P<hardware>[a-z0-9]+)"
    r"_(?:bf16|fp8cs|fp8ds|fp8mx|fp8sc|nvfp4)(?:_[a-z0-9_]+)?_config\Z"
)


def hardware(name: str) -> str | None:
    """The kind of GPU, such as `vr200`, of a name `<stem>_<task>_<N>gpu_<hardware>_<precision>[_<variant>]_config`.

    None for a name of another form.
    """
    found = _BENCHMARK.search(name)
    return found["hardware"] if found else None
