"""A site's defaults: one TOML file with a table for each cluster."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from trainwright.launch.command_line import Typed
from trainwright.launch.errors import LaunchError
from trainwright.launch.options import OPTIONS, Option

_KEYS = {
    name.lstrip("-"): option for option in OPTIONS for name in option.names if option.cluster and name.startswith("--")
}
_NUMBERS = ("gpus_per_node", "peak_mem_clk", "max_requeues")


@dataclass(frozen=True)
class Cluster:
    """One table of a cluster file, its types checked."""

    name: str
    file: Path
    values: Mapping[str, Any]
    """Destination to text, to True or False for a switch, to a list of texts where the option repeats; the slurm
    parameters may also be a mapping of keys to text or True."""
    keys: Mapping[str, str]
    """Destination to the key as the file spells it."""

    def label(self, dest: str) -> str:
        """How an error names the place of a value."""
        return f"{self.file}, [{self.name}] {self.keys[dest]}"


def selected_cluster(typed: Typed, environment: Mapping[str, str], *, cwd: Path | None = None) -> Cluster | None:
    """The cluster that `--cluster` names; None where it names none.

    Raises `LaunchError` for a file that is missing or no TOML, an unknown table or key, or a value of a wrong type;
    also where `--cluster-file` is given without `--cluster`.
    """
    names, files = typed.given.get("cluster", ()), typed.given.get("cluster_file", ())
    if not names:
        if files:
            raise LaunchError(f"--cluster-file {files[0].value} is used only with --cluster NAME")
        return None
    file = (cwd or Path.cwd()) / str(files[0].value) if files else default_file(environment)
    return read_cluster(file, str(names[0].value))


def default_file(environment: Mapping[str, str]) -> Path:
    """`trainwright/clusters.toml` where the user's configuration is kept."""
    configured = environment.get("XDG_CONFIG_HOME", "")
    # The XDG specification: a relative value is to be ignored.
    base = Path(configured) if configured.startswith("/") else Path(environment.get("HOME", "~") or "/") / ".config"
    return Path(os.path.expanduser(base)) / "trainwright" / "clusters.toml"


def read_cluster(file: Path, name: str) -> Cluster:
    """Read table `name` of `file`; see `selected_cluster` for what is raised."""
    tables = _parse(file)
    if name not in tables:
        there = ", ".join(key for key, value in tables.items() if isinstance(value, dict)) or "none"
        raise LaunchError(f"--cluster {name}: {file} has no table [{name}]{_nearest(name, tables)}; there: {there}")
    table = tables[name]
    if not isinstance(table, dict):
        raise LaunchError(f"{file}: {name} must be a table, [{name}], and not {_type(table)}")
    values: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for key, value in table.items():
        option = _KEYS.get(key.replace("_", "-"))
        if option is None:
            raise LaunchError(f"{file}, [{name}] {key}: {_refusal(key)}")
        if option.dest in keys:
            raise LaunchError(f"{file}, [{name}]: {keys[option.dest]} and {key} are the same option: give one")
        keys[option.dest] = key
        values[option.dest] = _typed_value(option, value, f"{file}, [{name}] {key}")
    return Cluster(name, file, values, keys)


def _parse(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LaunchError(f"--cluster: there is no {file}; --cluster-file PATH names another") from None
    except OSError as error:
        raise LaunchError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LaunchError(f"{file}: is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise LaunchError(f"{file}: not valid TOML: {' '.join(str(error).split())}") from None


def _typed_value(option: Option, value: Any, label: str) -> Any:
    """The value as a command line would hold it."""
    if option.metavar is None:
        if not isinstance(value, bool):
            raise LaunchError(f"{label}: true or false is needed, and not {_type(value)}")
        return value
    if option.dest == "additional_slurm_params":
        return _params(value, label)
    if option.repeat:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise LaunchError(f'{label}: a list of strings is needed, such as ["..."], and not {_type(value)}')
        if "" in value:
            raise LaunchError(f"{label}: an empty string is no {option.metavar}")
        return list(value)
    if option.dest in _NUMBERS:
        if not isinstance(value, int) or isinstance(value, bool):
            raise LaunchError(f"{label}: a whole number is needed, and not {_type(value)}")
        return str(value)
    if not isinstance(value, str) or not value:
        raise LaunchError(f"{label}: a string is needed, and not {_type(value)}")
    return value


def _params(value: Any, label: str) -> Any:
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, dict):
        raise LaunchError(f'{label}: "K=V;K2=V2" or a table {{K = "V"}} is needed, and not {_type(value)}')
    for key, one in value.items():
        if one is not True and (isinstance(one, bool) or not isinstance(one, str | int) or one == ""):
            says = "false" if one is False else _type(one)
            raise LaunchError(f"{label}.{key}: a string, a whole number or true is needed, and not {says}")
    return {key: one if one is True else str(one) for key, one in value.items()}


def _refusal(key: str) -> str:
    name = key.replace("_", "-")
    if any(f"--{name}" in option.names for option in OPTIONS):
        return f"belongs to one launch, so it cannot stand in a cluster file; give --{name}"
    return f"no such option{_nearest(name, _KEYS)}"


def _nearest(name: str, allowed: Mapping[str, Any]) -> str:
    close = get_close_matches(name, allowed, n=1)
    return f", did you mean {close[0]}?" if close else ""


def _type(value: Any) -> str:
    names = {
        str: "a string",
        bool: "true or false",
        int: "a number",
        float: "a number with a point",
        list: "a list",
        dict: "a table",
    }
    if value == "":
        return "an empty string"
    other = next((one for one in value if not isinstance(one, str)), None) if isinstance(value, list) else None
    if other is not None:
        return f"a list that holds {_type(other)}"
    return names.get(type(value), "a date or a time")
