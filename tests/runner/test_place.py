"""Who am I: rank and world size from the launcher's environment."""

import socket

import pytest

from trainwright.runner.distributed import Place, first_host, place, step_address, step_port
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
        # The step's own count, not what the allocation was asked for; an uneven step.
        (STEP | {"SLURM_STEP_TASKS_PER_NODE": "4(x2)", "SLURM_NTASKS_PER_NODE": "8"}, Place(5, 8, 1, 4, "slurm")),
        (STEP | {"SLURM_STEP_TASKS_PER_NODE": "5,3"}, Place(5, 8, 1, 5, "slurm")),
        # What Pyxis, and enroot's hook, set in PyTorch's images is the step's own place once more.
        (STEP | {"RANK": "5", "LOCAL_RANK": "1"}, Place(5, 8, 1, 4, "slurm")),
        (STEP | {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, Place(5, 8, 1, 4, "slurm")),
        # A program of one's own that a step's tasks run, and that starts ranks.
        (STEP | {"RANK": "3", "WORLD_SIZE": "16"}, Place(3, 16, 0, 16, "torchrun")),
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


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({"SLURM_STEP_NODELIST": "localhost,b", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1"}, "localhost"),
        ({"SLURM_STEP_NODELIST": "no-such.invalid", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1"}, "10.0.0.1"),
        ({"SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1"}, "10.0.0.1"),
        ({"SLURM_STEP_NODELIST": "no-such.invalid"}, socket.gethostname()),
    ],
)
def test_ranks_meet_at_the_first_node_if_its_name_is_known_here(environment, address):
    assert step_address(environment) == address


def test_no_two_starts_that_may_share_a_node_meet_at_one_port():
    """Neighbouring jobs, steps and restarts; below the ports that the kernel hands out."""
    ports = [
        step_port({"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": step, "SLURM_RESTART_COUNT": restart})
        for job in range(123456, 123956)
        for step in ("0", "1", "2")
        for restart in ("0", "1")
    ]
    assert len(set(ports)) == len(ports)
    assert 20000 <= min(ports) <= max(ports) < 30000
    assert step_port({"SLURM_JOB_ID": "7"}) == step_port({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": ""})
