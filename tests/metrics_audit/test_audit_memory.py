"""The audit's memory does not grow with the log."""

import copy
import json
import subprocess
import sys

import pytest

LINES = 60_000
# VmHWM, not ru_maxrss: the latter begins with the size of the process that forked this one.
PROGRAM = """
import sys
from trainwright.metrics_audit.all_sessions import summarize_all
from trainwright.metrics_audit.audit import summarize
def peak():
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
work = {"summarize": summarize, "summarize_all": summarize_all}
work["hoard"] = lambda path: list(open(path + "/metrics.jsonl"))
work[sys.argv[1]](sys.argv[2])
before = peak()
work[sys.argv[1]](sys.argv[3])
print(before, peak())
"""


def write_windows(run, directory, lines):
    """One session of ``lines`` windows, whose totals are set in the text of a pattern record."""
    del run.manifest["sessions"][0]
    run.manifest["sessions"][0]["start"] = {"step": 0, "tokens": 0, "skipped_updates": 0}
    pattern = {**run.records[4], "step": -1, "updates": 1, "attempted_updates": 1, "tokens": 64}
    pattern["total"] = {"step": -1, "tokens": -2, "skipped_updates": 0}
    text = json.dumps(pattern)
    directory.mkdir()
    (directory / "run.json").write_text(json.dumps(run.manifest))
    with (directory / "metrics.jsonl").open("w") as file:
        for step in range(1, lines + 1):
            file.write(text.replace(": -1", f": {step}").replace(": -2", f": {step * 64}") + "\n")
    return directory


def peaks(run, tmp_path, work) -> tuple[int, int]:
    """The peak memory in KiB of one process after a log of 100 lines, and after a long one."""
    short = write_windows(copy.deepcopy(run), tmp_path / "short", 100)
    long = write_windows(run, tmp_path / "long", LINES)
    ran = subprocess.run([sys.executable, "-c", PROGRAM, work, short, long], capture_output=True, text=True, check=True)
    before, after = map(int, ran.stdout.split())
    return before, after


@pytest.mark.parametrize("work", ["summarize", "summarize_all"])
def test_a_long_log_takes_no_more_memory_than_a_short_one(run, tmp_path, work):
    before, after = peaks(run, tmp_path, work)
    assert after - before < 2048
    assert after < 60 * 1024


def test_the_measurement_sees_a_reader_that_keeps_the_lines(run, tmp_path):
    before, after = peaks(run, tmp_path, "hoard")
    assert after - before > 20 * 1024
