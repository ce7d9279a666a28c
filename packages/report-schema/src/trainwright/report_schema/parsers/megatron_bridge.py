"""Megatron Bridge runs: ``configs/ConfigContainer.yaml`` and ``tb_logs`` of one attempt."""

from pathlib import Path

from trainwright.report_schema.errors import ReportError
from trainwright.report_schema.parsers.config_container import container_fields, is_bridge_container, read_container
from trainwright.report_schema.parsers.config_fields import PROFILING_FIELDS, Found, known, merge_profiling
from trainwright.report_schema.parsers.evidence import Evidence, read_events, shown, source_of
from trainwright.report_schema.parsers.segments import event_age, event_files
from trainwright.report_schema.parsers.surroundings import Surroundings, surrounding_fields
from trainwright.report_schema.parsers.tags import MEGATRON_BRIDGE_SCALE, MEGATRON_BRIDGE_TAGS, metric_lookup

WORKLOAD = "megatron-bridge"
TEMPLATE = "MegatronBridge"
CONFIG_FILE = Path("configs/ConfigContainer.yaml")
EVENTS_DIRECTORY = "tb_logs"


def recognises(run_directory: Path) -> bool:
    """Whether a directory looks like a Megatron Bridge run."""
    return any(map(is_bridge_container, run_directory.rglob(str(CONFIG_FILE))))


def collect(run_directory: Path, surroundings: Surroundings) -> Evidence:
    """Read the newest attempt of a Megatron Bridge run: events and configuration that lie beside each other.

    Raises:
        ReportError: no attempt has both, or a file cannot be read.
    """
    attempts = _attempts(run_directory)
    attempt = attempts[-1]
    config_path = attempt / CONFIG_FILE
    config = container_fields(read_container(config_path), shown(config_path, run_directory))
    segments, sources, unread = read_events(
        attempt / EVENTS_DIRECTORY, run_directory, metric_lookup(MEGATRON_BRIDGE_TAGS)
    )
    test, profiling = _test_fields(surroundings)
    logged_profiling = {name: config.pop(name) for name in PROFILING_FIELDS if name in config}
    others = ", ".join(shown(other, run_directory) for other in attempts[:-1])
    return Evidence(
        run_directory=run_directory,
        workload=WORKLOAD,
        segments=segments,
        config=surrounding_fields(surroundings) | test | config | merge_profiling(logged_profiling, profiling),
        sources=[*sources, source_of(config_path, run_directory, "configuration"), *surroundings.sources],
        unread=unread,
        scale=MEGATRON_BRIDGE_SCALE,
        warnings=[
            *surroundings.warnings,
            *([f"earlier attempts are not in the report: {others}"] if others else []),
        ],
    )


def _attempts(run_directory: Path) -> list[Path]:
    """The directories that hold a configuration and event files, oldest event file first."""
    configured = [path.parent.parent for path in run_directory.rglob(str(CONFIG_FILE))]
    dated = [(event_age(files[-1]), path) for path in configured if (files := event_files(path / EVENTS_DIRECTORY))]
    if not dated:
        raise ReportError(
            f"{run_directory}: no directory holds both {CONFIG_FILE} and event files under {EVENTS_DIRECTORY} "
            f"({len(configured)} hold the configuration)"
        )
    return [path for _, path in sorted(dated)]


def _test_fields(surroundings: Surroundings) -> tuple[dict[str, Found], dict[str, Found]]:
    """What the test's definition says: of the run, and of its profiler."""
    fields = {
        "test_template_name": Found(TEMPLATE, "the workload"),
        "container_image": surroundings.in_test("cmd_args.container_image"),
        "model_name": surroundings.in_test("cmd_args.model_recipe_name"),
    }
    profiling = {
        "profiling_enabled": surroundings.in_test("cmd_args.enable_nsys"),
        "profiling_start_step": surroundings.in_test("cmd_args.profiling_start_step"),
        "profiling_stop_step": surroundings.in_test("cmd_args.profiling_stop_step"),
    }
    return known(fields), known(profiling)
