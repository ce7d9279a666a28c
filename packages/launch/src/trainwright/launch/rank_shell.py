"""The shell between srun and run-recipe, in the container: lines for `/bin/sh -c`, in POSIX's shell language.

A shell at all, because srun looks up the program itself on the host, where run-recipe is not. It stays until the run
has ended, because srun ends all other ranks as soon as one has failed, and then gives the highest exit code of all,
which is often that of a rank that it ended itself: so the first rank that ends with an error leaves its own code.
"""

from trainwright.launch.mounts import JOB_MOUNT

FIRST_TO_FAIL = "first_to_fail"
"""In the job's directory, `first_to_fail_<job id>_<restart>`: the rank that ended first with an error, and its code."""

# Slurm signals the program that it has started, and where it tracks processes by cgroup only that one: it is passed on.
# A signal ends `wait` early. 127 is what `wait` says of a process that it has told of already. A program in the
# background has no standard input unless it is given one.
_RUN = (
    "run= code=127; "
    'trap \'[ "$run" ] || exit 143; again=1; kill -s TERM "$run" 2>/dev/null\' TERM; '
    'trap \'[ "$run" ] || exit 138; again=1; kill -s USR1 "$run" 2>/dev/null\' USR1; '
    'exec 3<&0; "$@" <&3 3<&- & run=$!; '
    'while again=; wait "$run"; new=$?; [ "$new" -eq 127 ] || code=$new; [ "$again" ]; do :; done; '
    '[ "$code" -eq 0 ] || (set -C; '
    f'echo "$SLURM_PROCID $code" > "{JOB_MOUNT}/{FIRST_TO_FAIL}_${{SLURM_JOB_ID}}_${{SLURM_RESTART_COUNT:-0}}"'
    ") 2>/dev/null; "
    'exit "$code"'
)
_SOURCE_FIRST = (
    "source=$1; shift; "
    'if ! [ -d "$source/apps/trainer/src" ]; then '
    'echo "--source $source: no checkout of trainwright is there in the container" >&2; exit 2; fi; '
    'for folder in "$source"/packages/*/src "$source/apps/trainer/src"; do '
    "PYTHONPATH=$folder${PYTHONPATH:+:$PYTHONPATH}; done; export PYTHONPATH; "
)


def rank_shell(command: tuple[str, ...], *, source: str | None = None) -> tuple[str, ...]:
    """`command` behind the shell, word by word; with the packages of the checkout `source` first, if one is given."""
    if source is None:
        return ("/bin/sh", "-c", _RUN, "trainwright", *command)
    return ("/bin/sh", "-c", _SOURCE_FIRST + _RUN, "trainwright", source, *command)
