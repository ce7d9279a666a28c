"""One process that has imported nemo_run, for all tests of this folder: the import takes seconds, and changes much."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.launch.nemo.shell import Shell, begin

Call = Callable[..., Any]


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Call]:
    """Calls a function of a module with what follows in the process of nemo_run, and hands back what it returns.

    nemo_run decides when it is imported where its list of jobs is.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, begin, (tmp_path_factory.mktemp("home"),)) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result(timeout=300)


@pytest.fixture
def shell(tmp_path: Path, elsewhere: Call) -> Shell:
    """A user's shell on a login node whose Slurm is a few recorders."""
    return Shell(tmp_path, elsewhere)
