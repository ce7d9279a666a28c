"""Our own run directories: ``tb_logs``, ``configs/ConfigContainer.yaml`` and ``environment.json``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from trainwright.report_schema.errors import ReportError, UsageError
from trainwright.report_schema.model import ReportModel
from trainwright.report_schema.parsers.config_container import container_fields, is_bridge_container, read_container
from trainwright.report_schema.parsers.config_fields import Found, look_up
from trainwright.report_schema.parsers.evidence import Evidence, read_events, source_of
from trainwright.report_schema.parsers.redaction import redact
from trainwright.report_schema.parsers.surroundings import Surroundings
from trainwright.report_schema.parsers.tags import MEGATRON_BRIDGE_SCALE, MEGATRON_BRIDGE_TAGS, metric_lookup
from trainwright.report_schema.report_file import first_problem
from trainwright.report_schema.strict_json import load_json

WORKLOAD = "trainwright"
TEMPLATE = "Trainwright"
CONFIG_FILE = Path("configs/ConfigContainer.yaml")
ENVIRONMENT_FILE = Path("environment.json")
EVENTS_DIRECTORY = Path("tb_logs")


class Host(ReportModel):
    """The machine of rank 0."""

    name: str


class Device(ReportModel):
    """What the ranks compute on."""

    kind: str
    """``cpu`` or ``cuda``."""


class Topology(ReportModel):
    """How many ranks there are, and where."""

    world_size: int
    """Ranks in all."""
    num_nodes: int
    ranks_per_node: int


class Environment(ReportModel):
    """The part of ``environment.json`` that a report needs."""

    run_id: str
    recipe: str
    """Name of the recipe."""
    host: Host
    device: Device
    topology: Topology
    environment: dict[str, Any]
    """The environment of the ranks, as far as it is recorded."""
    canonical: bool | None = None
    """Whether the recipe ran unchanged."""
    canonical_differences: list[str] = Field(default_factory=list)
    """In what it did not."""
    nodes: list[str] = Field(default_factory=list)
    """Host names of all machines, where the launcher knew them."""
    container_image: str = ""
    """The image that the ranks ran in."""


def recognises(run_directory: Path) -> bool:
    """Whether a directory looks like one of our own runs."""
    config = run_directory / CONFIG_FILE
    return config.is_file() and not is_bridge_container(config)


def collect(run_directory: Path, surroundings: Surroundings) -> Evidence:
    """Read a run directory of ours.

    Raises:
        UsageError: CloudAI's files are given: they say nothing about an own run.
        ReportError: a file is missing, cannot be read, or does not say what it must.
    """
    if any(surroundings.paths.values()):
        raise UsageError("--system, --tests-dir and --scenario say nothing about an own run")
    environment = _read_environment(run_directory / ENVIRONMENT_FILE)
    config_path = run_directory / CONFIG_FILE
    container = read_container(config_path)
    written = container_fields(container, str(CONFIG_FILE))
    config = _core_defaults(written) | written | _packed_rows(container) | _environment_fields(environment)
    segments, sources, unread = read_events(
        events_directory(run_directory, container), run_directory, metric_lookup(MEGATRON_BRIDGE_TAGS)
    )
    sources.append(source_of(config_path, run_directory, "configuration"))
    sources.append(source_of(run_directory / ENVIRONMENT_FILE, run_directory, "run"))
    return Evidence(
        run_directory=run_directory,
        workload=WORKLOAD,
        segments=segments,
        config=config,
        sources=sources,
        unread=unread,
        scale=MEGATRON_BRIDGE_SCALE,
        canonical=environment.canonical,
        canonical_differences=environment.canonical_differences,
    )


def events_directory(run_directory: Path, container: Mapping[str, Any]) -> Path:
    """``tb_logs`` of the run directory, which may have been moved; else where ``logger.tensorboard_dir`` sent them."""
    inside = run_directory / EVENTS_DIRECTORY
    logger = container.get("logger")
    elsewhere = logger.get("tensorboard_dir") if isinstance(logger, Mapping) else None
    return inside if inside.exists() or not isinstance(elsewhere, str) else Path(elsewhere)


def _read_environment(path: Path) -> Environment:
    document = load_json(path)
    try:
        return Environment.model_validate(document)
    except ValidationError as error:
        raise ReportError(f"{path}: {first_problem(error)}") from None


def _packed_rows(container: Mapping[str, Any]) -> dict[str, Found]:
    """Where rows are packed beforehand, a step takes rows of their size, whatever the longest sequence may have."""
    packing = look_up(container, ["dataset.enable_offline_packing"], str(CONFIG_FILE))
    size = look_up(container, ["dataset.offline_packing_specs.packed_sequence_size"], str(CONFIG_FILE))
    return {"seq_length": size} if packing and packing.value and size and size.value else {}


def _core_defaults(written: Mapping[str, Found]) -> dict[str, Found]:
    """Fields that our configuration holds only where a user set them, with Megatron Core's defaults."""
    dense = written.get("num_experts", Found(None, "")).value is None
    defaults = {
        "num_experts": None,
        "moe_router_topk": None if dense else 2,
        "moe_ffn_hidden_size": None,
        "moe_grouped_gemm": None if dense else False,
    }
    return {field: Found(value, f"{CONFIG_FILE}: not set") for field, value in defaults.items()}


def _environment_fields(environment: Environment) -> dict[str, Found]:
    """What the environment tells; fields that an own run has no source for are empty."""
    label, topology, on_gpus = str(ENVIRONMENT_FILE), environment.topology, environment.device.kind == "cuda"
    known = {
        "test_id": ("run_id", environment.run_id),
        "test_name": ("recipe", environment.recipe),
        "model_name": ("recipe", environment.recipe),
        "cloudai_execution_node": ("host.name", environment.host.name),
        "container_image": ("container_image", environment.container_image),
        "env_vars": ("environment", redact(environment.environment)),
        "world_size": ("topology.world_size", topology.world_size),
        "num_nodes": ("topology.num_nodes", topology.num_nodes),
        # A run on CPUs uses no GPU, however many ranks a machine has.
        "gpus_per_node": ("topology.ranks_per_node", topology.ranks_per_node if on_gpus else None),
        "nodes": ("nodes", environment.nodes or ([environment.host.name] if topology.num_nodes == 1 else [])),
    }
    nowhere = dict.fromkeys(
        ("description", "test_scenario_name", "system_path", "tests_dir_path", "test_scenario_path"),
        Found("", "an own run has none"),
    )
    return {
        **{field: Found(value, f"{label}: {key}") for field, (key, value) in known.items()},
        **nowhere,
        "test_template_name": Found(TEMPLATE, "the workload"),
    }
