"""What the audit demands of ``run.json``."""

from pathlib import Path
from typing import Any, NamedTuple

from trainwright.metrics_audit import names
from trainwright.metrics_audit.reading import read_object
from trainwright.metrics_audit.refusal import InvalidRun
from trainwright.metrics_audit.values import number_or_null, shown, table, text, whole


class Manifest(NamedTuple):
    """A checked manifest. ``sessions`` are its entries, oldest first, of which only the last is checked in full."""

    run_id: str
    sessions: list[dict[str, Any]]


def read(run_directory: Path, *, check_all_sessions: bool = False) -> Manifest:
    """Read and check the manifest of a run directory. Raises `InvalidRun`."""
    document = read_object(run_directory / names.MANIFEST_FILE)
    try:
        return _checked(document, check_all_sessions)
    except InvalidRun as refusal:
        raise refusal.at(names.MANIFEST_FILE) from None


def _checked(document: dict[str, Any], check_all_sessions: bool) -> Manifest:
    version = document.get("schema_version")
    if type(version) is not int or version != names.SCHEMA_VERSION:
        raise InvalidRun(f"schema_version is {shown(version)}; it must be the integer {names.SCHEMA_VERSION}")
    run_id = text(document, "run_id")
    text(document, "created_at")
    sessions = document.get("sessions")
    if type(sessions) is not list or not sessions:
        raise InvalidRun("sessions must be a list with at least one session")
    for index in range(len(sessions)) if check_all_sessions else [len(sessions) - 1]:
        _check_session(sessions[index], f"sessions[{index}]")
        _check_id_is_new(sessions, index)
    return Manifest(run_id, sessions)


def _check_session(session: Any, name: str) -> None:
    if type(session) is not dict:
        raise InvalidRun(f"{name} is {shown(session)}; it must be an object")
    for key in ("session_id", "started_at"):
        text(session, key, f"{name}.")
    start = table(session, "start", f"{name}.")
    for key in names.POINT_KEYS:
        whole(start, key, f"{name}.start.")
    recipe = table(session, "recipe", f"{name}.")
    for key in ("name", "mode"):
        text(recipe, key, f"{name}.recipe.")
    for key in ("batch_size", "seq_len", "gradient_accumulation_steps"):
        whole(recipe, key, f"{name}.recipe.", minimum=1)
    number_or_null(recipe, "qk_clip_threshold", f"{name}.recipe.")
    hardware = table(session, "hardware", f"{name}.")
    text(hardware, "device", f"{name}.hardware.")
    for key in ("world_size", "nodes"):
        whole(hardware, key, f"{name}.hardware.", minimum=1)
    optimizers = session.get("optimizers")
    if type(optimizers) is not list or not all(type(optimizer) is str for optimizer in optimizers):
        raise InvalidRun(f"{name}.optimizers must be a list of strings")


def _check_id_is_new(sessions: list[Any], index: int) -> None:
    session_id = sessions[index]["session_id"]
    for earlier in range(index):
        if type(sessions[earlier]) is dict and sessions[earlier].get("session_id") == session_id:
            raise InvalidRun(f"sessions[{index}] and sessions[{earlier}] share the id {shown(session_id)}")
