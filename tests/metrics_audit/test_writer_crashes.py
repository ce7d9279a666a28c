"""A writer that dies at any moment leaves a log that is accepted, or refused for a known reason, and continued."""

import os
import random
import signal
import time

import pytest

from trainwright.metrics_audit.all_sessions import summarize_all
from trainwright.metrics_audit.audit import InvalidRun, summarize
from trainwright.metrics_audit.writer import SessionLog, read_manifest

KILLS = 200


def write_until_killed(directory, start_of, fields):
    """What a trainer does, without the training: a session, then windows and checkpoints as fast as they go."""
    log = SessionLog.open(directory, run_id="run-a")
    step = last_step(directory)
    log.start_session(**start_of(step))
    while True:
        step += 1
        log.write("train", step=step, **fields("train", step))
        log.write("checkpoint", step=step, **fields("checkpoint", step), padding="x" * (step % 7 * 3000))


def last_step(directory) -> int:
    """The step of the last whole line: what a checkpoint would restore."""
    try:
        lines = (directory / "metrics.jsonl").read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return 0
    return int(lines[-1].split(b'"step": ')[1].split(b",")[0]) if lines else 0


def kill_after(seconds, directory, start_of, fields):
    """Start a writing process, and kill it ``seconds`` after it begins to open the log."""
    ready, begin = os.pipe()
    writer = os.fork()
    if writer == 0:
        try:
            os.write(begin, b"x")
            write_until_killed(directory, start_of, fields)
        finally:
            os._exit(1)
    os.read(ready, 1)
    time.sleep(seconds)
    os.kill(writer, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(writer, 0)[1]) == signal.SIGKILL
    os.close(ready)
    os.close(begin)


def audit_after_a_kill(directory) -> str:
    """What the audit says: accepted, or one of the refusals that a kill may cause."""
    if read_manifest(directory) is None:
        return "no session yet"
    try:
        summarize(directory)
    except InvalidRun as refused:
        return next(words for words in ("uncommitted tail", "has no train record") if words in str(refused))
    return "accepted"


def test_a_kill_at_any_moment_leaves_a_log_that_the_next_session_continues(tmp_path, start_of, fields):
    random_numbers = random.Random()
    outcomes: dict[str, int] = {}
    for kill in range(KILLS):
        # A fresh directory now and then, so that a young log is hit as often as an old one.
        directory = tmp_path / f"run{kill // 5}"
        kill_after(random_numbers.uniform(0, 0.02), directory, start_of, fields)
        outcome = audit_after_a_kill(directory)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if kill % 5 == 4:
            continue_to_the_end(directory, start_of, fields)
    assert sum(outcomes.values()) == KILLS
    assert outcomes["accepted"] > KILLS // 10


def continue_to_the_end(directory, start_of, fields):
    step = last_step(directory)
    with SessionLog.open(directory, run_id="x") as log:
        log.start_session(**start_of(step))
        log.write("train", step=step + 1, **fields("train", step + 1))
        log.write("session_end", step=step + 1, **fields("session_end", step + 1))
    assert summarize(directory, expect_step=step + 1)["completed"]
    assert summarize_all(directory)["totals"]["restarts"] == len(read_manifest(directory)["sessions"]) - 1


@pytest.fixture
def finished(tmp_path, start_of, fields):
    with SessionLog.open(tmp_path, run_id="run-a") as log:
        log.start_session(**start_of(0))
        log.write("train", step=1, **fields("train", 1))
    return tmp_path


@pytest.mark.parametrize("size", [1, 5, 100, 70_000, 200_000])
def test_a_torn_tail_is_moved_aside_and_nothing_is_lost(finished, start_of, fields, size):
    committed = (finished / "metrics.jsonl").read_bytes()
    torn = (b'{"event": "train", "loss": 1.25, ' * (size // 30 + 1))[:size]
    with (finished / "metrics.jsonl").open("ab") as file:
        file.write(torn)
    with SessionLog.open(finished, run_id="run-a") as log:
        session_id = log.start_session(**start_of(1))
        assert (finished / "metrics.jsonl").read_bytes() == committed
        assert (finished / f"metrics.jsonl.torn-{session_id}").read_bytes() == torn
        log.write("train", step=2, **fields("train", 2))
    assert summarize(finished)["last_step"] == 2
    assert not list(finished.glob("*.tmp"))


def test_a_log_of_one_torn_line_is_emptied_into_the_torn_file(tmp_path, start_of):
    with SessionLog.open(tmp_path, run_id="r") as log:
        log.start_session(**start_of(0))
    (tmp_path / "metrics.jsonl").write_bytes(b'{"event"')
    with SessionLog.open(tmp_path, run_id="r") as log:
        session_id = log.start_session(**start_of(0))
    assert (tmp_path / "metrics.jsonl").read_bytes() == b""
    assert (tmp_path / f"metrics.jsonl.torn-{session_id}").read_bytes() == b'{"event"'


def test_a_whole_log_leaves_no_torn_file(finished, start_of):
    with SessionLog.open(finished, run_id="r") as log:
        log.start_session(**start_of(1))
    assert sorted(path.name for path in finished.iterdir()) == ["metrics.jsonl", "run.json"]
