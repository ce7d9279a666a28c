"""The `slurm` executor: a job is checked, recorded, handed to NeMo-Run, and followed if asked."""

import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from trainwright.launch import nemo, own_executor, recipe_names, record
from trainwright.launch.errors import LaunchError, on_one_line
from trainwright.launch.settings import Settings
from trainwright.launch.slurm_job import SlurmJob, host_of, render_slurm
from trainwright.launch.waiting import Submitted, wait

Preflight = Callable[[Sequence[str], int], Sequence[str]]
"""Resolves run-recipe's words for a number of ranks; returns lines to tell, raises where the run would be refused."""

_SLURM_PREFIXES = ("SBATCH_", "SLURM_", "SRUN_", "PYXIS_")
_KEPT = ("SLURM_CONF",)
_SHOWN_FILES = 3


def launch_slurm(settings: Settings, words: Sequence[str], *, preflight: Preflight | None = None) -> int:
    """Submit run-recipe's `words` as a Slurm job, or to an executor of the user's own, and say how to go on.

    Returns 0 once Slurm has taken the job; with `settings.wait` the job's own exit status (see `waiting.wait`). With
    `settings.dry_run` the script is printed and nothing is left behind; a refusal by `preflight` is then only a
    warning, since the container's version decides.

    Raises `LaunchError` where anything is refused before a submission, `SubmissionFailed` where Slurm refuses it, and
    what `preflight` raises.
    """
    now, token = datetime.now(UTC), secrets.token_hex(2)
    job = render_slurm(settings, words, now=now, token=token)
    for note in job.notes:
        _say(note)
    _preflight(preflight, job, only_warn=settings.dry_run)
    if settings.kind == "own":
        return own_executor.launch(settings, job, say=_say)
    home = nemo.home(os.environ)
    nemo.check_names(job, os.environ)
    if settings.dry_run:
        print(nemo.dry_run(job, home))
        return 0
    environment = _environment(os.environ, job)
    submitted, run_dir = _submit(settings, job, home, environment)
    print(_how_to_go_on(submitted, run_dir), flush=True)
    return wait(submitted, environment=environment, say=_say) if settings.wait else 0


def _preflight(preflight: Preflight | None, job: SlurmJob, *, only_warn: bool) -> None:
    """Resolve the words for the whole job, before the seconds that NeMo-Run takes to load."""
    ranks = job.nodes * job.tasks_per_node
    try:
        lines = preflight(job.words, ranks) if preflight else recipe_names.size_note(job.words, ranks)
    except Exception as refusal:
        if not only_warn or getattr(refusal, "exit_code", None) != LaunchError.exit_code:
            raise
        lines = [f"warning: {refusal}"]
    for line in lines:
        _say(line)


def _environment(environment: Mapping[str, str], job: SlurmJob) -> dict[str, str]:
    """Slurm's programs read options out of the environment, and sbatch's win over the script's: none is left.

    What the job forwards stays. Raises `LaunchError` where there is no sbatch.
    """
    if shutil.which("sbatch", path=environment.get("PATH")) is None:
        raise LaunchError("sbatch is not on PATH: launch from a login node of the cluster, or use --executor local")
    dropped = [
        name
        for name in environment
        if name.startswith(_SLURM_PREFIXES) and name not in _KEPT and name not in job.env_names
    ]
    read_by_sbatch = sorted(name for name in dropped if name.startswith("SBATCH_"))
    if read_by_sbatch:
        _say(f"warning: {', '.join(read_by_sbatch)} not given to sbatch, which would prefer them to launch options")
    return {name: value for name, value in environment.items() if name not in dropped}


def _submit(settings: Settings, job: SlurmJob, home: Path, environment: Mapping[str, str]) -> tuple[Submitted, Path]:
    """Record and submit; what was made for a job that Slurm refuses is taken back."""
    directory = nemo.job_directory(job, home)
    discard = record.remover(directory.parent)
    content = record.content(settings.executor, job.words, cwd=Path.cwd(), settings=settings)
    _warn_of_changes(content["git"])
    run_dir, take_back = _record(job, directory, content)
    try:
        submitted = nemo.submit(job, home, environment)
    except BaseException:
        take_back()
        discard()
        raise
    logs = {"ranks": str(submitted.rank_log()), "batch": str(submitted.batch_log)}
    about = {"id": submitted.id, "name": job.name, "directory": str(directory), "logs": logs}
    try:
        record.add_to_record(run_dir, {"job": about})
    except (OSError, ValueError) as error:
        _say(f"warning: {run_dir / record.RECORD} does not name job {submitted.id}: {error}")
    return submitted, run_dir


def _record(job: SlurmJob, directory: Path, content: Mapping[str, object]) -> tuple[Path, Callable[[], None]]:
    """Write `launch.json` where the run directory is on this machine, else into the job's directory."""
    run_dir = host_of(job.run_dir, job, str(directory))
    where = directory
    if run_dir is None:
        _say(f"{record.RECORD} goes to {directory}, since no --mount says where {job.run_dir} is outside the container")
    elif not _mount_is_here(Path(run_dir), directory, job):
        _say(f"{record.RECORD} goes to {directory}, since what is mounted for {job.run_dir} is not on this machine")
    else:
        where = Path(run_dir)
    return where, record.write_record(where, content)


def _mount_is_here(run_dir: Path, directory: Path, job: SlurmJob) -> bool:
    """Whether this machine has the directory that is mounted; if not, making it here would help nobody."""
    if run_dir.is_relative_to(directory):
        return True
    holding = [Path(mount.host) for mount in job.mounts if run_dir.is_relative_to(mount.host)]
    return any(host.is_dir() for host in holding)


def _warn_of_changes(git: Mapping[str, object] | None) -> None:
    dirty = list(git["dirty"]) if git is not None and isinstance(git["dirty"], tuple | list) else []
    if dirty:
        more = f" and {len(dirty) - _SHOWN_FILES} more" if len(dirty) > _SHOWN_FILES else ""
        shown = ", ".join(dirty[:_SHOWN_FILES])
        _say(f"warning: not committed: {shown}{more}; {record.RECORD} lists what differs from the commit")


def _how_to_go_on(job: Submitted, run_dir: Path) -> str:
    commands = job.commands
    return "\n".join(
        (
            f"job {job.id} ({job.name}) is submitted",
            f"  run directory  {shlex.quote(str(run_dir))}",
            f"  log of ranks   {job.rank_log()}",
            f"  log of script  {job.batch_log}",
            f"  its place      {commands['queue']}",
            f"  its history    {commands['accounting']}",
            f"  follow it      {commands['logs']}",
            f"  end it         {commands['end']}",
        )
    )


def _say(message: str) -> None:
    print(f"trainwright launch: {on_one_line(message)}", file=sys.stderr, flush=True)
