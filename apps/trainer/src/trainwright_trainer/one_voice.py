"""Many ranks, one voice: what all would say is said once, and what only one of them knows is said by that one."""

import time

from trainwright_trainer.outcome import say

PATIENCE_SECONDS = 5.0
"""How long a rank that leaves the telling to another outlives its error. torchrun ends all ranks as soon as it sees the
first of them fail, and that should not be before the one that tells has told."""


def tell_once(error: BaseException, line: str) -> None:
    """Say the line if it falls to this rank.

    Words and configuration are wrong on all ranks alike: rank 0 tells. Data can be missing on one node only: the first
    rank of each tells. What goes wrong during the run may be known to a single rank: when nobody has ended that one
    by the time its patience is over, it tells.
    """
    from trainwright.datasets import DataError
    from trainwright.runner.distributed import place
    from trainwright.runner.errors import RunError, RunRefused

    try:
        here = place()
    except RunRefused:
        say(error, line)
        return
    if (here.local_rank if isinstance(error, DataError) else here.rank) == 0:
        say(error, line)
        return
    time.sleep(PATIENCE_SECONDS)
    if isinstance(error, RunError):
        say(error, f"{line} (rank {here.rank})")
