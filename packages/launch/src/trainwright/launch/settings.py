"""Every value in effect and where it came from: flag, environment variable, cluster file, or a default."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from trainwright.launch import forwarded, recipe_names
from trainwright.launch.clusters import Cluster
from trainwright.launch.errors import LaunchError
from trainwright.launch.mounts import Mount, host_path, merge_mounts, parse_mount
from trainwright.launch.options import OPTIONS, Option, Typed
from trainwright.launch.slurm_params import check_params, parse_pairs
from trainwright.launch.srun_arguments import check_srun_arguments
from trainwright.launch.values import CHECKS, MEMORY_CLOCK_VR200, shown

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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


@dataclass(frozen=True)
class _Source:
    """One place that gives an option a value."""

    value: Any
    label: str
    """How an error names it."""
    origin: str
    from_cluster: bool = False


def effective(
    typed: Typed, environment: Mapping[str, str], cluster: Cluster | None, *, cwd: Path | None = None
) -> Settings:
    """Decide every value: a flag wins over an environment variable, that over the cluster file, that over a default.

    Lists add up, the cluster's first; slurm parameters merge by key, flags win. Relative paths are taken from `cwd`,
    the working directory unless given. Nothing but the presence of an image file is looked up.

    Raises `LaunchError` for a value that is not allowed, a variable to forward that is not set, or a required option
    that nobody gave.
    """
    sources = {option.dest: _sources(option, typed, environment, cluster) for option in OPTIONS}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    notes: list[str] = []
    for dest, check in CHECKS.items():
        _take_first(dest, sources[dest], check, values, origins)
    for option in OPTIONS:
        if option.metavar is None:
            _take_first(option.dest, sources[option.dest], None, values, origins)
    here = cwd or Path.cwd()
    _take_image(sources["container_image"], here, values, origins)
    _take_mounts(sources["mounts"], here, values, origins)
    _take_source(sources["source"], values, origins)
    _take_env(sources["env"], environment, values, origins, notes)
    _take_srun_args(sources["srun_args"], values, origins)
    _take_params(sources["additional_slurm_params"], values, origins)
    _take_derived(typed.words, values, origins)
    defaults = {one.name: "default" for one in fields(Settings) if one.name not in ("origins", "notes")}
    settings = Settings(**values, origins=defaults | origins)
    _check_required(settings, typed)
    _check_ranks(settings)
    if settings.render is not None and settings.kind != "slurm":
        raise LaunchError(f"--render {settings.render} is for --executor slurm, and not for {settings.executor}")
    return Settings(**values, origins=settings.origins, notes=(*notes, *_unused(settings, typed)))


def show(settings: Settings) -> str:
    """Every value in effect and its origin, a line each; names of forwarded variables stand without their values."""
    rows = [row for option in _one_a_destination() for row in _rows(option, settings)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}" for name, value, origin in rows)


def _sources(option: Option, typed: Typed, environment: Mapping[str, str], cluster: Cluster | None) -> list[_Source]:
    """The places that give `option` a value, the strongest first; of a repeated flag the last one first."""
    found = [_Source(one.value, one.name, f"flag {one.name}") for one in reversed(typed.given.get(option.dest, ()))]
    found += [
        _Source(environment[name], name, f"environment {name}") for name in option.environment if environment.get(name)
    ]
    if cluster is not None and option.dest in cluster.values:
        value = cluster.values[option.dest]
        origin = f"cluster {cluster.name} in {cluster.file}"
        parts = reversed(value) if isinstance(value, list) else [value]
        found += [_Source(part, cluster.label(option.dest), origin, from_cluster=True) for part in parts]
    return found


def _take_first(
    dest: str,
    sources: Sequence[_Source],
    check: Callable[[str], object] | None,
    values: dict[str, Any],
    origins: dict[str, str],
) -> None:
    if sources:
        values[dest] = sources[0].value if check is None else _checked(check, sources[0])
        origins[dest] = sources[0].origin


def _checked(check: Callable[[str], Any], source: _Source) -> Any:
    try:
        return check(source.value)
    except ValueError as error:
        raise LaunchError(f"{source.label} {shown(source.value)}: {error}") from None


def _take_image(sources: Sequence[_Source], cwd: Path, values: dict[str, Any], origins: dict[str, str]) -> None:
    _take_first("container_image", sources, lambda text: _image(text, cwd), values, origins)


def _image(text: str, cwd: Path) -> str:
    """A file of the working directory becomes an absolute path; anything else is the container runtime's to know."""
    if not text.isprintable():
        raise ValueError("line breaks and control characters are not allowed")
    if text.startswith("~") or "$" in text:
        raise ValueError("`~` and `$` are not expanded here: write the whole path")
    if text.startswith("/"):
        return text
    if (cwd / text).exists():
        return str(cwd / text)
    if text.startswith(".") or text.endswith((".sqsh", ".squashfs")):
        raise ValueError(f"there is no such file in {cwd}")
    return text


def _take_mounts(sources: Sequence[_Source], cwd: Path, values: dict[str, Any], origins: dict[str, str]) -> None:
    parsed: dict[Mount, str] = {}
    for source in reversed(sources):
        if source.from_cluster and not source.value.startswith(("/", "tmpfs:", "umount:")):
            raise LaunchError(f"{source.label} {shown(source.value)}: HOST must be an absolute path in a cluster file")
        mount = _checked(lambda text: parse_mount(text, cwd=cwd), source)
        parsed.setdefault(mount, source.origin)
    try:
        values["mounts"] = merge_mounts(parsed)
    except ValueError as error:
        raise LaunchError(f"--mount: {error}") from None
    _note_origins("mounts", [parsed[mount] for mount in values["mounts"]], origins)


