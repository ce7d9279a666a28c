"""The shell that runs a job on its nodes: what NeMo-Run's script gets from us, and a whole script without NeMo-Run."""

import shlex
from collections.abc import Iterator

from trainwright.launch.mounts import JOB_MOUNT
from trainwright.launch.quoting import bash_quote
from trainwright.launch.rank_shell import FIRST_TO_FAIL, rank_shell
from trainwright.launch.slurm_job import SlurmJob, host_of

WORKDIR = f"{JOB_MOUNT}/code"
"""The working directory in the container; NeMo-Run fixes it."""
MEMORY_CLOCK_FAILED = 41
"""Exit code of a job whose GPU memory clock could not be locked."""
JOBS_FOLDER = "trainwright-jobs"
"""Where a script of `render_sbatch` keeps the job's own directory, below the directory that sbatch is called in."""

_MARKER = "latest_checkpointed_iteration.txt"
_JOB_DIR = "\0"
"""Stands for the job's directory until it is written as a shell variable: no argument can hold it."""

_AT_END = """\
trainwright_before=$(cat "$trainwright_marker" 2>/dev/null)
trainwright_stopped=
rm -f "$trainwright_job_dir/exit_status"
trainwright_say() {
    echo "trainwright: $*"
}
trainwright_end() {
    { set +evx; } 2>/dev/null
    local code=$1 first="$trainwright_job_dir/FIRST_TO_FAIL_${SLURM_JOB_ID}_${SLURM_RESTART_COUNT:-0}" rank told
    if [ "$code" -ne 0 ] && [ -r "$first" ] && read -r rank told < "$first" && [ "${told:-0}" -gt 0 ]; then
        code=$told
        trainwright_say "rank $rank was the first to end, with exit code $code"
    fi
    trainwright_decide "$code"
    exit "$code"
}
trainwright_decide() {
    local code=$1 new="$trainwright_job_dir/exit_status.new" why count
    echo "$SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0} $code" > "$new" && mv -f "$new" "$trainwright_job_dir/exit_status"
    if [ "$code" -eq 0 ]; then
        return
    elif [ "$code" -eq 2 ]; then
        trainwright_say "the run was refused (exit code 2); repeating it would change nothing"
        return
    elif [ -n "$trainwright_stopped" ]; then
        trainwright_say "the job was stopped from outside; whether it runs again is Slurm's to decide"
        return
    elif [ "$code" -eq 75 ]; then
        why="the run stopped early in good order (exit code 75)"
    elif [ -z "$trainwright_marker" ]; then
        trainwright_say "the run failed (exit code $code); no --mount says where its checkpoints are outside the" \
            "container, so nobody can tell whether there is a new one; not repeated"
        return
    elif [ "$(cat "$trainwright_marker" 2>/dev/null)" != "$trainwright_before" ]; then
        why="the run failed (exit code $code) after a new checkpoint"
    else
        trainwright_say "the run failed (exit code $code) with no new checkpoint since it started; not repeated"
        return
    fi
    count=$(grep -c "^$SLURM_JOB_ID " "$trainwright_job_dir/requeues" 2>/dev/null)
    count=${count:-0}
    if [ "$count" -ge "$trainwright_max_requeues" ]; then
        trainwright_say "$why; not repeated: $count of --max-requeues $trainwright_max_requeues are used"
        return
    fi
    trainwright_say "$why; back into the queue, requeue $((count + 1)) of at most $trainwright_max_requeues"
    echo "$SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0} $code" >> "$trainwright_job_dir/requeues"
    scontrol requeue "$SLURM_JOB_ID" || trainwright_say "Slurm did not take the job back into the queue"
}
trap 'trainwright_stopped=1' TERM
trap 'trainwright_end $?' EXIT""".replace("FIRST_TO_FAIL", FIRST_TO_FAIL)
# Trapped rather than left alone: bash then waits for srun, whose ranks save a checkpoint, and knows that the signal was
# meant for the job, which scancel must be able to end for good. `$?` in an EXIT trap is the status of the script, here
# srun's, which is the highest of all ranks, also of those that it ended itself; `exit` in the trap gives it another.


def rank_command(job: SlurmJob) -> tuple[str, ...]:
    """What srun starts for each rank, word by word, not yet quoted."""
    return rank_shell(job.command, source=job.source)


def srun_options(job: SlurmJob, *, job_dir: str) -> tuple[str, ...]:
    """The options of the srun that starts the ranks, word by word, not yet quoted and without the log's path.

    `job_dir` is the job's own directory on the host.
    """
    container: tuple[str, ...] = ()
    if job.image:
        mounts = ",".join((*map(str, job.mounts), f"{job_dir}:{JOB_MOUNT}"))
        container = (f"--container-image={job.image}", f"--container-mounts={mounts}", f"--container-workdir={WORKDIR}")
        if job.env_names:
            container += (f"--container-env={','.join(job.env_names)}",)
    # One bad rank ends the step at once, and its exit code is the job's; both are NeMo-Run's words too.
    return (*container, "--wait=60", "--kill-on-bad-exit=1", *job.srun_args)


