"""`--srun-arg`: words for srun beside those that the launcher writes."""

from collections.abc import Mapping, Sequence

_OWNED: Mapping[str, str] = {
    "--container-image": "--container-image of the launcher",
    "--container-mounts": "--mount",
    "--container-env": "--env",
    "--container-workdir": "nothing: the job's own directory is the working directory",
    "--output": "nothing: the launcher names the logs and prints their paths",
    "--export": "--env",
}
_SHORT = {"-o": "--output"}
_REAL_PREFIXES = ("--container",)
"""An option of srun's own that is also the beginning of an owned one."""


def check_srun_arguments(arguments: Sequence[str]) -> None:
    """Raise `ValueError` for a word that sets what the launcher sets, or that srun would take for the program."""
    for index, argument in enumerate(arguments):
        owned = _owned(argument)
        if owned is not None:
            raise ValueError(f"{argument.partition('=')[0]} is set by the launcher: use {_OWNED[owned]}")
        previous = arguments[index - 1] if index else ""
        if not argument.startswith("-") and (not previous.startswith("-") or "=" in previous):
            raise ValueError(f"srun would take {argument!r} for the program to run: write --srun-arg=--OPTION=VALUE")


def _owned(argument: str) -> str | None:
    if argument.startswith("-") and not argument.startswith("--"):
        return _SHORT.get(argument[:2])
    name = argument.partition("=")[0]
    if not name.startswith("--") or name == "--" or name in _REAL_PREFIXES:
        return None
    # srun accepts abbreviations as long as they fit one option.
    fitting = [owned for owned in _OWNED if owned == name or (owned.startswith(name) and len(name) > len("--o"))]
    return fitting[0] if fitting else None
