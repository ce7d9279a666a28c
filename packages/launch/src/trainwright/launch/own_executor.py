"""`--executor MODULE:FUNCTION`: whatever else NeMo-Run runs jobs on, through a function of the user's own."""

import os
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from trainwright.launch.batch_script import rank_command
from trainwright.launch.errors import LaunchError, SubmissionFailed
from trainwright.launch.mounts import JOB_MOUNT
from trainwright.launch.quoting import bash_quote
from trainwright.launch.settings import Settings
from trainwright.launch.slurm_job import SlurmJob


def launch(settings: Settings, job: SlurmJob, *, say: Callable[[str], None]) -> int:
    """Run the job on the NeMo-Run executor that the function returns.

    `settings.executor` is `MODULE:FUNCTION`; MODULE is imported, also from the working directory, and FUNCTION is
    called with the `SlurmJob`: nodes, tasks, image, mounts and names of variables are there for it to use, and nothing
    of them is applied otherwise. What the executor starts is a script for bash with one rank's command, so that its
    launcher (`launcher="torchrun"` where the executor has one) decides about ranks:

        def docker(job):
            import nemo_run
            return nemo_run.DockerExecutor(container_image=job.image, num_gpus=job.tasks_per_node, launcher="torchrun")

    NeMo-Run mounts its directory of the job at `/nemo_run`, where the default run directory is; `LocalExecutor` mounts
    nothing, so there `--run-dir` is needed. Returns 0 where the job is taken, or has succeeded where NeMo-Run waits for
    it (executors that cannot be left alone, and `--wait`); else 1, since NeMo-Run does not tell exit codes.

    Raises `LaunchError` where there is no such function or it returns no executor.
    """
    executor = _executor(settings.executor, job)
    with tempfile.TemporaryDirectory(prefix="trainwright-") as scratch:
        return _run(settings, job, executor, base=Path(scratch) if settings.dry_run else None, say=say)


def _run(settings: Settings, job: SlurmJob, executor: Any, *, base: Path | None, say: Callable[[str], None]) -> int:
    import nemo_run  # type: ignore[import-untyped]

    if settings.dry_run:
        print(script(job), flush=True)
    task = nemo_run.Script(inline=script(job))
    experiment = nemo_run.Experiment(job.name, executor=executor, base_dir=base, enable_goodbye_message=False)
    with experiment:
        experiment.add(task, executor=executor, name=job.name, tail_logs=True)
        if settings.dry_run:
            experiment.dryrun()
            return 0
        experiment.run(detach=not settings.wait)
    state = experiment.jobs[0].state.name
    if getattr(experiment, "detach", False):
        say(f"{experiment.jobs[0].handle} is submitted; go on with: nemo experiment status {experiment._id}")
        return 0
    if state != "SUCCEEDED":
        raise SubmissionFailed(f"NeMo-Run says that {job.name} ended as {state}")
    return 0


def script(job: SlurmJob) -> str:
    """What the executor runs: one rank's command, for bash, which gives each word as it was typed."""
    return f"exec {' '.join(map(bash_quote, rank_command(job)))}\n"


def _executor(named: str, job: SlurmJob) -> Any:
    """Call the user's function, and look at what it returns."""
    import nemo_run

    module_name, _, function_name = named.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        function = getattr(import_module(module_name), function_name)
        executor = function(job)
    except Exception as error:
        raise LaunchError(f"--executor {named}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(os.getcwd())
    if not isinstance(executor, nemo_run.Executor):
        raise LaunchError(f"--executor {named}: it returned {type(executor).__name__}, and no executor of NeMo-Run's")
    if isinstance(executor, nemo_run.LocalExecutor) and f"{job.run_dir}/".startswith(f"{JOB_MOUNT}/"):
        raise LaunchError(f"--executor {named}: LocalExecutor mounts no {JOB_MOUNT}: give --run-dir")
    return executor
