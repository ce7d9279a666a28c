"""Waiting for a job: its logs, its end, and a Slurm that does not always answer.

Slurm's programs are scripts here that give one answer after the other; tests/slurm waits for real jobs.
"""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.launch.slurm_jobs import job_of

from trainwright.launch.batch_script import setup_lines
from trainwright.launch.waiting import Pace, Submitted, wait

QUICK = Pace(logs=0.01, first=0.01, slowest=0.02, patience=120, settling=0.01, forgotten=120)
# For what is never answered.
IMPATIENT = replace(QUICK, patience=0.5, forgotten=0.2)
GONE = "!slurm_load_jobs error: Invalid job id specified"
BUSY = "!slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
NO_ACCOUNTING = "!Slurm accounting storage is disabled"
# Takes its answers from a file, one line each, and stays with the last; a line with ! is an error.
PROGRAM = """\
#!/bin/sh
exec 9>{place}/{name}.lock; flock 9
line=$(head -n 1 {place}/{name}.answers)
if [ "$(wc -l <{place}/{name}.answers)" -gt 1 ]; then sed -i 1d {place}/{name}.answers; fi
echo asked >>{place}/{name}.asked
case $line in
!*) echo "${{line#!}}" >&2; exit 1;;
*) printf '%b\\n' "$line";;
esac
"""


def shown(state: str, code: str = "0:0", reason: str = "None", restarts: int = 0) -> str:
    """A line of scontrol's."""
    return f"JobId=7 JobName=run JobState={state} Reason={reason} Restarts={restarts} ExitCode={code} "


class Job:
    """Job 7, what Slurm answers when asked for it, and what was said of it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.submitted = Submitted("7", "run", place / "job")
        self.submitted.directory.mkdir()
        self.said: list[str] = []
        self.out = io.BytesIO()
        self.slurm("scontrol", GONE)
        self.slurm("sacct", NO_ACCOUNTING)

    def slurm(self, name: str, *answers: str) -> None:
        """What a program answers, one call after the other."""
        (self.place / f"{name}.answers").write_text("".join(f"{answer}\n" for answer in answers))
        (self.place / name).write_text(PROGRAM.format(place=self.place, name=name))
        (self.place / name).chmod(0o755)

    def asked(self, name: str) -> int:
        """How often a program was called."""
        path = self.place / f"{name}.asked"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def wait(self, pace: Pace = QUICK) -> int:
        """The status to end with."""
        return wait(self.submitted, environment=self.environment, say=self.said.append, out=self.out, pace=pace)

    @property
    def environment(self) -> dict[str, str]:
        """PATH leads to the programs here."""
        return {"PATH": f"{self.place}:/usr/bin:/bin"}

    def log(self, restart: int, text: bytes) -> None:
        """Let the ranks say something."""
        with self.submitted.rank_log(restart).open("ab") as log:
            log.write(text)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job that Slurm knows nothing of yet."""
    return Job(tmp_path)


def test_a_job_is_followed_from_the_queue_to_its_end(job: Job) -> None:
    """One line for each change, the end with its state, and exit code 0."""
    pending, running = shown("PENDING", reason="Resources"), shown("RUNNING")
    job.slurm("scontrol", pending, pending, running, running, shown("COMPLETING"), shown("COMPLETED"))
    assert job.wait() == 0
    assert job.said == ["job 7: pending (Resources)", "job 7: running", "job 7 ended: completed"]
    assert job.asked("sacct") == 0


@pytest.mark.parametrize(
    ("state", "code", "status", "line"),
    [
        ("FAILED", "5:0", 5, "job 7 ended: failed (why), exit code 5; see {log}"),
        ("FAILED", "0:9", 137, "job 7 ended: failed (why), signal 9; see {log}"),
        ("FAILED", "143:0", 143, "job 7 ended: failed (why), exit code 143; see {log}"),
        ("FAILED", "75:0", 75, "job 7 ended: failed (why), exit code 75: the run stopped early in good order"),
        ("TIMEOUT", "0:0", 1, "job 7 ended: timeout (why), exit code 1; see {log}"),
        ("OUT_OF_MEMORY", "0:125", 1, "job 7 ended: out of memory (why), exit code 1; see {log}"),
        ("CANCELLED", "0:0", 1, "job 7 ended: cancelled (why), exit code 1; see {log}"),
        ("NODE_FAIL", "0:0", 1, "job 7 ended: node fail (why), exit code 1; see {log}"),
    ],
)
def test_the_exit_status_is_the_jobs(job: Job, state: str, code: str, status: int, line: str) -> None:
    """With a line that says state, reason and where to read more."""
    job.slurm("scontrol", shown(state, code, "why"))
    assert job.wait() == status
    assert job.said == [line.format(log=job.submitted.batch_log)]


