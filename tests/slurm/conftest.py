"""The cluster of this folder's tests, started when the first of them asks for it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm.cluster import Cluster, missing, running_cluster
from tests.slurm.login import Login

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder needs the cluster."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session")
def slurm_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Skipped where Slurm is not installed, unless CI is set; a Slurm that is there and does not start is a failure."""
    reason = missing()
    if reason is not None:
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    # A container sees of the tests' own files only what is mounted.
    with running_cluster(hidden=[tmp_path_factory.getbasetemp()]) as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_session: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The running cluster; this process and its children speak to it through `SLURM_CONF`."""
    for name in [name for name in os.environ if name not in slurm_session.environment()]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_CONF", str(slurm_session.conf))
    return slurm_session


@pytest.fixture(scope="module")
def login(slurm_session: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Login:
    """One user for the tests of a file, so that they can share jobs."""
    return Login(slurm_session, tmp_path_factory.mktemp("home"))
