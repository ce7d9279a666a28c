"""The words of `run-recipe`: one table of flags, and the parser that walks a command line over it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, cast, get_args

from trainwright.recipes.flags import FLAGS

if TYPE_CHECKING:
    from trainwright.recipes.selection import Selection


class UsageError(Exception):
    """A command line or an environment that says something impossible. One line; exit code 2."""

    exit_code = 2


@dataclass(frozen=True)
class Option:
    """One flag: its spellings, what it sets, and what follows it."""

    names: tuple[str, ...]
    sets: str
    """A field of the configuration (it has a dot), or an entry of `Command`."""
    metavar: str | None
    """Placeholder of the value; null for a switch, which takes none."""
    help: str


SELECTION = (
    Option(("--recipe",), "recipe", "NAME", "a complete recipe; `trainwright recipes list` prints them"),
    Option(("--model",), "model", "STEM", "a model instead of a recipe; needs --mode"),
    Option(("--mode",), "mode", "pretrain|sft|lora|dora", "inferred from a conventional recipe name"),
    Option(("--dataset",), "dataset", "NAME", "data source or preset; library recipes only"),
    Option(("--step-func",), "step_func", "NAME", "forward step instead of the recipe's own"),
)
Device = Literal["auto", "cpu", "cuda"]
DEVICES = get_args(Device)
MOST_RANKS = 64
"""Of a rehearsal: each is a process of this machine."""
RUNNING = (
    Option(("--run-dir",), "run_dir", "PATH", "the run directory; an existing one is resumed"),
    Option(("--device",), "device", "|".join(DEVICES), "auto takes a GPU where there is one"),
    Option(("--deterministic",), "deterministic", None, "kernels whose results repeat bit for bit"),
    Option(("--dry-run",), "dry_run", None, "resolve, check, print the configuration; train nothing"),
    Option(
        ("--plan",),
        "plan",
        None,
        "with --dry-run: what ranks of the whole topology need",
    ),
    Option(("--rehearse",), "rehearse", None, "train a shrunk copy for a few updates on CPU ranks of this machine"),
    Option(("--ranks",), "ranks", "N", "with --rehearse: how many of them; 2 where nothing is said"),
    Option(("--dump-env",), "dump_env", None, "print the environment, secrets hidden, then go on"),
    Option(("-h", "--help"), "help", None, "this page"),
)
CONVENIENCE = tuple(Option(flag.names, flag.field, flag.metavar, flag.help) for flag in FLAGS)
OPTIONS = SELECTION + RUNNING + CONVENIENCE


@dataclass(frozen=True)
class Command:
    """What the words of one command line say."""

    selection: Selection
    flags: dict[str, str]
    """Field of the configuration to the text that followed its flag."""
    overrides: tuple[str, ...]
    """The `KEY=VALUE` and `~KEY` words, in order, untouched."""
    run_dir: str | None
    device: Device
    deterministic: bool
    dry_run: bool
    plan: bool
    dump_env: bool
    rehearse: bool
    ranks: int
    """Of a rehearsal."""


def wants_help(words: Iterable[str]) -> bool:
    """Whether help is asked for, however wrong the other words are."""
    return any(word in ("-h", "--help") for word in words)


def parse(words: Sequence[str]) -> Command:
    """Read a command line. Flags and `KEY=VALUE` words may stand in any order.

    A long flag may be spelt with `-` or `_` and is never abbreviated; its value is the next word or follows `=`.

    Raises:
        UsageError: a word that is neither a known flag nor `KEY=VALUE`, a value that is missing or not wanted,
            or two flags that set one field to different values.
    """
    table = {_canonical(name): option for option in OPTIONS for name in option.names}
    given: dict[str, tuple[str, str]] = {}
    overrides: list[str] = []
    left = deque(words)
    previous_switch: str | None = None
    while left:
        word = left.popleft()
        if not word.startswith("-"):
            overrides.append(_checked_override(word, previous_switch))
            continue
        name, equals, value = word.partition("=")
        option = table.get(_canonical(name))
        if option is None:
            raise UsageError(f"unknown flag {name!r}{_hint(name)}")
        previous_switch = name if option.metavar is None else None
        if option.metavar is None and equals:
            raise UsageError(f"{name} takes no value, but was given {value!r}")
        if option.metavar is not None:
            value = _checked_value(name, option.metavar, value if equals else _following_value(left))
        _note(given, option, name, value)
    return _command({sets: value for sets, (_, value) in given.items()}, overrides)


def _command(given: dict[str, str], overrides: list[str]) -> Command:
    from trainwright.recipes.selection import Selection

    device = given.get("device", "auto")
    if device not in DEVICES:
        raise UsageError(f"--device {device!r} is not one of {', '.join(DEVICES)}")
    return Command(
        selection=Selection(**{option.sets: given.get(option.sets) for option in SELECTION}),
        flags={field: value for field, value in given.items() if "." in field},
        overrides=tuple(overrides),
        run_dir=given.get("run_dir"),
        device=cast(Device, device),
        deterministic="deterministic" in given,
        dry_run="dry_run" in given,
        plan=_plan(given),
        dump_env="dump_env" in given,
        rehearse="rehearse" in given,
        ranks=_ranks(given),
    )


def _plan(given: dict[str, str]) -> bool:
    if "plan" in given and ("dry_run" not in given or "rehearse" in given):
        raise UsageError("--plan belongs to --dry-run: it plans the run at its full size and trains nothing")
    return "plan" in given


def _ranks(given: dict[str, str]) -> int:
    """How many ranks rehearse: one to `MOST_RANKS`."""
    text = given.get("ranks", "2")
    if "ranks" in given and "rehearse" not in given:
        raise UsageError(f"--ranks {text} belongs to --rehearse; a run has as many ranks as are started")
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_RANKS):
        raise UsageError(f"--ranks {text}: it takes a number from 1 to {MOST_RANKS}")
    return int(text)


def _canonical(name: str) -> str:
    return name.replace("_", "-")


def _following_value(left: deque[str]) -> str:
    """The next word if it can be a value: a word with a leading dash is one only if it is a negative number."""
    if left and (not left[0].startswith("-") or left[0][1:2].isdigit() or left[0][1:2] == "."):
        return left.popleft()
    return ""


def _checked_value(name: str, metavar: str, value: str) -> str:
    if not value:
        raise UsageError(f"{name} needs a value: {name} {metavar} (or {name}=VALUE where the value begins with a dash)")
    return value


def _note(given: dict[str, tuple[str, str]], option: Option, name: str, value: str) -> None:
    earlier_name, earlier_value = given.setdefault(option.sets, (name, value))
    if value != earlier_value:
        raise UsageError(
            f"{earlier_name} {earlier_value} and {name} {value} contradict each other: both set {option.sets}; give one"
        )


def _checked_override(word: str, previous_switch: str | None) -> str:
    key, equals, _ = word.partition("=")
    if (equals and key.strip()) or word.startswith("~"):
        return word
    if equals:
        raise UsageError(f"{word!r} names no field before '='; write KEY=VALUE without spaces around '='")
    if previous_switch:
        raise UsageError(f"{word!r} is neither a flag nor KEY=VALUE; {previous_switch} takes no value")
    if "." in word:
        raise UsageError(f"{word!r} has no value; write {word}=VALUE without spaces around '='")
    raise UsageError(f"{word!r} is neither a flag nor KEY=VALUE{_hint(word)}")


def _hint(word: str) -> str:
    """What to type instead: the flags that the word begins, else the one that it resembles."""
    names = {_canonical(name).lstrip("-"): name for option in OPTIONS for name in option.names}
    # Text pasted from a document may have a long dash where the terminal wants two short ones.
    typed = _canonical(word).lstrip("-\u2013\u2014")
    begun = [names[bare] for bare in names if len(typed) > 1 and bare.startswith(typed)]
    if begun:
        return f"; did you mean {' or '.join(begun[:3])}? (flags are not abbreviated)"
    close = get_close_matches(typed, names, n=1)
    return f"; did you mean {names[close[0]]}?" if close else "; `run-recipe --help` lists the flags"
