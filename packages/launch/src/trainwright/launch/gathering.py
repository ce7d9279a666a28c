"""From the places that give an option a value to the value itself, and a note of where it came from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from trainwright.launch.clusters import Cluster
from trainwright.launch.command_line import Typed
from trainwright.launch.errors import LaunchError
from trainwright.launch.mounts import Mount, host_path, merge_mounts, parse_mount
from trainwright.launch.options import Option
from trainwright.launch.slurm_params import check_params, parse_pairs
from trainwright.launch.srun_arguments import check_srun_argument
from trainwright.launch.values import image, shown, variable


@dataclass(frozen=True)
class Source:
    """One place that gives an option a value."""

    value: Any
    label: str
    """How an error names it."""
    origin: str
    from_cluster: bool = False


@dataclass(frozen=True)
class Draft:
    """Settings as they grow."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def put(self, dest: str, value: Any, origin: str) -> None:
        """Decide one value."""
        self.values[dest], self.origins[dest] = value, origin

    def put_parts(self, dest: str, parts: Mapping[Any, str], value: Any) -> None:
        """Decide a value of several parts: `parts` holds the origin of each, by its index or key."""
        self.values[dest] = value
        if parts:
            self.origins[dest] = " and ".join(dict.fromkeys(parts.values()))
            self.origins.update({f"{dest}[{key}]": origin for key, origin in parts.items()})


def sources_of(
    option: Option, typed: Typed, environment: Mapping[str, str], cluster: Cluster | None
) -> tuple[Source, ...]:
    """The places that give `option` a value: the cluster file, then the environment, then flags as typed.

    Of a value that stands alone, the last place wins; the parts of a list are in this order.
    """
    found: list[Source] = []
    if cluster is not None and option.dest in cluster.values:
        value = cluster.values[option.dest]
        origin = f"cluster {cluster.name} in {cluster.file}"
        parts = value if isinstance(value, list) else [value]
        found += [Source(part, cluster.label(option.dest), origin, from_cluster=True) for part in parts]
    # The first name in the table is the strongest. An empty variable says nothing.
    for name in reversed(option.environment):
        if environment.get(name):
            found.append(Source(environment[name], name, f"environment {name}"))
    return (*found, *(Source(one.value, one.name, f"flag {one.name}") for one in typed.given.get(option.dest, ())))


def take_last(draft: Draft, dest: str, sources: Sequence[Source], check: Callable[[str], object] | None) -> None:
    """The strongest of the places decides; `check` turns its text into the value."""
    if sources:
        source = sources[-1]
        draft.put(dest, source.value if check is None else _checked(check, source), source.origin)


def take_image(draft: Draft, sources: Sequence[Source], cwd: Path) -> None:
    """A file of the working directory becomes an absolute path."""
    take_last(draft, "container_image", sources, lambda text: image(text, cwd))


def take_mounts(draft: Draft, sources: Sequence[Source], cwd: Path) -> None:
    """All mounts, exact repetitions once."""
    origins: dict[Mount, str] = {}
    for source in sources:
        if source.from_cluster and not source.value.startswith(("/", "tmpfs:", "umount:")):
            raise LaunchError(f"{source.label} {shown(source.value)}: HOST must be an absolute path in a cluster file")
        origins.setdefault(_checked(lambda text: parse_mount(text, cwd=cwd), source), source.origin)
    try:
        mounts = merge_mounts(origins)
    except ValueError as error:
        raise LaunchError(f"--mount: {error}") from None
    draft.put_parts("mounts", dict(enumerate(origins[mount] for mount in mounts)), mounts)


def take_checkout(draft: Draft, sources: Sequence[Source]) -> None:
    """`--source`; the mounts are decided."""

    def check(text: str) -> str:
        if not text.startswith("/"):
            raise ValueError("an absolute path in the container is needed")
        if host_path(text, draft.values["mounts"]) is None:
            raise ValueError("no --mount holds it, so it would not be in the container; add --mount HOST:CONTAINER")
        return text

    take_last(draft, "source", sources, check)


def take_env(draft: Draft, sources: Sequence[Source], environment: Mapping[str, str]) -> None:
    """Names of variables that are set here; a site's name that is not set is left out, and said."""
    names: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for source in sources:
        name, equals, _ = source.value.partition("=")
        if equals:
            # The value is not repeated: it may be a secret, and this line may be logged.
            raise LaunchError(
                f"{source.label} {shown(name)}=...: give the name alone and export the variable; its value would "
                "stand in the job's script for everyone to read"
            )
        _checked(variable, source)
        if name in environment:
            names.setdefault(name, source.origin)
        elif source.from_cluster:
            left_out[name] = source.origin
        else:
            raise LaunchError(f"{source.label} {name}: not set here, so there is nothing to forward; export it first")
    if left_out:
        site = next(iter(left_out.values()))
        draft.notes.append(f"not set here, and so not forwarded for {site}: {', '.join(left_out)}")
    draft.put_parts("env", dict(enumerate(names.values())), tuple(names))


def take_srun_arguments(draft: Draft, sources: Sequence[Source]) -> None:
    """All of them, one word each."""
    arguments: list[str] = []
    for source in sources:
        previous = arguments[-1] if arguments else ""
        _checked(partial(check_srun_argument, previous=previous), source)
        arguments.append(source.value)
    draft.put_parts("srun_args", dict(enumerate(source.origin for source in sources)), tuple(arguments))


def take_params(draft: Draft, sources: Sequence[Source]) -> None:
    """Slurm parameters by key: a flag's wins over the cluster's, and two flags may not contradict each other."""
    merged: dict[str, str | bool] = {}
    origins: dict[str, str] = {}
    for from_cluster in (True, False):
        pairs: list[tuple[str, str | bool]] = []
        params: dict[str, str | bool] = {}
        for source in sources:
            if source.from_cluster is from_cluster:
                pairs += source.value.items() if isinstance(source.value, dict) else _checked(parse_pairs, source)
                try:
                    params = check_params(pairs)
                except ValueError as error:
                    raise LaunchError(f"{source.label}: {error}") from None
                origins |= dict.fromkeys(params, source.origin)
        merged |= params
    draft.put_parts("additional_slurm_params", {key: origins[key] for key in merged}, merged)


def one_a_destination(options: Iterable[Option]) -> list[Option]:
    """The options without the second of two that set the same."""
    return list({option.dest: option for option in reversed(tuple(options))}.values())[::-1]


def _checked(check: Callable[[str], Any], source: Source) -> Any:
    try:
        return check(source.value)
    except ValueError as error:
        raise LaunchError(f"{source.label} {shown(source.value)}: {error}") from None
