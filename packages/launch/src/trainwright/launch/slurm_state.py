"""What became of one Slurm job: asked of the controller, else of the accounting, else of the file that the job left."""

import csv
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

EXIT_FILE = "exit_status"
"""In the job's directory: job id, restart count and exit code of the batch script, written as its last act."""

REQUEUES_FILE = "requeues"
"""Beside it: the same line for each time that the job put itself back into the queue."""

_FINAL = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
}
_OF_THE_SCRIPT = {"COMPLETED", "FAILED", "CANCELLED"}
"""States whose signal is one that a process received. Others use the number in their own way: OUT_OF_MEMORY has 125."""

_NO_SUCH_JOB = "Invalid job id"
_NO_ACCOUNTING = "accounting storage is disabled"
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class JobState:
    """What Slurm says of a job."""

    state: str
    """Slurm's word, such as PENDING, RUNNING, COMPLETED."""
    reason: str
    """Slurm's word; "" where it gives none."""
    code: int
    signal: int
    """Of the batch script; both 0 while it runs."""
    restarts: int | None
    """How often the job was put back into the queue; None where the accounting answers, which does not say."""

    @property
    def final(self) -> bool:
        """Whether the job will not change any more, unless somebody requeues it."""
        return self.state in _FINAL

    @property
    def exit_status(self) -> int:
        """The status to end with: the script's own code, 128 + s for signal s, 1 where the state alone says failure."""
        if self.state in _OF_THE_SCRIPT and self.signal:
            return 128 + self.signal
        return self.code or (0 if self.state == "COMPLETED" else 1)


@dataclass(frozen=True)
class NoAnswer:
    """Neither the controller nor the accounting knows the job, now."""

    why: str
    """One line."""
    passing: bool
    """Whether asking again may help: a program failed, and did not deny that there is such a job."""


def ask(job_id: str, *, environment: Mapping[str, str], cluster: str | None = None) -> JobState | NoAnswer:
    """Ask `scontrol`, which needs no accounting, and `sacct` for what the controller has forgotten."""
    elsewhere = () if cluster is None else ("-M", cluster)
    text, refusal = _run(("scontrol", *elsewhere, "-o", "show", "job", job_id), environment)
    state = _from_scontrol(text)
    if state is not None:
        return state
    forgotten = _NO_SUCH_JOB in refusal
    words = ("sacct", *elsewhere, "-X", "-P", "-j", job_id, "-o", "JobID,State,ExitCode,Reason")
    text, sacct_refusal = _run(words, environment)
    state = _from_sacct(text, job_id)
    if state is not None:
        return state
    no_row = not sacct_refusal or _NO_ACCOUNTING in sacct_refusal
    return NoAnswer(
        why=f"scontrol: {refusal or 'no answer'}; sacct: {sacct_refusal or f'knows no job {job_id}'}",
        passing=not (forgotten and no_row),
    )


def read_exit_file(directory: Path, job_id: str) -> JobState | None:
    """How the job ended, by its own account; None where it left none, or went back into the queue after it."""
    try:
        line = (directory / EXIT_FILE).read_text(encoding="ascii").strip()
        written_by, restarts, code = line.split()
        if written_by != job_id or line in _lines(directory / REQUEUES_FILE):
            return None
        return JobState("COMPLETED" if code == "0" else "FAILED", "", int(code), 0, int(restarts))
    except (OSError, ValueError):
        return None


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").splitlines() if path.exists() else []


def _run(words: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str]:
    """Standard output, and in one line why there is none. Ctrl-C at the terminal does not reach the program."""
    try:
        done = subprocess.run(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            start_new_session=True,
        )
    except FileNotFoundError:
        return "", "not on PATH"
    except (OSError, subprocess.SubprocessError) as error:
        return "", str(error)
    lines = os.fsdecode(done.stderr).splitlines()
    said = " ".join(" ".join(line.removeprefix(f"{words[0]}: ") for line in lines).split())
    if done.returncode:
        return "", said or f"exit code {done.returncode}"
    return os.fsdecode(done.stdout), ""


def _from_scontrol(text: str) -> JobState | None:
    """Read `scontrol -o show job`: `Key=value` words on one line; of several lines the first."""
    line = next(iter(text.splitlines()), "")
    found = {key: re.search(rf"(?:^|\s){key}=(\S+)", line) for key in ("JobState", "Reason", "Restarts", "ExitCode")}
    state, exit_code = found["JobState"], found["ExitCode"]
    if state is None or exit_code is None:
        return None
    reason, restarts = found["Reason"], found["Restarts"]
    return _state(state[1], exit_code[1], reason[1] if reason else "", restarts[1] if restarts else "")


def _from_sacct(text: str, job_id: str) -> JobState | None:
    """Read `sacct -X -P`: a line of names, then one line a job, which tells of its last start."""
    for row in csv.DictReader(text.splitlines(), delimiter="|"):
        if row.get("JobID") == job_id:
            return _state(row.get("State") or "", row.get("ExitCode") or "", row.get("Reason") or "", "")
    return None


def _state(state: str, exit_code: str, reason: str, restarts: str) -> JobState | None:
    """Values as Slurm prints them: `CANCELLED by 0`, `5:0`, `None`."""
    numbers = re.fullmatch(r"(\d+):(\d+)", exit_code)
    if not state or numbers is None:
        return None
    return JobState(
        state=state.split()[0],
        reason="" if reason in ("None", "(null)") else reason,
        code=int(numbers[1]),
        signal=int(numbers[2]),
        restarts=int(restarts) if restarts.isdecimal() else None,
    )
