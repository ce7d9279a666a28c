"""`--additional-slurm-params`: sbatch options that no launch option covers."""

import re
from collections.abc import Iterable, Mapping

from trainwright.launch.values import directive

_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

OWNED: Mapping[str, str] = {
    "account": "--account",
    "partition": "--partition",
    "time": "--time",
    "nodes": "--nodes",
    "ntasks_per_node": "--gpus-per-node",
    "gpus_per_node": "--gpus-per-node",
    "gres": "--gres",
    "job_name": "--experiment-name",
    "export": "--env",
    "signal": "--signal",
    "requeue": "--max-requeues",
    "wait": "--wait",
    "test_only": "--dry-run",
    "container_image": "--container-image",
    "container_mounts": "--mount",
    "container_env": "--env",
    "container_workdir": "",
    "output": "",
    "chdir": "",
    "open_mode": "",
}
"""Key to the launch option that sets it; "" where the launcher sets it and no option can."""

_UNFIT: Mapping[str, str] = {
    "no_requeue": "the launcher submits with --requeue, which wins; a job that Slurm requeues continues its run",
    "array": "all tasks of an array would write into one run directory: launch once for each run",
    **dict.fromkeys(("help", "usage", "version", "wrap"), "sbatch ignores it in a script"),
}
"""Key to the reason why no job can have it."""

_REAL_PREFIXES = ("gpus", "ntasks", "container")
"""sbatch options of their own that are also the beginning of an owned one."""


def parse_pairs(text: str) -> list[tuple[str, str | bool]]:
    """Take `K=V;K2=V2` apart; the value `true` becomes True. Blanks around a pair do not count.

    Raises `ValueError` for a pair without `=`, or an empty pair, key or value.
    """
    pairs: list[tuple[str, str | bool]] = []
    for part in text.split(";"):
        key, equals, value = part.strip().partition("=")
        if not part.strip():
            raise ValueError("an empty pair: write KEY=VALUE, with one `;` between two")
        if not equals:
            raise ValueError(f"{part.strip()!r} has no `=`: write {part.strip()}=VALUE, or =true for a bare option")
        if not key or not value:
            raise ValueError(f"{part.strip()!r} has an empty {'value' if key else 'key'}: write KEY=VALUE")
        pairs.append((key, True if value == "true" else value))
    return pairs


def check_params(pairs: Iterable[tuple[str, str | bool]]) -> dict[str, str | bool]:
    """The pairs by sbatch's name with `_`: True for an option without a value.

    Raises `ValueError` for a key that is no name, that comes twice with two values, that belongs to another launch
    option, or a value that does not fit on one line.
    """
    params: dict[str, str | bool] = {}
    for key, value in pairs:
        name = _checked_key(key)
        try:
            checked = value if isinstance(value, bool) else directive(value)
        except ValueError as error:
            raise ValueError(f"{key}={value!r}: {error}") from None
        if params.setdefault(name, checked) != checked:
            raise ValueError(f"{key} is given twice, as {params[name]} and as {value}")
    return params


def _checked_key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no sbatch option: letters, digits, `-` and `_` are allowed in a key")
    name = key.replace("-", "_")
    # sbatch accepts abbreviations, so `acc=x` would take the place of --account.
    owned = name if name in OWNED or name in _REAL_PREFIXES else next((o for o in OWNED if o.startswith(name)), name)
    unfit = [other for other in _UNFIT if other.startswith(name)]
    if unfit and owned not in OWNED:
        raise ValueError(f"{key} cannot be given: {_UNFIT[unfit[0]]}")
    if owned in OWNED or owned.startswith("container_"):
        instead = OWNED.get(owned, "")
        says = key if owned == name else f"{key}, which is short for {owned},"
        raise ValueError(f"{says} is set by the launcher" + (f": use {instead}" if instead else ""))
    return name
