"""Who am I: rank and world size from the launcher's environment."""

import pytest

from trainwright.runner.distributed import Place, first_host, place
from trainwright.runner.errors import RunRefused

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
STEP = {
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NUM_NODES": "2",
}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Place(0, 1, 0, 1, "none")),
        (TORCHRUN, Place(3, 8, 1, 2, "torchrun")),
        (STEP, Place(5, 8, 1, 4, "slurm")),
        (STEP | TORCHRUN, Place(3, 8, 1, 2, "torchrun")),
        # A shell inside an allocation is one process, whatever the allocation holds.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "16", "SLURM_JOB_ID": "7"}, Place(0, 1, 0, 1, "none")),
    ],
)
def test_the_launcher_decides(environment, expected):
    assert place(environment) == expected


def test_a_variable_that_is_no_number_is_named():
    with pytest.raises(RunRefused, match="RANK must be a number, it is 'three'"):
        place(TORCHRUN | {"RANK": "three"})


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("gpu7", "gpu7"),
        ("gpu[07-09,12],login1", "gpu07"),
        ("login1,gpu[07-09]", "login1"),
        ("a[1-2]-ib", "a1-ib"),
        ("", ""),
    ],
)
def test_first_host_of_a_node_list(nodes, host):
    assert first_host(nodes) == host
