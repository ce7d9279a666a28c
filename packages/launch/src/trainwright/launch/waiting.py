"""Stay with a submitted job: copy its logs as they grow, and end with its status."""

import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from trainwright.launch.slurm_state import EXIT_FILE, JobState, NoAnswer, ask, read_exit_file

FAILED, STOPPED_EARLY, INTERRUPTED = 1, 75, 130

_CHUNK = 1 << 20
_SCRIPT_SAYS = "trainwright: "
_REPEATED = "; back into the queue, "


@dataclass(frozen=True)
class Submitted:
    """A job that Slurm has taken."""

    id: str
    name: str
    directory: Path
    """The job's own directory on the host, where its logs are."""
    cluster: str | None = None
    """Of several clusters the one that took it, where sbatch said so."""

    @property
    def batch_log(self) -> Path:
        """What the script of the job says."""
        return self.directory / f"sbatch_{self.name}_{self.id}.out"

    def rank_log(self, restart: int = 0) -> Path:
        """What all ranks say, after the `restart`-th requeue."""
        return self.directory / f"log-{self.name}_{self.id}_{restart}.out"

    @property
    def commands(self) -> dict[str, str]:
        """How to go on with the job, as lines for a shell."""
        of_cluster = "" if self.cluster is None else f"-M {shlex.quote(self.cluster)} "
        logs = shlex.join([str(self.rank_log()), str(self.batch_log)])
        return {
            "queue": f"squeue {of_cluster}-j {self.id}",
            "accounting": f"sacct {of_cluster}-j {self.id} --format=JobID,State,ExitCode,Elapsed",
            "logs": f"tail -F {logs}",
            "end": f"scancel {of_cluster}{self.id}",
        }


@dataclass(frozen=True)
class Pace:
    """How often to look, in seconds."""

    logs: float = 0.5
    first: float = 1.0
    slowest: float = 10.0
    """Between two questions to Slurm: `first` at the beginning, then longer and longer up to this."""
    patience: float = 600.0
    """How long Slurm may go without answering before the wait is given up."""
    settling: float = 2.0
    """Before a failure is believed: a job that goes back into the queue looks like one for a moment."""
    forgotten: float = 30.0
    """How long Slurm may deny that there is such a job: the accounting learns of it late."""


def wait(
    job: Submitted,
    *,
    environment: Mapping[str, str],
    say: Callable[[str], None],
    out: BinaryIO | None = None,
    pace: Pace | None = None,
) -> int:
    """Copy the ranks' logs to `out` (standard output) until the job is over, and return the status to end with.

    That is the job's own exit code, 128 + s where signal s ended it, and 1 where it ended without either, where Slurm
    does not know how it ended, or where it gave no answer for too long. 130 after Ctrl-C, or where nobody reads `out`
    any more; both leave the job alone.
    """
    logs = _Logs(job, out or sys.stdout.buffer)
    try:
        answer = _until_final(job, environment, say, logs, pace or Pace())
        logs.copy_the_rest()
    except (KeyboardInterrupt, BrokenPipeError):
        say(f"job {job.id} goes on running; follow it: {job.commands['logs']}; end it: {job.commands['end']}")
        return INTERRUPTED
    if isinstance(answer, NoAnswer):
        left = read_exit_file(job.directory, job.id)
        if left is None:
            say(f"how job {job.id} ended is unknown: {answer.why}")
            return FAILED
        say(f"Slurm does not tell how job {job.id} ended; by its own account:")
        answer = left
    for line in _words_of_the_script(job) if answer.exit_status else ():
        say(line)
    say(_ending(job, answer))
    return answer.exit_status


