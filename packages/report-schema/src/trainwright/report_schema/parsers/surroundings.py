"""What CloudAI's files, Slurm and the user say about a run, whatever framework it used.

Files of the run directory come before files that are named on the command line: the latter may have been edited since.
"""

import os
import re
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.report_schema.diagnostics import Source
from trainwright.report_schema.errors import ReportError, UsageError
from trainwright.report_schema.parsers.config_fields import Found, known, look_up
from trainwright.report_schema.parsers.evidence import shown, source_of
from trainwright.report_schema.parsers.hostlist import expand_hosts
from trainwright.report_schema.parsers.redaction import redact

type Document = dict[str, Any]

_EXPORT = re.compile(r"""^\s*export\s+(\w+)=(?:"(.*)"|'(.*)'|(.*))\s*$""", re.MULTILINE)

RUN_FILE, JOB_FILE, VARIABLES_FILE = "test-run.toml", "slurm-job.toml", "env_vars.sh"


@dataclass
class Surroundings:
    """The documents about a run, each with its name for messages, and what they say."""

    run_directory: Path
    run: Document = field(default_factory=dict)
    """``test-run.toml``"""
    job: Document = field(default_factory=dict)
    """``slurm-job.toml``"""
    system: Document = field(default_factory=dict)
    scenario: Document = field(default_factory=dict)
    test: Document = field(default_factory=dict)
    """The test's definition, the scenario's own settings for it included."""
    test_label: str = ""
    paths: dict[str, str] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def in_test(self, *dotted_keys: str) -> Found | None:
        """The first of several keys that the test's definition has."""
        return look_up(self.test, dotted_keys, self.test_label)


def read_surroundings(
    run_directory: Path, *, system: Path | None = None, tests_dir: Path | None = None, scenario: Path | None = None
) -> Surroundings:
    """Read whatever there is.

    Args:
        run_directory: may hold ``test-run.toml`` and ``slurm-job.toml``.
        system: CloudAI's system definition, a TOML file.
        tests_dir: directory of CloudAI's test definitions.
        scenario: CloudAI's scenario definition, a TOML file.

    Raises:
        UsageError: a path that was given does not exist, or the scenario does not have this test.
        ReportError: a file cannot be read or is not TOML.
    """
    found = Surroundings(run_directory)
    found.run = _read_own(found, RUN_FILE)
    found.job = _read_own(found, JOB_FILE)
    for name, path in (("system_path", system), ("tests_dir_path", tests_dir), ("test_scenario_path", scenario)):
        found.paths[name] = "" if path is None else str(path)
        if path is not None and not path.exists():
            raise UsageError(f"{path}: no such file or directory")
    found.system = _read_named(found, system)
    found.scenario = _read_named(found, scenario)
    _find_test(found, tests_dir)
    return found


def surrounding_fields(found: Surroundings) -> dict[str, Found]:
    """The configuration fields that do not depend on the framework."""
    variables = _variables(found)
    fields: dict[str, Found | None] = {
        "env_vars": variables,
        "clique_size": _clique_size(found, variables.value),
        "test_id": look_up(found.run, ["name"], RUN_FILE) or _id_from_path(found.run_directory),
        "test_name": found.in_test("name"),
        "description": found.in_test("description"),
        "test_scenario_name": look_up(found.scenario, ["name"], "scenario") or _scenario_from_path(found.run_directory),
        "cloudai_execution_node": Found(socket.gethostname(), "the host that built the report"),
        "exclude_start_steps": found.in_test("training_report.exclude_start_steps"),
        "exclude_post_profiling_steps": found.in_test("training_report.exclude_post_profiling_steps"),
        "gpus_per_node": look_up(found.system, ["gpus_per_node", "ntasks_per_node"], "system")
        or _from_slurm("SLURM_GPUS_ON_NODE", "SLURM_NTASKS_PER_NODE"),
        **_nodes(found),
        **{name: Found(path, "the command line") for name, path in found.paths.items()},
    }
    return known(fields)


def fill_unknown_text(config: Mapping[str, Found]) -> tuple[dict[str, Found], list[str]]:
    """Empty strings for names that no file gave, and a line that says which."""
    names = ("test_id", "test_name", "description", "test_scenario_name")
    unknown = [name for name in names if name not in config or config[name].value is None]
    if not unknown:
        return {}, []
    return dict.fromkeys(unknown, Found("", "no source")), [
        f"no source for {', '.join(unknown)}: left empty (--tests-dir, --scenario or --set give them)"
    ]


def _read_own(found: Surroundings, name: str) -> Document:
    path = found.run_directory / name
    return _read(found, path) if path.is_file() else {}


def _read_named(found: Surroundings, path: Path | None) -> Document:
    return {} if path is None else _read(found, path)


def _read(found: Surroundings, path: Path) -> Document:
    try:
        with path.open("rb") as stream:
            document = tomllib.load(stream)
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: not TOML: {error}") from None
    found.sources.append(source_of(path, found.run_directory, "run"))
    return document


