"""What the writer promises while nothing crashes."""

import json
import os
import resource
import subprocess
import sys
import time

import pytest

from trainwright.metrics_audit import disk
from trainwright.metrics_audit.audit import summarize
from trainwright.metrics_audit.writer import (
    InvalidRecord,
    RunDirectoryBusy,
    SessionLog,
    SessionLogError,
    read_manifest,
)


@pytest.fixture
def log(tmp_path, start_of):
    with SessionLog.open(tmp_path / "run", run_id="run-a") as log:
        log.start_session(**start_of(0))
        yield log


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_written_run_is_accepted(log, fields, tmp_path):
    log.write("train", step=2, **fields("train", 2, updates=2))
    log.write("val", step=2, **fields("val", 2))
    log.write("checkpoint", step=2, **fields("checkpoint", 2))
    log.write("session_end", step=2, **fields("session_end", 2))
    summary = summarize(tmp_path / "run", expect_step=2)
    assert (summary["run_id"], summary["session_id"], summary["updates"]) == ("run-a", log.session_id, 2)


def test_every_record_is_stamped_and_on_disk_when_write_returns(log, fields, tmp_path):
    before = time.time()
    for step in (1, 2, 3):
        log.write("train", step=step, **fields("train", step))
        lines = (tmp_path / "run" / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        record = json.loads(lines[-1])
        assert len(lines) == step
        assert lines[-1].endswith(b"}\n")
        assert (record["event"], record["run_id"], record["step"]) == ("train", "run-a", step)
        assert record["session_id"] == log.session_id
        assert before <= record["time"] <= time.time()


def test_the_manifest_has_the_form_of_the_format(log, tmp_path, start_of):
    manifest = read_manifest(tmp_path / "run")
    assert list(manifest) == ["schema_version", "run_id", "created_at", "sessions"]
    assert manifest["schema_version"] == 1
    (session,) = manifest["sessions"]
    assert session == {"session_id": log.session_id, "started_at": manifest["created_at"]} | start_of(0) | {
        "started_at": session["started_at"]
    }
    assert time.strptime(session["started_at"], "%Y-%m-%dT%H:%M:%SZ")
    assert session["session_id"].startswith("0001-")


def test_there_is_no_manifest_before_the_first_session(tmp_path):
    assert read_manifest(tmp_path) is None


def test_a_run_keeps_its_id_and_its_sessions(tmp_path, start_of, fields):
    ids = []
    for step in (0, 1, 2):
        with SessionLog.open(tmp_path / "run", run_id=f"run-{step}") as log:
            assert log.run_id == "run-0"
            ids.append(log.start_session(**start_of(step)))
            log.write("train", step=step + 1, **fields("train", step + 1))
    manifest = read_manifest(tmp_path / "run")
    assert [session["session_id"] for session in manifest["sessions"]] == ids
    assert len(set(ids)) == 3
    assert summarize(tmp_path / "run")["sessions"] == 3


def test_keys_that_the_writer_does_not_know_stay_in_the_manifest(log, tmp_path, start_of):
    log.close()
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"comment": "kept"}))
    with SessionLog.open(tmp_path / "run", run_id="x") as again:
        again.start_session(**start_of(0))
    assert read_manifest(tmp_path / "run")["comment"] == "kept"


def test_opening_a_finished_run_changes_nothing(log, fields, tmp_path):
    log.write("train", step=1, **fields("train", 1))
    log.write("session_end", step=1, **fields("session_end", 1))
    log.close()
    with (tmp_path / "run" / "metrics.jsonl").open("ab") as file:
        file.write(b'{"torn')
    before = contents(tmp_path / "run")
    with SessionLog.open(tmp_path / "run", run_id="another") as again:
        assert again.run_id == "run-a"
        assert again.session_id is None
    assert contents(tmp_path / "run") == before


def test_opening_and_closing_without_a_session_leaves_no_file(tmp_path):
    """A run that is refused before its first step leaves nothing half-made."""
    for _ in range(2):
        SessionLog.open(tmp_path, run_id="r").close()
        assert contents(tmp_path) == {}


