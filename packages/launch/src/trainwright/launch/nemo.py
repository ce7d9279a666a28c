"""Hand a job to NeMo-Run: the only module that knows how it writes scripts, and what it gets wrong.

NeMo-Run 0.11.1 pastes image, mounts, srun arguments and the command into its script as they are, and takes `$$` and
`${num_nodes_var}` in arguments for templates of its own. So every such place is quoted here, and `$` is doubled where
it substitutes. tests/launch/nemo holds what it writes, so that an upgrade which changes any of it is noticed.

nemo_run takes seconds to import, so that nothing here imports it before the last moment.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from trainwright.launch.batch_script import rank_command, setup_lines
from trainwright.launch.errors import LaunchError, SubmissionFailed
from trainwright.launch.quiet import at_work, kept_output, text_of
from trainwright.launch.quoting import bash_quote
from trainwright.launch.slurm_job import SlurmJob
from trainwright.launch.waiting import Submitted

SET_BY_THE_SCRIPT = (
    "PYTHONUNBUFFERED",
    "SLURM_UNBUFFEREDIO",
    "TORCHX_MAX_RETRIES",
    "exitcode",
    "head_node",
    "head_node_ip",
    "nodes",
    "nodes_array",
)
"""Variables that NeMo-Run's script assigns: one of the user's with such a name would arrive with another value."""

_SAFE_PATH = re.compile(r"/[A-Za-z0-9_./+=@-]+")
_AS_IT_WAS = "{ set +vx; } 2>/dev/null; unset PYTHONUNBUFFERED SLURM_UNBUFFEREDIO"
"""The script's log without a trace of every line. SLURM_UNBUFFEREDIO is `srun --unbuffered`: every rank would write to
a pseudo-terminal, and draw progress bars into its log."""


def home(environment: Mapping[str, str]) -> Path:
    """NeMo-Run's directory, `NEMORUN_HOME` or `~/.nemo_run`, where jobs have theirs.

    Raises `LaunchError` where its path cannot stand in a script of NeMo-Run's, which quotes it nowhere.
    """
    named = environment.get("NEMORUN_HOME", os.path.expanduser("~/.nemo_run"))
    if not named:
        raise LaunchError("NEMORUN_HOME is empty: set it to a directory, or unset it")
    path = os.path.abspath(named)
    if not _SAFE_PATH.fullmatch(path):
        raise LaunchError(
            f"NEMORUN_HOME {path}: only letters, digits and _ . / + = @ - may stand in it, since NeMo-Run and Pyxis "
            "take everything else for something of their own; set NEMORUN_HOME to another directory"
        )
    return Path(path)


def job_directory(job: SlurmJob, nemo_home: Path) -> Path:
    """Where the job's own directory is on the host: mounted at `/nemo_run`, with the logs."""
    return nemo_home / "experiments" / job.name / _experiment_id(job) / job.name


def check_names(job: SlurmJob, environment: Mapping[str, str]) -> None:
    """Raise `LaunchError` for a variable that NeMo-Run's script would change on its way to the ranks."""
    for name in job.env_names:
        if name in SET_BY_THE_SCRIPT and not (name == "PYTHONUNBUFFERED" and environment.get(name) == "1"):
            raise LaunchError(
                f"--env {name}: NeMo-Run's script sets a variable of this name itself, so your value would be lost; "
                "--render sbatch writes a script without it"
            )


def dry_run(job: SlurmJob, nemo_home: Path) -> str:
    """The script that `submit` would hand to sbatch, byte for byte. Nothing is left behind.

    Raises `SubmissionFailed` where NeMo-Run fails.
    """
    with tempfile.TemporaryDirectory(prefix="trainwright-") as scratch, _nemo_run("rendering with NeMo-Run") as run:
        with _experiment(run, job, _slurm_executor(run, job, nemo_home), Path(scratch)) as experiment:
            experiment.dryrun(log=False, delete_exp_dir=False)
        script = next(Path(scratch).rglob("*_sbatch.sh"))
        # As NeMo-Run has written it: in the encoding of the locale.
        return script.read_text()


