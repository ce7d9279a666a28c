"""What Slurm's programs print, read: real lines of Slurm 22.05, and answers that are none."""

import os
from pathlib import Path

import pytest

from trainwright.launch.slurm_state import JobState, NoAnswer, ask, read_exit_file

SHOWN = (
    "JobId=7 JobName=x.y UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901758 Nice=0 Account=team "
    "QOS=(null) JobState={state} Reason={reason} Dependency=(null) Requeue=1 Restarts={restarts} BatchFlag=1 Reboot=0 "
    "ExitCode={code} RunTime=00:00:04 TimeLimit=UNLIMITED Command=/x/JobState=LIES ExitCode=9:9.sh WorkDir=/x \n"
)
HEADER = "JobID|State|ExitCode|Reason"


class Slurm:
    """`scontrol` and `sacct` that answer what a test says."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.environment = {"PATH": f"{place}:/usr/bin:/bin"}
        self.answers("scontrol", "", "slurm_load_jobs error: Invalid job id specified", 1)
        self.answers("sacct", "", "Slurm accounting storage is disabled", 1)

    def answers(self, program: str, out: str, err: str = "", code: int = 0) -> None:
        """Let `program` print and exit so, and write down its words."""
        (self.place / f"{program}.out").write_text(out)
        (self.place / f"{program}.err").write_text(err)
        (self.place / program).write_text(
            f'#!/bin/sh\necho "$*" >{self.place}/{program}.words\n'
            f"cat {self.place}/{program}.out; cat {self.place}/{program}.err >&2; exit {code}\n"
        )
        (self.place / program).chmod(0o755)

    def ask(self, cluster: str | None = None) -> JobState | NoAnswer:
        """Job 7."""
        return ask("7", environment=self.environment, cluster=cluster)


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    """A Slurm that knows no job and keeps no accounting."""
    return Slurm(tmp_path)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (("PENDING", "Priority", 0, "0:0"), JobState("PENDING", "Priority", 0, 0, 0)),
        (("RUNNING", "None", 1, "0:0"), JobState("RUNNING", "", 0, 0, 1)),
        (("FAILED", "NonZeroExitCode", 2, "75:0"), JobState("FAILED", "NonZeroExitCode", 75, 0, 2)),
        (("CANCELLED", "None", 0, "0:15"), JobState("CANCELLED", "", 0, 15, 0)),
    ],
)
def test_the_controller_answers_without_accounting(
    shown: tuple[str, str, int, str], expected: JobState, slurm: Slurm
) -> None:
    """And what else stands in its line, such as the script's path, is not taken for an answer."""
    state, reason, restarts, code = shown
    slurm.answers("scontrol", SHOWN.format(state=state, reason=reason, restarts=restarts, code=code))
    assert slurm.ask() == expected
    assert not (slurm.place / "sacct.words").exists()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("7|COMPLETED|0:0|None", JobState("COMPLETED", "", 0, 0, None)),
        ("7|CANCELLED by 1000|0:15|None", JobState("CANCELLED", "", 0, 15, None)),
        ("7|TIMEOUT|0:0|TimeLimit", JobState("TIMEOUT", "TimeLimit", 0, 0, None)),
    ],
)
def test_the_accounting_answers_for_a_job_that_the_controller_has_forgotten(
    row: str, expected: JobState, slurm: Slurm
) -> None:
    """Columns by their names."""
    slurm.answers("sacct", f"{HEADER}\n70|FAILED|1:0|x\n{row}\n")
    assert slurm.ask() == expected


def test_another_order_of_columns_is_read_alike(slurm: Slurm) -> None:
    """As from a wrapper that prints more, and no reason."""
    slurm.answers("sacct", "JobID|JobName|State|ExitCode\n7|x|FAILED|3:0\n")
    assert slurm.ask() == JobState("FAILED", "", 3, 0, None)


def test_both_are_asked_for_the_job_of_the_right_cluster(slurm: Slurm) -> None:
    """Where sbatch named one."""
    slurm.ask(cluster="far")
    assert (slurm.place / "scontrol.words").read_text() == "-M far -o show job 7\n"
    assert (slurm.place / "sacct.words").read_text().startswith("-M far -X -P -j 7 ")