def _find_test(found: Surroundings, tests_dir: Path | None) -> None:
    """The test's definition: what the run recorded, else the scenario's entry over the file that it names."""
    recorded = found.run.get("test_definition")
    if isinstance(recorded, dict):
        found.test, found.test_label = recorded, f"{RUN_FILE}: test_definition"
        return
    entry = _scenario_entry(found)
    name = entry.get("test_name")
    for path in sorted(tests_dir.rglob("*.toml")) if tests_dir is not None and name is not None else []:
        document = _read(found, path)
        if document.get("name") == name:
            found.test, found.test_label = {**document, **entry, "name": name}, shown(path, found.run_directory)
            return
        found.sources.pop()
    if name is not None and tests_dir is not None:
        raise UsageError(f"{tests_dir}: no test is named {name!r}, as the scenario calls it")
    if entry:
        found.test, found.test_label = {**entry, **({"name": name} if name else {})}, "scenario"


def _scenario_entry(found: Surroundings) -> Document:
    entries = found.scenario.get("Tests")
    if not isinstance(entries, list):
        return {}
    test_id = found.run.get("name") or (_id_from_path(found.run_directory) or Found(None, "")).value
    for entry in entries:
        if isinstance(entry, dict) and entry.get("id") == test_id:
            return entry
    ids = ", ".join(str(entry.get("id")) for entry in entries if isinstance(entry, dict))
    raise UsageError(f"{found.paths['test_scenario_path']}: no test {test_id!r}; its tests are {ids}")


def _id_from_path(run_directory: Path) -> Found | None:
    """CloudAI runs a test in ``.../ID/ITERATION``."""
    run_directory = run_directory.resolve()
    named = run_directory.parent if run_directory.name.isdecimal() else run_directory
    return Found(named.name, "the directory's name") if named.name else None


def _scenario_from_path(run_directory: Path) -> Found | None:
    """CloudAI runs a scenario in ``NAME_YYYY-MM-DD_HH-MM-SS``."""
    for name in (parent.name for parent in run_directory.resolve().parents):
        match = re.fullmatch(r"(.+)_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", name)
        if match:
            return Found(match[1], "the directory's name")
    return None


def _nodes(found: Surroundings) -> dict[str, Found | None]:
    """The machines: those that the job ran on, else what it asked for, else this process's own allocation."""
    ran_on = look_up(found.job, ["nodes"], JOB_FILE) or _described_nodes(found.run_directory)
    asked_for = look_up(found.run, ["nodes"], RUN_FILE)
    if asked_for is None or not asked_for.value:
        asked_for = found.in_test("nodes") or _from_slurm("SLURM_JOB_NODELIST", number=False)
    names = _expanded(ran_on) or _expanded(asked_for)
    count = look_up(found.job, ["num_nodes"], JOB_FILE)
    if count is None and names is not None and ran_on is not None:
        count = Found(len(names.value), names.source)
    count = count or look_up(found.run, ["nnodes"], RUN_FILE) or found.in_test("num_nodes")
    return {
        "num_nodes": count or _from_slurm("SLURM_JOB_NUM_NODES", "SLURM_NNODES"),
        "nodes": names or Found([], "no source"),
    }


def _described_nodes(run_directory: Path) -> Found | None:
    """The hosts that CloudAI described, one file each: ``metadata/node-HOST.toml``."""
    hosts = sorted(path.stem.removeprefix("node-") for path in run_directory.glob("metadata/node-*.toml"))
    return Found(hosts, "metadata/node-*.toml") if hosts else None


def _expanded(nodes: Found | None) -> Found | None:
    """Host names in full; ``None`` where there are none."""
    if nodes is None or not nodes.value:
        return None
    listed = [nodes.value] if isinstance(nodes.value, str) else nodes.value
    return Found(expand_hosts(str(name) for name in listed), nodes.source)


def _from_slurm(*variables: str, number: bool = True) -> Found | None:
    """A value from this process's Slurm allocation: right where the report is built by the job itself."""
    for variable in variables:
        value = os.environ.get(variable, "")
        if value and (value.isdecimal() or not number):
            return Found(int(value) if number else value, f"environment: {variable}")
    return None


def _variables(found: Surroundings) -> Found:
    """The system's variables under the test's own; where the system is not known, under those of the job script."""
    layers = {
        VARIABLES_FILE: {} if found.system else _exported(found.run_directory / VARIABLES_FILE),
        "system": found.system.get("global_env_vars", {}),
        found.test_label: found.test.get("extra_env_vars", {}),
    }
    merged: dict[str, Any] = {}
    for layer in layers.values():
        merged |= layer if isinstance(layer, dict) else {}
    used = " and ".join(label for label, layer in layers.items() if layer)
    return Found(redact(merged), used or "no source")


def _exported(path: Path) -> dict[str, str]:
    """The variables of a file with lines such as ``export NAME="value"``."""
    if not path.is_file():
        return {}
    lines = re.findall(
        r'^\s*export\s+(\w+)=(?:"(.*)"|\'(.*)\'|(.*))\s*$', path.read_text(errors="replace"), re.MULTILINE
    )
    return {name: double or single or bare for name, double, single, bare in lines}


def _clique_size(found: Surroundings, variables: Mapping[str, Any]) -> Found | None:
    text = variables.get("CLIQUE_SIZE")
    if text is None:
        return None
    if not str(text).isdecimal():
        found.warnings.append(f"CLIQUE_SIZE is {text!r}, not a number: clique_size is left unknown")
        return None
    return Found(int(text), "env_vars: CLIQUE_SIZE")