def submit(job: SlurmJob, nemo_home: Path, environment: Mapping[str, str]) -> Submitted:
    """Submit the job through NeMo-Run and return at once. `environment` is sbatch's.

    The job's directory may be there already. Raises `SubmissionFailed` with Slurm's own words where sbatch refuses;
    removing what was made by then is the caller's.
    """
    with _nemo_run("submitting with NeMo-Run") as run:
        with _experiment(run, job, _slurm_executor(run, job, nemo_home), nemo_home) as experiment:
            _prepare_once_where_it_is(experiment)
            with _environment(environment):
                experiment.run(detach=True)
        handle: str = experiment.jobs[0].handle
    job_id, _, cluster = handle.rpartition("/")[2].partition(";")
    return Submitted(job_id, job.name, job_directory(job, nemo_home), cluster or None)


def _slurm_executor(run: Any, job: SlurmJob, nemo_home: Path) -> Any:
    """The job in NeMo-Run's terms. Directives all go in as additional parameters, which it writes as they are."""
    from nemo_run.core.execution.slurm import SlurmJobDetails  # type: ignore[import-untyped]

    directory = job_directory(job, nemo_home)
    return run.SlurmExecutor(
        account=job.directives["account"],
        time=None,
        nodes=job.nodes,
        ntasks_per_node=job.tasks_per_node,
        additional_parameters={key.replace("-", "_"): value for key, value in job.directives.items()},
        container_image=bash_quote(job.image),
        container_mounts=[bash_quote(str(mount)) for mount in job.mounts],
        container_env=list(job.env_names),
        srun_args=[bash_quote(argument) for argument in job.srun_args],
        setup_lines=f"{_AS_IT_WAS}\n{setup_lines(job, job_dir=str(directory))}",
        # Otherwise the account becomes a part of the job's name.
        job_details=SlurmJobDetails(job_name=job.name),
        # No code is copied: the image holds it, or --source names it.
        packager=run.Packager(),
        tunnel=run.LocalTunnel(job_dir=str(nemo_home / "experiments")),
        poll_estimated_start_time=False,
    )


@contextmanager
def _experiment(run: Any, job: SlurmJob, executor: Any, base: Path) -> Iterator[Any]:
    """NeMo-Run's experiment with the job in it."""
    program, first, *rest = rank_command(job)
    script = run.Script(entrypoint=program, path=_argument(first), args=[_argument(word) for word in rest])
    experiment = run.Experiment(
        job.name,
        id=_experiment_id(job),
        executor=executor,
        base_dir=str(base),
        clean_mode=True,
        enable_goodbye_message=False,
        skip_status_at_exit=True,
        # The script says what these files would say, and writing them costs as much as the rest together.
        serialize_metadata_for_scripts=False,
    )
    with experiment:
        experiment.add(script, executor=executor, name=job.name)
        yield experiment


def _experiment_id(job: SlurmJob) -> str:
    """NeMo-Run takes what stands before the last `_` for the title."""
    return f"{job.name}_{job.id.removeprefix(job.name).lstrip('-')}"


def _argument(word: str) -> str:
    """A word for the script, through NeMo-Run's string templates, in which `$$` is a dollar sign."""
    return bash_quote(word).replace("$", "$$")


def _prepare_once_where_it_is(experiment: Any) -> None:
    """`run` prepares twice and insists on making the directory, which holds launch.json by then: a job may start before
    `run` returns. Once is enough, in the directory that is there."""
    prepare = experiment._prepare
    once = cache(lambda: prepare(exist_ok=True))
    experiment._prepare = lambda exist_ok=False: once()


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """NeMo-Run starts sbatch in this process's environment."""
    before = dict(os.environ)
    _set_environment(wanted)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(wanted: Mapping[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)


@contextmanager
def _nemo_run(message: str) -> Iterator[Any]:
    """The module nemo_run, whose talk is kept, and shown only where it fails and sbatch has not said why."""
    said = ""
    try:
        with at_work(message), kept_output() as kept:
            try:
                import nemo_run  # type: ignore[import-untyped]

                yield nemo_run
            except Exception:
                said = text_of(kept)
                raise
    except Exception as error:
        refusal = _of_sbatch(error)
        if refusal is None and said:
            print(said, file=sys.stderr)
        raise SubmissionFailed(refusal or f"NeMo-Run failed: {type(error).__name__}: {error}") from error


def _of_sbatch(error: Exception) -> str | None:
    """Slurm's own words in one line, where `error` is of a command that NeMo-Run ran; None otherwise."""
    result = getattr(error, "result", None)
    said = getattr(result, "stderr", "") or ""
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    return "; ".join(dict.fromkeys(lines)) or None