def test_what_the_script_said_of_the_last_start_is_repeated(job: Job) -> None:
    """Why a failure was not repeated, or why no rank has started; not what belongs to a start before."""
    script = (
        "the run failed (exit code 3) after a new checkpoint; back into the queue, requeue 1 of at most 1",
        "no clock",
    )
    job.submitted.batch_log.write_text("".join(f"+ trace\ntrainwright: {line}\n" for line in script))
    job.slurm("scontrol", shown("FAILED", "41:0", "why"))
    assert job.wait() == 41
    assert job.said == ["no clock", f"job 7 ended: failed (why), exit code 41; see {job.submitted.batch_log}"]


def test_the_script_says_it_so() -> None:
    """The words by which its lines are known are in the script."""
    script = setup_lines(job_of("--peak-mem-clk=1"), job_dir="/x")
    assert 'echo "trainwright: $*"' in script
    assert "; back into the queue, requeue" in script


def test_a_job_that_comes_back_is_waited_for_again(job: Job) -> None:
    """A failure is not believed at once, since a job that is requeued looks like one for a moment."""
    failed, waiting = shown("FAILED", "1:0", "NonZeroExitCode"), shown("PENDING", "0:0", "BeginTime", 1)
    job.slurm("scontrol", shown("RUNNING"), failed, waiting, shown("RUNNING", restarts=1), shown("COMPLETED"))
    assert job.wait() == 0
    assert job.said == [
        "job 7: running",
        "job 7: pending (BeginTime), requeued 1 time",
        "job 7: running, requeued 1 time",
        "job 7 ended: completed",
    ]


def test_passing_failures_are_said_once_each_time(job: Job) -> None:
    """And asked through, whichever program fails."""
    running = shown("RUNNING")
    job.slurm("scontrol", running, BUSY, BUSY, BUSY, running, BUSY, BUSY, shown("COMPLETED"))
    assert job.wait() == 0
    trouble = "Slurm does not answer, asking again: scontrol: " + BUSY[1:] + "; sacct: " + NO_ACCOUNTING[1:]
    assert job.said == ["job 7: running", trouble, trouble, "job 7 ended: completed"]


def test_the_accounting_is_asked_where_the_controller_has_forgotten(job: Job) -> None:
    """A job that ended while nobody looked; failures of sacct are asked through."""
    job.slurm("sacct", "!sacct: error: slurmdbd: busy", "JobID|State|ExitCode|Reason\\n7|FAILED|3:0|None")
    assert job.wait() == 3
    assert job.said[-1] == f"job 7 ended: failed, exit code 3; see {job.submitted.batch_log}"


@pytest.mark.parametrize(("left", "status"), [("7 0 0", 0), ("7 1 75", 75), ("7 0 2", 2)])
def test_the_jobs_own_account_is_the_last_resort(job: Job, left: str, status: int) -> None:
    """Slurm has forgotten the job, and keeps no accounting."""
    (job.submitted.directory / "exit_status").write_text(f"{left}\n")
    assert job.wait() == status
    assert "Slurm does not tell how job 7 ended; by its own account:" in job.said


@pytest.mark.parametrize("answer", [GONE, BUSY])
def test_what_is_unknown_is_no_success(job: Job, answer: str) -> None:
    """After all tries; the line has Slurm's words."""
    job.slurm("scontrol", answer)
    assert job.wait(IMPATIENT) == 1
    assert job.said[-1].startswith(f"how job 7 ended is unknown: scontrol: {answer[1:]}; sacct: ")
    assert job.asked("scontrol") > 1


def test_an_account_of_the_start_before_does_not_count(job: Job) -> None:
    """The job went back into the queue after it."""
    for name in ("exit_status", "requeues"):
        (job.submitted.directory / name).write_text("7 0 75\n")
    assert job.wait(IMPATIENT) == 1
    assert job.said[-1].startswith("how job 7 ended is unknown")


