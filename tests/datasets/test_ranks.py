"""Two ranks over gloo: the same samples on each, one error for both, whatever the file systems do."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.distributed
RANK = Path(__file__).with_name("rank.py")
SPLIT = {"kind": "megatron-indexed", "split": "80,20"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def results(place: Path, make_config: Any, write_pair: Any, random_documents: Any) -> dict[str, list[dict[str, Any]]]:
    """Case -> what rank 0 and rank 1 saw. One pair of processes serves all cases: their imports take seconds."""
    a = write_pair(place / "a", random_documents(60))
    b = write_pair(place / "b", random_documents(40, seed=1))
    for node, source in enumerate((a, b)):
        (place / f"disk{node}").mkdir()
        for suffix in (".bin", ".idx"):
            shutil.copy(source + suffix, place / f"disk{node}" / f"corpus{suffix}")

    def case(*words: dict[str, Any], local_ranks: tuple[int, int] = (0, 1)) -> dict[str, Any]:
        return {"configs": [make_config(**SPLIT, **each).model_dump() for each in words], "local_ranks": local_ranks}

    shared = {"data_path": [0.7, a, 0.3, b], "path_to_cache": str(place / "shared")}
    cases = {
        "one cache": case(shared, shared),
        "two nodes": case(
            *({"data_path": [a, b], "path_to_cache": str(place / f"node{node}")} for node in range(2)),
            local_ranks=(0, 0),
        ),
        "one fails": case(shared, {"data_path": str(place / "not-here")}),
        "other files": case(*({"data_path": str(place / f"disk{node}" / "corpus")} for node in range(2))),
    }
    (place / "cases.json").write_text(json.dumps(cases))
    return dict(zip(cases, zip(*_run(place, cases), strict=True), strict=True))


def _run(place: Path, cases: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """What each rank saw, in the order of the cases."""
    processes = []
    for rank in range(2):
        words = [sys.executable, RANK, rank, 2, place / "rendezvous", place / "cases.json", place / f"{rank}.json"]
        log = (place / f"log{rank}").open("w")
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        processes.append(subprocess.Popen([str(word) for word in words], env=environment, stdout=log, stderr=log))
    for rank, process in enumerate(processes):
        assert process.wait(timeout=240) == 0, (place / f"log{rank}").read_text()
    seen = [json.loads((place / f"{rank}.json").read_text()) for rank in range(2)]
    return [[results[name] for name in cases] for results in seen]


def test_two_ranks_get_the_same_samples_from_one_cache(results: Any, place: Path) -> None:
    """Rank 0 builds, rank 1 finds; nothing half-written stays."""
    first, second = results["one cache"]
    assert first == second
    assert len(first["train"]) == 24
    assert not [path.name for path in (place / "shared").iterdir() if path.name.startswith(".")]


def test_two_nodes_without_a_common_file_system_get_the_same_samples(results: Any, place: Path) -> None:
    """Each builds in a cache folder of its own; nobody waits for files that rank 0 wrote elsewhere."""
    first, second = results["two nodes"]
    assert first == second
    names = [sorted(path.name for path in (place / f"node{node}").iterdir()) for node in range(2)]
    assert names[0] == names[1] != []


def test_what_fails_on_one_rank_ends_both_with_its_reason(results: Any) -> None:
    """No rank is left waiting."""
    first, second = results["one fails"]
    assert "not-here.idx and .bin do not exist" in second["error"]
    assert first["error"] == f"rank 1: {second['error']}"


def test_ranks_that_read_different_files_are_stopped(results: Any) -> None:
    """A stale copy on one node would train on other data without a word."""
    message = "ranks 0 and 1 read different files under the same names"
    assert [result["error"] for result in results["other files"]] == [message, message]