def test_a_log_that_its_holder_removed_while_we_waited_for_it_is_not_written_to(tmp_path, monkeypatch, start_of):
    """Between opening the file and locking it, the holder before may close, and take its empty log away."""
    holder = [SessionLog.open(tmp_path, run_id="r")]
    lock = disk._lock

    def lock_late(descriptor, path):
        if holder:
            holder.pop().close()
        lock(descriptor, path)

    monkeypatch.setattr(disk, "_lock", lock_late)
    with SessionLog.open(tmp_path, run_id="r") as log:
        log.start_session(**start_of(0))
        assert os.fstat(log._descriptor).st_ino == (tmp_path / "metrics.jsonl").stat().st_ino
    assert sorted(contents(tmp_path)) == ["metrics.jsonl", "run.json"]


BAD_VALUES = [
    ({"loss": float("nan")}, "val.loss is nan"),
    ({"loss": float("inf")}, "val.loss is inf"),
    ({"memory": {"allocated_bytes": float("-inf")}}, "val.memory.allocated_bytes is -inf"),
    ({"extra": [1, [2, float("nan")]]}, "val.extra[1][1] is nan"),
    ({"extra": {"deep": {"er": float("nan")}}}, "val.extra.deep.er is nan"),
    ({"extra": object()}, "val.extra is of type object, which is no JSON type"),
    ({"extra": {1, 2}}, "val.extra is of type set"),
    ({"extra": b"bytes"}, "val.extra is of type bytes"),
    ({"extra": {(1, 2): 3}}, "val.extra has the key (1, 2)"),
    ({"run_id": "mine"}, "val.run_id is set by the writer"),
    ({"time": 5.0}, "val.time is set by the writer"),
    ({"session_id": "mine"}, "val.session_id is set by the writer"),
    ({"extra": "x" * (8 * 1024 * 1024)}, "longer than 8388608"),
]


@pytest.mark.parametrize(("change", "sentence"), BAD_VALUES, ids=[case[1] for case in BAD_VALUES])
def test_what_cannot_stand_in_the_log_is_refused_by_its_key_and_nothing_is_written(
    log, fields, tmp_path, change, sentence
):
    before = contents(tmp_path / "run")
    with pytest.raises(InvalidRecord) as refused:
        log.write("val", step=1, **fields("val", 1) | change)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert contents(tmp_path / "run") == before


def test_endless_nesting_is_refused(log, fields):
    nested: list = []
    nested.append(nested)
    with pytest.raises(InvalidRecord, match="nested more than 100 deep"):
        log.write("val", step=1, **fields("val", 1), extra=nested)


@pytest.mark.parametrize("name", ["train", "val", "checkpoint", "session_end", "session_interrupted", "my_event"])
def test_a_record_must_bring_the_keys_of_its_event(log, name):
    with pytest.raises(InvalidRecord, match=f"^{name} lacks session, memory"):
        log.write(name, step=1)


@pytest.mark.parametrize("part", ["start", "recipe", "hardware"])
def test_a_session_must_bring_its_keys(tmp_path, start_of, part):
    with SessionLog.open(tmp_path, run_id="r") as log:
        arguments = start_of(0) | {part: {}}
        with pytest.raises(InvalidRecord, match=f"^{part} lacks "):
            log.start_session(**arguments)
        assert read_manifest(tmp_path) is None


def test_a_session_with_a_non_finite_number_is_refused(tmp_path, start_of):
    with SessionLog.open(tmp_path, run_id="r") as log:
        arguments = start_of(0)
        arguments["recipe"] = arguments["recipe"] | {"qk_clip_threshold": float("nan")}
        with pytest.raises(InvalidRecord, match=r"run.json.sessions\[0\].recipe.qk_clip_threshold is nan"):
            log.start_session(**arguments)


def test_the_order_of_calls_is_held(tmp_path, start_of, fields):
    log = SessionLog.open(tmp_path, run_id="r")
    with pytest.raises(SessionLogError, match="no session has been started"):
        log.write("val", step=0, **fields("val", 0))
    log.start_session(**start_of(0))
    with pytest.raises(SessionLogError, match=r"has started session 0001-.* already"):
        log.start_session(**start_of(0))
    log.write("train", step=1, **fields("train", 1))
    log.write("session_end", step=1, **fields("session_end", 1))
    with pytest.raises(SessionLogError, match="has written its session_end"):
        log.write("val", step=1, **fields("val", 1))
    log.close()
    log.close()
    with pytest.raises(SessionLogError, match="is closed"):
        log.write("val", step=1, **fields("val", 1))