def test_logs_are_copied_once_and_in_order(job: Job) -> None:
    """Those of a second start after those of the first; no other file; whatever bytes they hold."""
    job.log(10, b"eleventh\n")
    job.log(0, b"first\xff\0\n")
    job.log(2, b"third, and no line end")
    for name in ("log-run_70_0.out", "log-other_7_0.out", "sbatch_run_7.out", "log-run_7_0.out.bak"):
        (job.submitted.directory / name).write_text("not a log of job 7\n")
    job.slurm("scontrol", *[shown("RUNNING")] * 5, shown("COMPLETED"))
    assert job.wait() == 0
    assert job.out.getvalue() == b"first\xff\0\nthird, and no line endeleventh\n"


def test_logs_are_copied_while_they_grow(job: Job) -> None:
    """Before Slurm is asked again, and what comes after the job's end is not lost."""
    slow = Pace(logs=0.01, first=60, slowest=60)
    job.slurm("scontrol", shown("RUNNING"), shown("COMPLETED"))
    result: list[int] = []
    waiting = threading.Thread(target=lambda: result.append(job.wait(slow)), daemon=True)
    waiting.start()
    job.log(0, b"one\n")
    until(lambda: job.out.getvalue() == b"one\n")
    job.log(0, b"two\n")
    until(lambda: job.out.getvalue() == b"one\ntwo\n")
    assert job.asked("scontrol") == 1
    # The job has written its exit code: the moment to ask, however long the pause.
    (job.submitted.directory / "exit_status").write_text("7 0 0\n")
    until(lambda: job.asked("scontrol") == 2)
    job.log(0, b"late\n")
    waiting.join(timeout=30)
    assert result == [0]
    assert job.out.getvalue() == b"one\ntwo\nlate\n"


def test_a_log_directory_that_is_not_there_yet_is_fine(job: Job) -> None:
    """A slow file system."""
    job.submitted.directory.rmdir()
    job.slurm("scontrol", shown("RUNNING"), shown("COMPLETED"))
    assert job.wait() == 0


CHILD = """\
import os, sys
from pathlib import Path
from trainwright.launch.waiting import Submitted, wait
job = Submitted("7", "run", Path(sys.argv[1]))
sys.exit(wait(job, environment=dict(os.environ), say=lambda line: print(line, file=sys.stderr, flush=True)))
"""


def started(job: Job) -> "subprocess.Popen[str]":
    """Wait in a process of its own, which is asking Slurm."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(job.submitted.directory)],
        env={**os.environ, **job.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: job.asked("scontrol") >= 1 or child.poll() is not None)
    return child


def test_ctrl_c_leaves_the_job_and_says_so(job: Job) -> None:
    """Exit code 130; the terminal's signal does not reach scontrol, and nothing is cancelled."""
    job.slurm("scontrol", shown("RUNNING"))
    job.slurm("scancel", "called")
    child = started(job)
    os.killpg(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    log, batch = job.submitted.rank_log(), job.submitted.batch_log
    assert said.splitlines()[-1] == (f"job 7 goes on running; follow it: tail -F {log} {batch}; end it: scancel 7")
    assert "Traceback" not in said
    assert job.asked("scancel") == 0


def test_a_reader_that_leaves_is_like_ctrl_c(job: Job) -> None:
    """`| head`."""
    job.slurm("scontrol", shown("RUNNING"))
    child = started(job)
    assert child.stdout is not None
    child.stdout.close()
    job.log(0, b"x" * 100_000)
    assert child.wait(timeout=60) == 130
    assert child.stderr is not None
    assert "job 7 goes on running" in child.stderr.read()


def test_commands_to_go_on_with_are_for_a_shell() -> None:
    """A path with a blank in it; another cluster's job."""
    job = Submitted("12", "run", Path("/a b"), "far")
    assert job.commands == {
        "queue": "squeue -M far -j 12",
        "accounting": "sacct -M far -j 12 --format=JobID,State,ExitCode,Elapsed",
        "logs": "tail -F '/a b/log-run_12_0.out' '/a b/sbatch_run_12.out'",
        "end": "scancel -M far 12",
    }


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something that another thread or process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
