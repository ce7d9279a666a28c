"""What the name of a recipe says of its GPUs: the only thing that the launcher knows of recipes."""

import re
from collections.abc import Sequence

from trainwright.launch import forwarded

_SIZED = re.compile(
    r"_(?:pretrain|sft|peft)_(?P<gpus>[1-9][0-9]*)gpu_(?P<hardware>[a-z0-9]+)"
    r"_(?:bf16|fp8cs|fp8ds|fp8mx|fp8sc|nvfp4)(?:_[a-z0-9_]+)?_config\Z"
)


def hardware(name: str) -> str | None:
    """The kind of GPU, such as `vr200`, of a name `<stem>_<task>_<N>gpu_<hardware>_<precision>[_<variant>]_config`.

    None for a name of another form.
    """
    found = _SIZED.search(name)
    return found["hardware"] if found else None


def gpu_count(name: str) -> int | None:
    """The GPUs that a recipe was written for; None for a name that does not say."""
    found = _SIZED.search(name)
    return int(found["gpus"]) if found else None


def size_note(words: Sequence[str], ranks: int) -> tuple[str, ...]:
    """A line where the words name a recipe of another size than the job; what follows, its catalogue decides."""
    name = forwarded.recipe(words) or ""
    written_for = gpu_count(name)
    if written_for in (None, ranks):
        return ()
    return (
        f"{name} was written for {written_for} GPUs and this job has {ranks}: in the container a benchmark scales its "
        "global batch to keep samples per GPU, unless one is typed; any other recipe keeps its batch",
    )
