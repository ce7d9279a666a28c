"""`--srun-arg`: words for srun beside those that the launcher writes."""

from collections.abc import Mapping

_OWNED: Mapping[str, str] = {
    "--container-image": "use --container-image of the launcher",
    "--container-mounts": "use --mount",
    "--container-env": "use --env",
    "--container-workdir": "the working directory is the job's own",
    "--output": "it names the logs and prints their paths",
    "--export": "use --env",
}
_SHORT = {"-o": "--output"}
_REAL_PREFIXES = ("--container",)
"""An option of srun's own that is also the beginning of an owned one."""


def check_srun_argument(argument: str, *, previous: str) -> None:
    """Raise `ValueError` for a word that sets what the launcher sets, or that srun would take for the program.

    `previous` is the word before it, "" for the first.
    """
    owned = _owned(argument)
    if owned is not None:
        raise ValueError(f"the launcher sets {owned}: {_OWNED[owned]}")
    if not argument.startswith("-") and (not previous.startswith("-") or "=" in previous):
        raise ValueError("srun would take it for the program to run: write --srun-arg=--OPTION=VALUE")


def _owned(argument: str) -> str | None:
    if argument.startswith("-") and not argument.startswith("--"):
        return _SHORT.get(argument[:2])
    name = argument.partition("=")[0]
    if not name.startswith("--") or name == "--" or name in _REAL_PREFIXES:
        return None
    # srun accepts abbreviations as long as they fit one option.
    fitting = [owned for owned in _OWNED if owned == name or (owned.startswith(name) and len(name) > len("--o"))]
    return fitting[0] if fitting else None
