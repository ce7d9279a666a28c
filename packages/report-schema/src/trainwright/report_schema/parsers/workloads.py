"""Which framework left a run directory behind."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from trainwright.report_schema.errors import ReportError, UsageError
from trainwright.report_schema.parsers import megatron_bridge, megatron_run, nemo_run, own
from trainwright.report_schema.parsers.evidence import Evidence
from trainwright.report_schema.parsers.surroundings import Surroundings


class Workload(NamedTuple):
    """A kind of run, and how to read it."""

    name: str
    template: str
    """What CloudAI calls it, in ``test_template_name``."""
    signs: str
    """What it is recognised by."""
    recognises: Callable[[Path], bool]
    collect: Callable[[Path, Surroundings], Evidence]


WORKLOADS = (
    Workload(
        own.WORKLOAD,
        own.TEMPLATE,
        f"{own.CONFIG_FILE} of ours",
        own.recognises,
        own.collect,
    ),
    Workload(
        nemo_run.WORKLOAD,
        nemo_run.TEMPLATE,
        f"**/{nemo_run.CONFIG_NAME}",
        nemo_run.recognises,
        nemo_run.collect,
    ),
    Workload(
        megatron_bridge.WORKLOAD,
        megatron_bridge.TEMPLATE,
        f"**/{megatron_bridge.CONFIG_FILE} of Megatron Bridge",
        megatron_bridge.recognises,
        megatron_bridge.collect,
    ),
    Workload(
        megatron_run.WORKLOAD,
        megatron_run.TEMPLATE,
        f"{megatron_run.EVENTS_DIRECTORY}/*tfevents*",
        megatron_run.recognises,
        megatron_run.collect,
    ),
)


def find_workload(name: str, surroundings: Surroundings) -> Workload:
    """The workload of a name; for ``auto`` the one that the run directory shows.

    Raises:
        UsageError: there is no such workload, or the directory looks like several.
        ReportError: the directory looks like none.
    """
    by_name = {workload.name: workload for workload in WORKLOADS}
    if name in by_name:
        return by_name[name]
    if name != "auto":
        raise UsageError(f"no workload {name!r}: one of auto, {', '.join(by_name)}")
    run_directory = surroundings.run_directory
    recorded = surroundings.test.get("test_template_name")
    seen = [workload for workload in WORKLOADS if workload.recognises(run_directory)]
    chosen = [workload for workload in seen if workload.template == recorded] or seen
    if len(chosen) > 1:
        looks = ", ".join(f"{workload.name} ({workload.signs})" for workload in chosen)
        raise UsageError(f"{run_directory}: looks like several workloads: {looks}; say which with --workload")
    if not chosen:
        signs = "; ".join(f"{workload.name}: {workload.signs}" for workload in WORKLOADS)
        raise ReportError(f"{run_directory}: no run is recognised (looked for {signs})")
    return chosen[0]
