"""Every value in effect and where it came from: flag, environment variable, cluster file, or a default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from trainwright.launch import forwarded, recipe_names
from trainwright.launch.clusters import Cluster
from trainwright.launch.command_line import Typed
from trainwright.launch.errors import LaunchError
from trainwright.launch.gathering import (
    Draft,
    one_a_destination,
    sources_of,
    take_checkout,
    take_env,
    take_image,
    take_last,
    take_mounts,
    take_params,
    take_srun_arguments,
)
from trainwright.launch.mounts import Mount
from trainwright.launch.options import OPTIONS, Option
from trainwright.launch.values import CHECKS, MEMORY_CLOCK_VR200


@dataclass(frozen=True)
class Settings:
    """The launch options in effect, one attribute for each destination of the option table."""

    executor: str = "slurm"
    nodes: int | None = None
    gpus_per_node: int | None = None
    nproc_per_node: int | None = None
    account: str | None = None
    partition: str | None = None
    time: str | None = None
    gres: str | None = None
    no_gpu_resource_request: bool = False
    peak_mem_clk: int | None = None
    """MHz; -1 where the user wants the clock left alone, None where nobody spoke of it."""
    container_image: str | None = None
    mounts: tuple[Mount, ...] = ()
    source: str | None = None
    env: tuple[str, ...] = ()
    """Names of variables; a value is never kept here."""
    srun_args: tuple[str, ...] = ()
    additional_slurm_params: Mapping[str, str | bool] = field(default_factory=dict)
    """sbatch's long names with `_` to a value; True for an option without one."""
    experiment_name: str = "run"
    signal: str | None = None
    max_requeues: int = 0
    wait: bool = False
    dry_run: bool = False
    render: str | None = None
    preflight: bool | None = None
    """None where neither --preflight nor --no-preflight was given."""
    cluster: str | None = None
    cluster_file: str | None = None
    show: bool = False
    help: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)
    """Destination to where its value came from: `flag --nodes`, `environment CONTAINER_IMAGE`, `cluster hops in FILE`,
    `recipe name`, `default`. A list or mapping also has one entry for each part: `mounts[0]`, `env[0]`,
    `additional_slurm_params[qos]`."""
    notes: tuple[str, ...] = ()
    """Lines to show the user before anything else happens."""

    @property
    def kind(self) -> str:
        """`slurm`, `local`, or `own` for a function of the user's."""
        return self.executor if self.executor in ("slurm", "local") else "own"


def effective(
    typed: Typed, environment: Mapping[str, str], cluster: Cluster | None, *, cwd: Path | None = None
) -> Settings:
    """Decide every value: a flag wins over an environment variable, that over the cluster file, that over a default.

    Lists add up, the cluster's first; slurm parameters merge by key, flags win. Relative paths are taken from `cwd`,
    the working directory unless given. Nothing but the presence of an image file is looked up.

    Raises `LaunchError` for a value that is not allowed, a variable to forward that is not set, or a required option
    that nobody gave.
    """
    options = one_a_destination(OPTIONS)
    sources = {option.dest: sources_of(option, typed, environment, cluster) for option in options}
    here = cwd or Path.cwd()
    draft = Draft()
    for dest, check in CHECKS.items():
        take_last(draft, dest, sources[dest], check)
    for option in options:
        if option.metavar is None:
            take_last(draft, option.dest, sources[option.dest], None)
    take_image(draft, sources["container_image"], here)
    take_mounts(draft, sources["mounts"], here)
    take_checkout(draft, sources["source"])
    take_env(draft, sources["env"], environment)
    take_srun_arguments(draft, sources["srun_args"])
    take_params(draft, sources["additional_slurm_params"])
    _derive(draft, typed.words)
    defaults = {one.name: "default" for one in fields(Settings) if one.name not in ("origins", "notes")}
    settings = Settings(**draft.values, origins=defaults | draft.origins)
    _check_required(settings, typed)
    _check_together(settings)
    # What a site forwards matters only where something is forwarded.
    forwarding = () if settings.kind == "local" else draft.notes
    return replace(settings, notes=(*forwarding, *_unused(settings, typed), *_without_effect(settings)))


