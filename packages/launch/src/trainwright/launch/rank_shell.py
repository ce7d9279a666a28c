"""The shell between srun and run-recipe, in the container: lines for `/bin/sh -c`, in POSIX's shell language.

A shell at all, because srun looks up the program itself on the host, where run-recipe is not. It stays until the run
has ended, because srun ends all other ranks as soon as one has failed, and then gives the highest exit code of all,
which is often that of a rank that it ended itself: so the first rank that ends with an error leaves its own code.
"""

from trainwright.launch.mounts import JOB_MOUNT

FIRST_TO_FAIL = "first_to_fail"
"""In the job's directory, `first_to_fail_<job id>_<restart>`: the rank that ended first with an error, and its code."""

# Slurm signals the program that it has started, and where it tracks processes by cgroup only that one: it is passed on.
# A signal ends `wait` early; one that comes before the process is known is kept for it. 127 is what `wait` says of a
# process that it has told of already. A program in the background has no standard input unless it is given one. The
# names are long, because a variable of the image or of --env by one of them would change on its way to the run.
_PASS_ON = (
    "trap 'trainwright_again=1; trainwright_early={signal}; "
    '[ -z "$trainwright_run" ] || kill -s {signal} "$trainwright_run" 2>/dev/null\' {signal}; '
)
_RUN = (
    "trainwright_run= trainwright_early= trainwright_code=127; "
    + _PASS_ON.format(signal="TERM")
    + _PASS_ON.format(signal="USR1")
    + 'exec 3<&0; "$@" <&3 3<&- & trainwright_run=$!; '
    '[ -z "$trainwright_early" ] || kill -s "$trainwright_early" "$trainwright_run" 2>/dev/null; '
    'while trainwright_again=; wait "$trainwright_run"; trainwright_new=$?; '
    '[ "$trainwright_new" -eq 127 ] || trainwright_code=$trainwright_new; [ "$trainwright_again" ]; do :; done; '
    '[ "$trainwright_code" -eq 0 ] || (set -C; echo "$SLURM_PROCID $trainwright_code" '
    f'> "{JOB_MOUNT}/{FIRST_TO_FAIL}_${{SLURM_JOB_ID}}_${{SLURM_RESTART_COUNT:-0}}") 2>/dev/null; '
    'exit "$trainwright_code"'
)
_SOURCE_FIRST = (
    "trainwright_source=$1; shift; "
    'if ! [ -d "$trainwright_source/apps/trainer/src" ]; then '
    'echo "--source $trainwright_source: no checkout of trainwright is there in the container" >&2; exit 2; fi; '
    'for trainwright_folder in "$trainwright_source"/packages/*/src "$trainwright_source/apps/trainer/src"; do '
    "PYTHONPATH=$trainwright_folder${PYTHONPATH:+:$PYTHONPATH}; done; export PYTHONPATH; "
)


def rank_shell(command: tuple[str, ...], *, source: str | None = None) -> tuple[str, ...]:
    """`command` behind the shell, word by word; with the packages of the checkout `source` first, if one is given."""
    if source is None:
        return ("/bin/sh", "-c", _RUN, "trainwright", *command)
    return ("/bin/sh", "-c", _SOURCE_FIRST + _RUN, "trainwright", source, *command)