def test_a_second_process_gets_one_clear_line(log, tmp_path):
    program = (
        "import sys; from pathlib import Path; from trainwright.metrics_audit.writer import SessionLog\n"
        "SessionLog.open(Path(sys.argv[1]), run_id='second')"
    )
    ran = subprocess.run([sys.executable, "-c", program, tmp_path / "run"], capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].endswith(
        f"RunDirectoryBusy: another process is writing to the run directory {tmp_path / 'run'}"
    )


def test_a_second_writer_of_the_same_process_is_refused_too(log, tmp_path):
    with pytest.raises(RunDirectoryBusy):
        SessionLog.open(tmp_path / "run", run_id="second")
    summarize_fails_only_for_want_of_windows(tmp_path / "run")
    with pytest.raises(RunDirectoryBusy):
        SessionLog.open(tmp_path / "run", run_id="second")


def summarize_fails_only_for_want_of_windows(directory):
    """Reading the log in the writer's own process must not drop the lock (as it would with a POSIX record lock)."""
    with pytest.raises(ValueError, match="no train record"):
        summarize(directory)


def test_a_forked_worker_does_not_keep_the_lock_of_a_writer_that_is_gone(log, tmp_path):
    """A data-loader worker that outlives its trainer must not keep the requeued job out."""
    alive, begun = os.pipe()
    until, end = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(end)
        os.write(begun, b"x")
        os.read(until, 1)
        os._exit(0)
    os.read(alive, 1)
    log.close()
    try:
        SessionLog.open(tmp_path / "run", run_id="next").close()
    finally:
        os.close(end)
        os.waitpid(worker, 0)
        for descriptor in (alive, begun, until):
            os.close(descriptor)


def test_a_forked_worker_cannot_write(log, fields):
    worker = os.fork()
    if worker == 0:
        try:
            log.write("val", step=1, **fields("val", 1))
        except SessionLogError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(worker, 0)[1] == 0
    log.write("val", step=1, **fields("val", 1))


def test_a_line_that_the_disk_refuses_leaves_nothing_behind(tmp_path, start_of, fields):
    """A full disk takes part of a line; what it took is withdrawn, and the log stays one that can be continued."""
    worker = os.fork()
    if worker == 0:
        status = 1
        try:
            log = SessionLog.open(tmp_path, run_id="r")
            log.start_session(**start_of(0))
            log.write("train", step=1, **fields("train", 1))
            size = (tmp_path / "metrics.jsonl").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
            try:
                log.write("train", step=2, **fields("train", 2))
            except SessionLogError as error:
                assert "cannot write to" in str(error)
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                log.write("train", step=2, **fields("train", 2))
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(worker, 0)[1] == 0
    assert summarize(tmp_path)["updates"] == 2


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        (b"{", "cannot be read as a manifest"),
        (b"\xff", "cannot be read as a manifest"),
        (b"[]", "has no list of sessions"),
        (b"{}", "has no list of sessions"),
        (b'{"sessions": [], "run_id": "r"}', "has schema_version None; this writer continues 1 only"),
        (b'{"sessions": [], "run_id": "r", "schema_version": 2}', "has schema_version 2"),
        (b'{"sessions": [], "schema_version": 1}', "has no run_id"),
    ],
)
def test_a_manifest_that_cannot_be_continued_is_refused_and_left_alone(tmp_path, manifest, sentence):
    (tmp_path / "run.json").write_bytes(manifest)
    with pytest.raises(SessionLogError) as refused:
        SessionLog.open(tmp_path, run_id="r")
    assert sentence in str(refused.value)
    assert (tmp_path / "run.json").read_bytes() == manifest
    (tmp_path / "run.json").unlink()
    SessionLog.open(tmp_path, run_id="r").close()


def test_records_without_a_manifest_are_not_adopted(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"session_id": "x"}\n')
    with pytest.raises(SessionLogError, match=r"holds records, but run.json beside it is missing"):
        SessionLog.open(tmp_path, run_id="r")


def test_a_run_directory_that_cannot_be_made_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SessionLogError, match=r"Not a directory|File exists"):
        SessionLog.open(tmp_path / "file" / "run", run_id="r")
    with pytest.raises(SessionLogError, match="cannot open"):
        SessionLog.open(tmp_path / "file", run_id="r")
