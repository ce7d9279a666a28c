"""What run-recipe would say of its words, said on the login node: the same parser, the same `resolve`, and no torch."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec

Preflight = Callable[[Sequence[str], int], Sequence[str]]
"""run-recipe's words and the number of ranks -> lines to tell. Raises an error with `exit_code` 2 for a refusal."""


class MissingExtra(Exception):
    """The command needs a package that is not installed."""

    exit_code = 2


def chosen(asked: bool | None) -> Preflight | None:
    """The preflight where it is asked for, or where nobody spoke of it and the recipes are installed.

    Raises `MissingExtra` where it is asked for and they are not.
    """
    if asked is False:
        return None
    if find_spec("trainwright.recipes") is not None:
        return preflight
    if asked:
        raise MissingExtra("--preflight needs the extra 'preflight': pip install 'trainwright[preflight]'")
    return None


def preflight(words: Sequence[str], world_size: int) -> Sequence[str]:
    """Resolve the words for `world_size` ranks, on GPUs unless they name a device.

    Returns warnings, and what was done on the way, such as weak scaling. Raises `trainwright.recipes.ConfigError` or
    `trainwright.recipes.words.UsageError` where run-recipe would refuse.
    """
    from trainwright.recipes import resolve
    from trainwright.recipes.known_invalid import require_valid
    from trainwright.recipes.words import parse, wants_help

    if wants_help(words):
        return ("warning: -h among the words: every rank prints run-recipe's help and trains nothing",)
    command = parse(words)
    resolved = resolve(
        command.selection,
        command.overrides,
        world_size=world_size,
        device="cuda" if command.device == "auto" else command.device,
        flags=command.flags,
        deterministic=command.deterministic,
    )
    if not (command.dry_run or command.rehearse):
        require_valid(resolved)
    return (*(f"warning: {warning}" for warning in resolved.warnings), *resolved.remarks)


def verdict(check: Preflight | None, words: Sequence[str], world_size: int) -> str:
    """What the preflight says, for reading: nothing is refused by it."""
    if check is None:
        return "preflight: off"
    try:
        lines = check(words, world_size)
    except Exception as error:
        if getattr(error, "exit_code", None) != 2:
            raise
        return f"preflight: refused: {error}"
    return "\n".join([f"preflight: {world_size} ranks can run this", *(f"  {line}" for line in lines)])