def setup_lines(job: SlurmJob, *, job_dir: str) -> str:
    """What the batch shell does before the ranks start, for NeMo-Run's `setup_lines`; pure ASCII.

    It locks the memory clock where the job says so, and sets a trap for the end of the script. That writes
    `exit_status` in `job_dir` (`JOB-ID RESTART-COUNT CODE`) and decides whether the job goes back into the queue:
    after exit code 75, or after a failure that comes with a new checkpoint, at most `max_requeues` times, which
    `requeues` counts. A job that was stopped from outside, by scancel, preemption or its time limit, never does.
    """
    return "\n".join((f"trainwright_job_dir={bash_quote(job_dir)}", *_setup(job)))


def render_sbatch(job: SlurmJob) -> str:
    """The job as one sbatch script that needs nothing on the cluster but Slurm, Pyxis and the image.

    The job's directory is `trainwright-jobs/<id>` below the directory that sbatch is called in; submitting the script
    again, or requeueing the job, uses it again.
    """
    log = f"{_JOB_DIR}/log-{job.name}_%j_"
    options = " \\\n    ".join(_shell_word(option) for option in srun_options(job, job_dir=_JOB_DIR))
    command = " ".join(map(bash_quote, rank_command(job)))
    return "\n".join(
        (
            "#!/bin/bash",
            *_directives(job),
            "",
            "# Written by `trainwright launch --render sbatch`. Submit it with sbatch, from where its directory",
            f"# {JOBS_FOLDER}/ may stand; the same script submitted again from there continues the same run.",
            "",
            f'trainwright_job_dir="${{SLURM_SUBMIT_DIR:?submit this script with sbatch}}"/{JOBS_FOLDER}/{job.id}',
            *_checks(job),
            'mkdir -p "$trainwright_job_dir/code" || exit 1',
            "",
            *_setup(job),
            "",
            f'srun --output={_shell_word(log)}"${{SLURM_RESTART_COUNT:-0}}".out \\',
            f"    {options} \\",
            f"    {command}",
            "exit $?",
            "",
        )
    )


def _setup(job: SlurmJob) -> Iterator[str]:
    """The lines that both scripts share; `trainwright_job_dir` is set."""
    marker = host_of(f"{job.checkpoints}/{_MARKER}", job, _JOB_DIR)
    yield f"trainwright_marker={_shell_word(marker or '')}"
    yield f"trainwright_max_requeues={job.max_requeues}"
    yield _AT_END
    if job.memory_clock is not None:
        one_a_node = f"--nodes={job.nodes} --ntasks={job.nodes} --ntasks-per-node=1"
        yield f"srun {one_a_node} nvidia-smi --lock-memory-clocks={job.memory_clock} || {{"
        yield (
            f'    trainwright_say "the memory clock could not be locked at {job.memory_clock} MHz;'
            ' --peak-mem-clk=-1 leaves it alone"'
        )
        yield f"    exit {MEMORY_CLOCK_FAILED}"
        yield "}"


def _checks(job: SlurmJob) -> Iterator[str]:
    """What cannot be known before the script is submitted."""
    yield "case $trainwright_job_dir in *[,:%\\\\]*)"
    yield '    echo "trainwright: $trainwright_job_dir: no comma, colon, % or backslash may stand in it" >&2'
    yield "    exit 2 ;;"
    yield "esac"
    if job.env_names:
        yield f"for trainwright_name in {' '.join(job.env_names)}; do"
        yield '    if [ -z "${!trainwright_name+set}" ]; then'
        yield '        echo "trainwright: $trainwright_name is not set: export it where sbatch is called" >&2'
        yield "        exit 2"
        yield "    fi"
        yield "done"


def _directives(job: SlurmJob) -> Iterator[str]:
    directives: dict[str, str | bool] = {
        **job.directives,
        "job-name": job.name,
        "nodes": str(job.nodes),
        "ntasks-per-node": str(job.tasks_per_node),
        "output": f"sbatch_{job.name}_%j.out",
        "open-mode": "append",
        "requeue": True,
    }
    for key, value in sorted(directives.items()):
        yield f"#SBATCH --{key}" if value is True else f"#SBATCH --{key}={shlex.quote(str(value))}"


def _shell_word(text: str) -> str:
    """One word for bash, with the variable where the job's directory stands."""
    parts = [bash_quote(part) if part else "" for part in text.split(_JOB_DIR)]
    return '"$trainwright_job_dir"'.join(parts) or "''"