def show(settings: Settings) -> str:
    """Every value in effect and its origin, a line each; names of forwarded variables stand without their values."""
    shown = [option for option in one_a_destination(OPTIONS) if option.dest not in ("show", "help")]
    rows = [row for option in shown for row in _rows(option, settings)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}" for name, value, origin in rows)


def _derive(draft: Draft, words: Sequence[str]) -> None:
    """What follows from the recipe's name, below everything that was said."""
    recipe = forwarded.recipe(words)
    if "peak_mem_clk" not in draft.values and recipe and recipe_names.hardware(recipe) == "vr200":
        draft.put("peak_mem_clk", MEMORY_CLOCK_VR200, "recipe name")
    if "experiment_name" not in draft.values:
        draft.put("experiment_name", forwarded.run_name(words), "recipe name")


def _check_required(settings: Settings, typed: Typed) -> None:
    missing = [
        option for option in OPTIONS if settings.kind in option.required and getattr(settings, option.dest) is None
    ]
    if not missing:
        return
    named = ", ".join(" or ".join([f"{option.names[0]} {option.metavar}", *option.environment]) for option in missing)
    raise LaunchError(f"missing: {named}{_misspelt(missing, typed)}; or --executor local, to run on this machine")


def _misspelt(missing: Sequence[Option], typed: Typed) -> str:
    """Which forwarded flag was meant for a missing option, if one looks like it."""
    flags = [word.partition("=")[0] for word in typed.words if word.startswith("--")]
    for option in missing:
        for close in get_close_matches(option.names[0], flags, n=1, cutoff=0.8):
            return f" ({close} is no launch option; did you mean {option.names[0]}?)"
    return ""


def _check_together(settings: Settings) -> None:
    """Options that cannot both be right."""
    one, other = settings.nproc_per_node, settings.gpus_per_node
    # A cluster file's number of GPUs is not meant for this machine.
    both_typed = all(settings.origins[dest].startswith("flag") for dest in ("nproc_per_node", "gpus_per_node"))
    if settings.kind == "local" and both_typed and one != other:
        raise LaunchError(
            f"--nproc-per-node {one} and --gpus-per-node {other} both say how many ranks run here: give one"
        )
    if settings.render is not None and settings.kind != "slurm":
        raise LaunchError(f"--render {settings.render} is for --executor slurm, and not for {settings.executor}")
    for dest in ("wait", "dry_run"):
        if settings.render is not None and getattr(settings, dest):
            raise LaunchError(
                f"--render {settings.render} prints a script and submits nothing: give no --{dest.replace('_', '-')}"
            )


def _unused(settings: Settings, typed: Typed) -> list[str]:
    """A line that names the flags which this executor does not use."""
    used_as = "slurm" if settings.kind == "own" else settings.kind
    unused = [
        typed.given[option.dest][0].name
        for option in one_a_destination(OPTIONS)
        if option.dest in typed.given and used_as not in option.executors
    ]
    return [f"--executor {settings.executor} does not use {', '.join(unused)}"] if unused else []


def _without_effect(settings: Settings) -> list[str]:
    """A line for an option that does less than it seems to."""
    if settings.kind == "local" or settings.max_requeues == 0 or settings.signal is not None:
        return []
    return [
        f"--max-requeues {settings.max_requeues} without --signal: Slurm ends a job at its time limit, and such a job "
        "is not put back; with --signal USR1@SECONDS the run stops before, and is"
    ]


def _rows(option: Option, settings: Settings) -> list[tuple[str, str, str]]:
    name = next(name for name in option.names if name.startswith("--"))
    value, origins = getattr(settings, option.dest), settings.origins
    if isinstance(value, tuple) and value:
        return [(name, str(part), origins[f"{option.dest}[{index}]"]) for index, part in enumerate(value)]
    if isinstance(value, Mapping) and value:
        return [(name, f"{key}={_text(part)}", origins[f"{option.dest}[{key}]"]) for key, part in value.items()]
    return [(name, _text(value), origins[option.dest])]


def _text(value: Any) -> str:
    if value is None or value == () or value == {}:
        return "-"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
