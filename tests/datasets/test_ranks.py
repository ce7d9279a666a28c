"""Several ranks over gloo: the same samples on each, one error for all, whatever the file systems do."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainwright.recipes.config import ConfigContainer

pytestmark = pytest.mark.distributed
RANK = Path(__file__).with_name("rank.py")


@pytest.fixture
def run_ranks(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Start one process for each configuration, all of one group; returns what each saw."""

    def run(*configs: ConfigContainer, local_ranks: tuple[int, ...] = (0, 1)) -> list[dict[str, Any]]:
        processes = []
        for rank, config in enumerate(configs):
            (tmp_path / f"config{rank}.json").write_text(config.model_dump_json())
            command = [sys.executable, RANK, rank, len(configs), tmp_path / "rendezvous"]
            command += [tmp_path / f"config{rank}.json", tmp_path / f"result{rank}.json"]
            environment = os.environ | {"OMP_NUM_THREADS": "1", "LOCAL_RANK": str(local_ranks[rank])}
            log = (tmp_path / f"log{rank}").open("w")
            processes.append(subprocess.Popen([str(word) for word in command], env=environment, stderr=log, stdout=log))
        for rank, process in enumerate(processes):
            assert process.wait(timeout=150) == 0, (tmp_path / f"log{rank}").read_text()
        return [json.loads((tmp_path / f"result{rank}.json").read_text()) for rank in range(len(configs))]

    return run


@pytest.fixture
def corpora(write_pair: Callable[..., str], random_documents: Any) -> tuple[str, str]:
    return write_pair("a", random_documents(60)), write_pair("b", random_documents(40, seed=1))


def test_two_ranks_get_the_same_samples_from_one_cache(
    run_ranks: Any, make_config: Any, corpora: tuple[str, str], tmp_path: Path
) -> None:
    """Rank 0 builds, rank 1 finds."""
    a, b = corpora
    config = make_config(
        kind="megatron-indexed", data_path=[0.7, a, 0.3, b], split="80,20", path_to_cache=str(tmp_path / "cache")
    )
    first, second = run_ranks(config, config)
    assert first == second
    assert len(first["train"]) == 24
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.name.startswith(".")] == []


def test_two_nodes_without_a_common_file_system_get_the_same_samples(
    run_ranks: Any, make_config: Any, corpora: tuple[str, str], tmp_path: Path
) -> None:
    """Each builds in a cache folder of its own; nobody waits for files that rank 0 wrote elsewhere."""
    a, b = corpora
    words = {"kind": "megatron-indexed", "data_path": [a, b], "split": "80,20"}
    configs = [make_config(**words, path_to_cache=str(tmp_path / f"node{node}")) for node in range(2)]
    first, second = run_ranks(*configs, local_ranks=(0, 0))
    assert first == second
    names = [sorted(path.name for path in (tmp_path / f"node{node}").iterdir()) for node in range(2)]
    assert names[0] == names[1] != []


def test_what_fails_on_one_rank_ends_all_with_its_reason(
    run_ranks: Any, make_config: Any, corpora: tuple[str, str], tmp_path: Path
) -> None:
    """No rank is left waiting."""
    good = make_config(kind="megatron-indexed", data_path=corpora[0], split="80,20", path_to_cache=str(tmp_path / "c"))
    bad = make_config(kind="megatron-indexed", data_path=str(tmp_path / "not-here"), split="80,20")
    first, second = run_ranks(good, bad)
    assert "not-here.idx and .bin do not exist" in second["error"]
    assert first["error"] == f"rank 1: {second['error']}"


def test_ranks_that_read_different_files_are_stopped(
    run_ranks: Any, make_config: Any, corpora: tuple[str, str], tmp_path: Path
) -> None:
    """A stale copy on one node would train on other data without a word."""
    a, b = corpora
    for node, source in enumerate((a, b)):
        (tmp_path / f"disk{node}").mkdir()
        for suffix in (".bin", ".idx"):
            shutil.copy(source + suffix, tmp_path / f"disk{node}" / f"corpus{suffix}")
    configs = [
        make_config(kind="megatron-indexed", data_path=str(tmp_path / f"disk{node}" / "corpus"), split="80,20")
        for node in range(2)
    ]
    results = run_ranks(*configs)
    assert [result["error"] for result in results] == ["ranks 0 and 1 read different files under the same names"] * 2
