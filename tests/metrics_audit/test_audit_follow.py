"""--follow: a live run is watched with the audit's own strictness, but for the line that is being written."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from trainwright.metrics_audit.audit import InvalidRun
from trainwright.metrics_audit.follow import _View, follow

FOLLOW = [sys.executable, "-m", "trainwright.metrics_audit", "--follow"]


def test_a_finished_run_is_audited_at_once(run, tmp_path):
    ran = subprocess.run([*FOLLOW, run.write(tmp_path)], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["completed"] is True
    assert ran.stderr.splitlines() == ["0002-bbbb  step 125  loss 2.5000  256 tokens/s  elapsed 0:00:07"]


def test_a_run_is_followed_from_before_its_directory_exists_to_its_end(run, tmp_path):
    """Each line arrives in two halves, and the manifest knows the last session only when it begins."""
    directory = tmp_path / "run"
    seen: list[str] = []
    view = _View(directory, 125)
    sessions = run.manifest["sessions"]

    def step() -> bool:
        ended = view.catch_up()
        seen.append(view.progress())
        return ended

    assert not step()
    run.manifest["sessions"] = sessions[:1]
    lines = run.lines()
    run.write(directory, raw_log=b"")
    assert not step()
    for number, line in enumerate(lines):
        if number == 2:
            run.manifest["sessions"] = sessions
            (directory / "run.json").write_text(json.dumps(run.manifest))
        for half in (line[:40], line[40:]):
            with (directory / "metrics.jsonl").open("ab") as file:
                file.write(half)
            ended = step()
            assert ended == (number == 7 and half == line[40:])
    assert seen[0] == f"waiting for {directory / 'run.json'}"
    assert seen[1] == "0001-aaaa  waiting for its first record"
    assert seen[3] == "0001-aaaa  step 100 of 125  loss 5.0000  200 tokens/s  elapsed 0:00:07  left 0:00:01"
    assert seen[6] == "0002-bbbb  waiting for its first record"
    assert seen[7] == "0002-bbbb  step 110 of 125  loss 4.0000  200 tokens/s  elapsed 0:00:07  left 0:00:10"
    assert seen[-1] == "0002-bbbb  step 125 of 125  loss 2.5000  256 tokens/s  elapsed 0:00:07"


def test_a_session_that_begins_between_the_manifest_and_the_log_is_not_missed(run, tmp_path):
    """The follower read the manifest before the second session entered it, and the log after."""
    sessions = run.manifest["sessions"]
    run.manifest["sessions"] = sessions[:1]
    directory = run.write(tmp_path, raw_log=b"".join(run.lines()[:2]))
    view = _View(directory, None)
    assert not view.catch_up()
    stale = view._read_manifest
    run.manifest["sessions"] = sessions

    def read_once_before_the_change() -> None:
        view._read_manifest = stale  # type: ignore[method-assign]
        run.write(directory)

    view._read_manifest = read_once_before_the_change  # type: ignore[method-assign]
    assert view.catch_up()
    assert view.audit is not None
    assert view.audit.updates == 25


def test_an_interrupted_run_waits_for_its_next_session(run, tmp_path):
    interrupted = {**run.records[5], "event": "session_interrupted", "reason": "SIGTERM"}
    run.records[6:] = [interrupted]
    view = _View(run.write(tmp_path), None)
    assert not view.catch_up()
    assert view.progress().endswith("interrupted, waiting for the next session")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"\n", "metrics.jsonl line 9: the line is blank"),
        (b"{}\n", "metrics.jsonl line 9: session_id is missing"),
        (b"\xff\n", "metrics.jsonl line 9: no UTF-8"),
        (b'{"session_id": "0002-bbbb"}\n', "metrics.jsonl line 9: event is missing"),
        (b"x" * (8 * 1024 * 1024 + 1), "metrics.jsonl line 9: the line is longer"),
    ],
)
def test_a_broken_line_ends_the_watch_at_once(run, tmp_path, line, sentence):
    run.records[7] = {**run.records[7], "event": "val", "loss": 1.0}
    directory = run.write(tmp_path, raw_log=b"".join(run.lines()) + line)
    with pytest.raises(InvalidRun) as refused:
        follow(directory, show=lambda _: None, poll_seconds=0)
    assert str(refused.value).startswith(sentence)


def test_steps_are_checked_before_the_watch(tmp_path):
    ran = subprocess.run([*FOLLOW, tmp_path, "--expect-step", "-1"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert ran.stderr == "Invalid training run: expect_step is -1; it must be an integer of at least 0\n"


def test_the_command_follows_a_live_run_to_the_strict_audit(run, tmp_path):
    """The end of the session turns the watch into the audit, with its bounds."""
    directory = tmp_path / "run"
    watch = subprocess.Popen(
        [*FOLLOW, directory, "--max-loss", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert watch.stderr is not None
    assert watch.stderr.readline().startswith("waiting for ")

    lines = run.lines()
    run.write(directory, raw_log=b"".join(lines[:5]) + lines[5][:30])
    assert "step 120" in watch.stderr.readline()
    with (directory / "metrics.jsonl").open("ab") as file:
        file.write(lines[5][30:] + b"".join(lines[6:]))
    out, err = watch.communicate(timeout=60)
    assert watch.returncode == 1
    assert out == ""
    assert err.splitlines()[-1] == "Invalid training run: the last loss is 2.5, more than 1 (--max-loss)"


def test_ctrl_c_leaves_the_watch_without_a_traceback(tmp_path):
    watch = subprocess.Popen([*FOLLOW, tmp_path / "nowhere"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert watch.stderr is not None
    watch.stderr.readline()
    watch.send_signal(2)
    _, err = watch.communicate(timeout=60)
    assert (watch.returncode, err) == (130, "interrupted\n")


def test_on_a_terminal_one_line_is_rewritten(run, tmp_path):
    """A pseudo-terminal stands for the person's."""
    leader, follower = os.openpty()
    seen = bytearray()

    def read() -> None:
        while not seen.endswith(b"\x1b[K\x04"):
            try:
                seen.extend(os.read(leader, 1024))
            except OSError:
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    subprocess.run([*FOLLOW, run.write(tmp_path)], stdout=subprocess.DEVNULL, stderr=follower, timeout=60, check=True)
    os.close(follower)
    deadline = time.monotonic() + 10
    while reader.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.close(leader)
    assert bytes(seen).startswith(b"\r\x1b[K0002-bbbb  step 125")
    assert b"\n" not in seen
    assert seen.endswith(b"\r\x1b[K")