def _until_final(
    job: Submitted, environment: Mapping[str, str], say: Callable[[str], None], logs: "_Logs", pace: Pace
) -> JobState | NoAnswer:
    """Ask until the job is over or nobody answers any more; the logs are copied meanwhile."""
    pause, said, silent_since, told = pace.first, "", 0.0, False
    believed: JobState | None = None
    while True:
        answer = ask(job.id, environment=environment, cluster=job.cluster)
        if isinstance(answer, NoAnswer):
            silent_since = silent_since or time.monotonic()
            if answer.passing and not told:
                say(f"Slurm does not answer, asking again: {answer.why}")
                told = True
            # What the job left is enough once Slurm has forgotten it.
            over = not answer.passing and read_exit_file(job.directory, job.id) is not None
            if over or time.monotonic() - silent_since > (pace.patience if answer.passing else pace.forgotten):
                return answer
        else:
            silent_since, told = 0.0, False
            if answer.final and (answer.exit_status == 0 or answer == believed):
                return answer
            believed = answer if answer.final else None
            line = f"job {job.id}: {_described(answer)}"
            if not answer.final and answer.state != "COMPLETING" and line != said:
                say(line)
                said = line
        logs.copy_for(pace.settling if believed else pause, pace.logs)
        pause = min(pause * 1.5, pace.slowest)


def _words_of_the_script(job: Submitted) -> list[str]:
    """What the script said of the job's last start in plain lines, such as why it was not repeated."""
    try:
        lines = job.batch_log.read_text(errors="replace").splitlines()
    except OSError:
        return []
    said = [line.removeprefix(_SCRIPT_SAYS) for line in lines if line.startswith(_SCRIPT_SAYS)]
    repeated = [index for index, line in enumerate(said) if _REPEATED in line]
    return said[repeated[-1] + 1 :] if repeated else said


def _described(state: JobState) -> str:
    restarted = f", requeued {state.restarts} time{'s' * (state.restarts > 1)}" if state.restarts else ""
    return f"{state.state.lower().replace('_', ' ')}{f' ({state.reason})' if state.reason else ''}{restarted}"


def _ending(job: Submitted, state: JobState) -> str:
    """One line: how the job ended, and where to read why."""
    ended = f"job {job.id} ended: {_described(state)}"
    status = state.exit_status
    if status == 0:
        return ended
    if status == STOPPED_EARLY:
        return f"{ended}, exit code {status}: the run stopped early in good order"
    how = f"signal {status - 128}" if state.signal and status > 128 else f"exit code {status}"
    return f"{ended}, {how}; see {job.batch_log}"


@dataclass
class _Logs:
    """The ranks' logs, one a start of the job, copied once and in order."""

    job: Submitted
    out: BinaryIO
    copied: dict[Path, int] = field(default_factory=dict)
    exit_file: int | None = None

    def copy_for(self, seconds: float, every: float) -> None:
        """Copy what comes for so long, or until the job has written its exit code."""
        deadline = time.monotonic() + seconds
        while True:
            self.copy()
            left = deadline - time.monotonic()
            if left <= 0 or self._exit_file_is_new():
                return
            time.sleep(min(every, left))

    def copy_the_rest(self) -> None:
        """Once more: the end of a log may come after the end of the job, over a network file system."""
        self.copy()
        time.sleep(min(1.0, 0.2 * (1 + len(self.copied))))
        self.copy()

    def copy(self) -> None:
        """Copy what is new."""
        for path in self._files():
            try:
                with path.open("rb") as log:
                    log.seek(self.copied.get(path, 0))
                    while chunk := log.read(_CHUNK):
                        self.out.write(chunk)
                        self.copied[path] = log.tell()
            except FileNotFoundError:
                continue
        self.out.flush()

    def _files(self) -> list[Path]:
        pattern = re.compile(rf"log-{re.escape(self.job.name)}_{re.escape(self.job.id)}_(\d+)\.out")
        found = [(int(match[1]), path) for path in self._listing() if (match := pattern.fullmatch(path.name))]
        return [path for _, path in sorted(found)]

    def _listing(self) -> list[Path]:
        try:
            return list(self.job.directory.iterdir())
        except OSError:
            return []

    def _exit_file_is_new(self) -> bool:
        """Whether the job has written its exit code since this was last asked: the moment to ask Slurm."""
        try:
            written = (self.job.directory / EXIT_FILE).stat().st_mtime_ns
        except OSError:
            return False
        before, self.exit_file = self.exit_file, written
        return before != written