def _take_source(sources: Sequence[_Source], values: dict[str, Any], origins: dict[str, str]) -> None:
    def check(text: str) -> str:
        if not text.startswith("/"):
            raise ValueError("an absolute path in the container is needed")
        if host_path(text, values["mounts"]) is None:
            raise ValueError("no --mount holds it, so it would not be in the container; add --mount HOST:CONTAINER")
        return text

    _take_first("source", sources, check, values, origins)


def _take_env(
    sources: Sequence[_Source],
    environment: Mapping[str, str],
    values: dict[str, Any],
    origins: dict[str, str],
    notes: list[str],
) -> None:
    names: dict[str, str] = {}
    for source in reversed(sources):
        name = _checked(_variable, source)
        if name in environment:
            names.setdefault(name, source.origin)
        elif source.from_cluster:
            notes.append(f"{name}, which {source.origin} forwards, is not set here and is left out")
        else:
            raise LaunchError(f"{source.label} {name}: not set here, so there is nothing to forward; export it first")
    values["env"] = tuple(names)
    _note_origins("env", names.values(), origins)


def _variable(text: str) -> str:
    name, equals, _ = text.partition("=")
    if equals and _IDENTIFIER.fullmatch(name):
        # The value is not repeated: it may be a secret, and this line may be logged.
        raise LaunchError(
            f"--env {name}=...: give the name alone, --env {name}, and export the value: "
            "it would stand in the job's script for everyone to read"
        )
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError("not the name of a variable: letters, digits and `_`, and no digit at the beginning")
    if text == "PATH":
        raise ValueError("the image's own must stay: programs are looked up in the container")
    return text


def _take_srun_args(sources: Sequence[_Source], values: dict[str, Any], origins: dict[str, str]) -> None:
    in_order = list(reversed(sources))
    values["srun_args"] = tuple(source.value for source in in_order)
    try:
        check_srun_arguments(values["srun_args"])
    except ValueError as error:
        raise LaunchError(f"--srun-arg: {error}") from None
    _note_origins("srun_args", [source.origin for source in in_order], origins)


def _take_params(sources: Sequence[_Source], values: dict[str, Any], origins: dict[str, str]) -> None:
    merged: dict[str, str | bool] = {}
    came_from: dict[str, str] = {}
    for from_cluster in (True, False):
        pairs: list[tuple[str, str | bool]] = []
        own = [source for source in reversed(sources) if source.from_cluster is from_cluster]
        for source in own:
            pairs += list(source.value.items()) if isinstance(source.value, dict) else _checked(parse_pairs, source)
        if own:
            label = _Source("; ".join(str(source.value) for source in own), own[0].label, own[0].origin)
            params = _checked(lambda _: check_params(pairs), label)  # noqa: B023 - called before `pairs` changes
            merged |= params
            came_from |= dict.fromkeys(params, own[0].origin)
    values["additional_slurm_params"] = merged
    _note_origins("additional_slurm_params", came_from.values(), origins, came_from)


def _note_origins(dest: str, each: Iterable[str], origins: dict[str, str], keys: Iterable[str] | None = None) -> None:
    """One origin for each part, and all of them together for the whole."""
    parts = list(each)
    if parts:
        origins[dest] = " and ".join(dict.fromkeys(parts))
        origins.update({f"{dest}[{key}]": one for key, one in zip(keys or range(len(parts)), parts, strict=True)})


def _take_derived(words: Sequence[str], values: dict[str, Any], origins: dict[str, str]) -> None:
    """What follows from the recipe's name, below everything that was said."""
    recipe = forwarded.recipe(words)
    if "peak_mem_clk" not in values and recipe and recipe_names.hardware(recipe) == "vr200":
        values["peak_mem_clk"], origins["peak_mem_clk"] = MEMORY_CLOCK_VR200, "recipe name"
    if "experiment_name" not in values:
        values["experiment_name"] = re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9_.-]+", "-", forwarded.run_name(words)).strip(
            "-"
        )
        values["experiment_name"] = values["experiment_name"] or "run"
        origins["experiment_name"] = "recipe name"


def _check_required(settings: Settings, typed: Typed) -> None:
    missing = [
        option for option in OPTIONS if settings.kind in option.required and getattr(settings, option.dest) is None
    ]
    if not missing:
        return
    first = missing[0].names[0]
    flags = [word.partition("=")[0] for word in typed.words if word.startswith("--")]
    close = get_close_matches(first, flags, n=1, cutoff=0.8)
    named = ", ".join(" or ".join([f"{option.names[0]} {option.metavar}", *option.environment]) for option in missing)
    raise LaunchError(
        f"missing: {named}" + (f" ({close[0]} is no launch option; did you mean {first}?)" if close else "")
    )


def _check_ranks(settings: Settings) -> None:
    one, other = settings.nproc_per_node, settings.gpus_per_node
    if settings.kind == "local" and None not in (one, other) and one != other:
        raise LaunchError(
            f"--nproc-per-node {one} and --gpus-per-node {other} both say how many ranks run here: give one"
        )


def _unused(settings: Settings, typed: Typed) -> list[str]:
    """A line that names the flags which this executor does not use."""
    used_as = "slurm" if settings.kind == "own" else settings.kind
    unused = [
        typed.given[option.dest][0].name
        for option in _one_a_destination()
        if option.dest in typed.given and used_as not in option.executors
    ]
    return [f"--executor {settings.executor} does not use {', '.join(unused)}"] if unused else []


def _one_a_destination() -> list[Option]:
    return list({option.dest: option for option in reversed(OPTIONS)}.values())[::-1]


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
