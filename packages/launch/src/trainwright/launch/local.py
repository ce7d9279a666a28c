"""The `local` executor: run-recipe on this machine, under torchrun where there is more than one rank."""

import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from trainwright.launch import record
from trainwright.launch.errors import LaunchError
from trainwright.launch.local_job import LocalJob, Programs, render_local
from trainwright.launch.settings import Settings
from trainwright.launch.status import STATUS_FILE, Status, read_status
from trainwright.launch.supervise import Outcome, supervise

FAILED, REFUSED, STOPPED_EARLY = 1, 2, 75


def ranks(settings: Settings) -> int:
    """How many ranks run here: what either option for it says, else one.

    Raises `LaunchError` where several nodes are asked for.
    """
    if settings.nodes not in (None, 1):
        raise LaunchError(f"--nodes {settings.nodes}: this machine is one node; --executor slurm runs on several")
    return settings.nproc_per_node or settings.gpus_per_node or 1


def local_job(words: Sequence[str], *, nproc_per_node: int) -> LocalJob:
    """The job that `launch_local` carries out.

    Raises `LaunchError` where it cannot be rendered or the container's commands are not installed.
    """
    return render_local(
        words,
        nproc_per_node=nproc_per_node,
        programs=find_programs(),
        cwd=Path.cwd(),
        environment=os.environ,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        now=datetime.now(UTC),
        token=secrets.token_hex(2),
    )


def launch_local(
    words: Sequence[str],
    *,
    nproc_per_node: int,
    dry_run: bool = False,
    check: bool = True,
    settings: Settings | None = None,
) -> int:
    """Run run-recipe's `words` on `nproc_per_node` ranks of this machine and return the run's own exit code.

    0 done, 1 the run failed, 2 refused before the first step, 75 stopped early in good order. Unless `check` is false,
    `run-recipe --dry-run` checks everything before any rank is started. With `dry_run` the command is printed and not
    run. `settings` are for the record.

    Raises `LaunchError` as `local_job` does.
    """
    job = local_job(words, nproc_per_node=nproc_per_node)
    refused = refusal(job) if check else 0
    if refused:
        return refused
    if dry_run:
        print(job.command_line)
        return 0
    return run(job, settings)


def find_programs() -> Programs:
    """The container's commands: on PATH, else beside the Python that runs this.

    Raises `LaunchError` naming what to install.
    """
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    run_recipe = shutil.which("run-recipe", path=search)
    if run_recipe is None:
        raise LaunchError("run-recipe is not on PATH: install the training side with `pip install trainwright-trainer`")
    # torchrun must be of the environment that run-recipe is in, whatever else is on PATH.
    torchrun = shutil.which("torchrun", path=os.pathsep.join([str(Path(run_recipe).parent), search]))
    if torchrun is None:
        raise LaunchError(f"torchrun is not on PATH nor beside {run_recipe}: install torch there")
    return Programs(run_recipe=run_recipe, torchrun=torchrun)


def refusal(job: LocalJob) -> int:
    """Let run-recipe resolve and validate the words without training.

    Returns 0, or the exit code of what went wrong, which run-recipe explains on standard error.
    """
    environment = {**os.environ, **job.environment, "WORLD_SIZE": str(job.nproc_per_node)}
    done = subprocess.run(job.check_argv, env=environment, cwd=job.cwd, stdout=subprocess.DEVNULL, check=False)
    return done.returncode if done.returncode >= 0 else FAILED


def run(job: LocalJob, settings: Settings | None = None) -> int:
    """Carry the job out; see `launch_local` for the exit codes."""
    about = record.content("local", job.words, cwd=job.cwd, settings=settings)
    added = {"argv": list(job.argv), "nproc_per_node": job.nproc_per_node, "environment": dict(job.environment)}
    take_back = record.write_record(job.run_dir, {**about, **added})
    with tempfile.TemporaryDirectory(prefix="trainwright-") as scratch:
        status_file = Path(scratch) / "status.json"
        outcome = supervise(job.argv, environment={**job.environment, STATUS_FILE: str(status_file)}, cwd=job.cwd)
        status = read_status(status_file)
    code = _exit_code(job, outcome, status)
    if code == REFUSED:
        take_back()
    return code


def _exit_code(job: LocalJob, outcome: Outcome, status: Status | None) -> int:
    """The run's own code: torchrun's is always 1, so the status comes first, then what torchrun says of the rank."""
    if outcome.returncode == 0:
        return 0
    if status is not None and status.exit_code in (FAILED, REFUSED, STOPPED_EARLY):
        if status.exit_code == FAILED:
            _name_rank_log(job, outcome)
        return status.exit_code
    if status is not None:
        _say(f"the run was done at step {status.step}, but its processes ended with {_ending(outcome.returncode)}")
        return FAILED
    if outcome.signalled is not None:
        _say(f"{outcome.signalled.name} ended the ranks before they could stop in good order")
        return FAILED
    code = _name_rank_log(job, outcome)
    return code if code in (REFUSED, STOPPED_EARLY) else FAILED


def _name_rank_log(job: LocalJob, outcome: Outcome) -> int:
    """Say in one line which rank failed first and where its output is; the exit code of that rank."""
    if job.nproc_per_node == 1:
        if outcome.returncode < 0:
            _say(f"run-recipe ended with {_ending(outcome.returncode)}")
        return outcome.returncode
    log = job.run_dir / "logs" / "torchrun.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(outcome.noise)
    found = re.search(rb"Root Cause.*?rank\s*: (\d+).*?exitcode\s*: (-?\d+)", outcome.noise, re.DOTALL)
    if found is None:
        _say(f"torchrun ended with {_ending(outcome.returncode)}; its log: {log}")
        return FAILED
    rank, code = int(found[1]), int(found[2])
    rank_logs = sorted(log.parent.glob(f"*/attempt_*/{rank}/stderr.log"), key=lambda path: path.stat().st_mtime_ns)
    where = f"its log: {rank_logs[-1]}" if rank_logs else "its output is above"
    _say(f"rank {rank} failed first, with {_ending(code)}; {where}")
    return code


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _say(message: str) -> None:
    print(f"trainwright launch: {message}", file=sys.stderr)
