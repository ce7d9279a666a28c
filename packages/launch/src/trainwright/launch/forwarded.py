"""What the launcher reads in the words that it forwards; it changes none of them."""

import re
from collections.abc import Sequence
from datetime import datetime

from trainwright.launch.errors import LaunchError

RUN_DIR = ("--run-dir", "--run_dir")
_RECIPE, _MODEL, _MODE = ("--recipe",), ("--model",), ("--mode",)
_SAVE = ("--save-dir", "--save_dir")
_SAVE_FIELD = "checkpoint.save"


def last_value(words: Sequence[str], flags: Sequence[str]) -> str | None:
    """The last value given to any of `flags`, as `--flag VALUE` or `--flag=VALUE`; "" where the value is missing."""
    value = None
    for index, word in enumerate(words):
        name, equals, inline = word.partition("=")
        if name in flags:
            value = inline if equals else next(iter(words[index + 1 : index + 2]), "")
    return value


def recipe(words: Sequence[str]) -> str | None:
    """What follows `--recipe`."""
    return last_value(words, _RECIPE)


def run_name(words: Sequence[str]) -> str:
    """A name for the job: the recipe without `_config`, or the model and its mode; "run" where neither is named.

    It is safe as a file name, and at most 128 characters long.
    """
    named = recipe(words)
    model_and_mode = "-".join(filter(None, (last_value(words, _MODEL), last_value(words, _MODE))))
    name = named.removesuffix("_config") if named else model_and_mode
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-_.")[:128] or "run"


def default_run_dir(words: Sequence[str], *, now: datetime, token: str) -> str:
    """`runs/<recipe>-<time>-<token>`: relative to the directory that a run without `--run-dir` is given."""
    name = recipe(words) or last_value(words, _MODEL) or "run"
    return f"runs/{re.sub(r'[^A-Za-z0-9_.]+', '-', name)}-{now:%Y%m%d-%H%M%S}-{token}"


def named_run_dir(words: Sequence[str]) -> str | None:
    """The run directory that the words name; None where they name none.

    Raises `LaunchError` where it is empty, or given as an override, which hides it from the launcher.
    """
    hidden = next((word for word in words if word.lstrip("+").startswith("logger.run_dir=")), None)
    if hidden is not None:
        raise LaunchError(f"{hidden}: the launcher reads the run's status there, so give it as --run-dir PATH")
    named = last_value(words, RUN_DIR)
    if named == "":
        raise LaunchError("--run-dir: a path is missing")
    return named


def checkpoints(words: Sequence[str], run_dir: str) -> str:
    """Where the run saves checkpoints: an override wins over a flag, and a flag over the run directory."""
    override = None
    for word in words:
        field, equals, value = word.lstrip("+").partition("=")
        if equals and field == _SAVE_FIELD:
            override = value.strip("'\"")
    return override or last_value(words, _SAVE) or f"{run_dir}/checkpoints"


def check_selectors(words: Sequence[str]) -> None:
    """Exactly one of `--recipe` and `--model` must be there.

    Raises `LaunchError`.
    """
    both = [name for name in (*_RECIPE, *_MODEL) if last_value(words, (name,)) is not None]
    if len(both) == 2:
        raise LaunchError("--recipe and --model are both given: a complete recipe names its model, so give one")
    if not both:
        raise LaunchError("no recipe: give --recipe NAME, or --model STEM with --mode pretrain, sft, lora or dora")
    if not last_value(words, both):
        raise LaunchError(f"{both[0]} needs a value: {both[0]} NAME")