def test_a_job_that_nobody_knows_is_gone_for_good(slurm: Slurm) -> None:
    """Asking again would not help; the line has Slurm's own words."""
    assert slurm.ask() == NoAnswer(
        "scontrol: slurm_load_jobs error: Invalid job id specified; sacct: Slurm accounting storage is disabled", False
    )
    slurm.answers("sacct", f"{HEADER}\n")
    answer = slurm.ask()
    assert isinstance(answer, NoAnswer) and not answer.passing


@pytest.mark.parametrize("failing", ["scontrol", "sacct"])
def test_a_program_that_fails_may_answer_later(failing: str, slurm: Slurm) -> None:
    """It has not said that there is no such job."""
    slurm.answers(failing, "", f"{failing}: error: Unable to contact\n{failing}: fatal: so it ends", 1)
    answer = slurm.ask()
    assert isinstance(answer, NoAnswer) and answer.passing
    assert f"{failing}: error: Unable to contact fatal: so it ends" in answer.why


@pytest.mark.parametrize("out", ["", "garbage\n", "JobState=RUNNING\n", "JobState=RUNNING ExitCode=x\n"])
def test_an_answer_that_is_none_may_become_one(out: str, slurm: Slurm) -> None:
    """Exit code 0 alone is no answer."""
    slurm.answers("scontrol", out)
    answer = slurm.ask()
    assert isinstance(answer, NoAnswer) and answer.passing


def test_programs_that_are_not_there_are_named(slurm: Slurm) -> None:
    """Somebody has called this away from a cluster."""
    for program in ("scontrol", "sacct"):
        os.remove(slurm.place / program)
    slurm.environment["PATH"] = str(slurm.place)
    assert slurm.ask() == NoAnswer("scontrol: not on PATH; sacct: not on PATH", True)


@pytest.mark.parametrize(
    ("state", "code", "signal", "status"),
    [
        ("COMPLETED", 0, 0, 0),
        ("FAILED", 1, 0, 1),
        ("FAILED", 75, 0, 75),
        ("FAILED", 0, 9, 137),
        ("FAILED", 0, 0, 1),
        ("CANCELLED", 0, 0, 1),
        ("CANCELLED", 0, 15, 143),
        ("TIMEOUT", 0, 0, 1),
        ("TIMEOUT", 0, 1, 1),
        ("OUT_OF_MEMORY", 0, 125, 1),
        ("NODE_FAIL", 0, 0, 1),
        ("NODE_FAIL", 0, 1, 1),
        ("DEADLINE", 0, 0, 1),
        ("PREEMPTED", 0, 0, 1),
        ("BOOT_FAIL", 0, 0, 1),
        ("TIMEOUT", 75, 0, 75),
        ("COMPLETED", 3, 0, 3),
    ],
)
def test_the_exit_status_needs_state_and_code_to_agree_on_success(
    state: str, code: int, signal: int, status: int
) -> None:
    """Only COMPLETED with 0:0 is 0."""
    job = JobState(state, "", code, signal, 0)
    assert job.final
    assert job.exit_status == status


@pytest.mark.parametrize(
    "state",
    ["PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"],
)
def test_a_job_that_goes_on_is_not_over(state: str) -> None:
    """Requeued ones among them."""
    assert not JobState(state, "", 0, 0, 0).final


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("7 0 0\n", JobState("COMPLETED", "", 0, 0, 0)),
        ("7 2 75\n", JobState("FAILED", "", 75, 0, 2)),
        ("8 0 0\n", None),
        ("7 0\n", None),
        ("", None),
        ("7 0 zero\n", None),
        ("\xff", None),
    ],
)
def test_the_jobs_own_account_of_its_end(line: str, expected: JobState | None, tmp_path: Path) -> None:
    """Of another job's, or half a line, it is none."""
    (tmp_path / "exit_status").write_text(line, encoding="latin-1")
    assert read_exit_file(tmp_path, "7") == expected


def test_a_job_that_put_itself_back_into_the_queue_has_not_ended(tmp_path: Path) -> None:
    """Its last exit code is of the start before."""
    (tmp_path / "exit_status").write_text("7 1 75\n")
    (tmp_path / "requeues").write_text("7 0 75\n")
    assert read_exit_file(tmp_path, "7") is not None
    (tmp_path / "requeues").write_text("7 0 75\n7 1 75\n")
    assert read_exit_file(tmp_path, "7") is None


def test_no_account_is_none(tmp_path: Path) -> None:
    """The job may not have started."""
    assert read_exit_file(tmp_path, "7") is None
