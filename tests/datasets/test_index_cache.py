"""The index cache: an entry is whole or not there, for any number of processes at once."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from trainwright.datasets import DataError
from trainwright.datasets.index_cache import IndexCache


def test_processes_that_build_the_same_entry_together_all_get_it(tmp_path: Path) -> None:
    """Eight find nothing, build, and publish at the same moment; one entry and no scratch folder is left."""
    together = Barrier(8)

    def build() -> list[np.ndarray]:
        together.wait()
        return [np.arange(10_000), np.ones((50, 2))]

    cache = IndexCache(tmp_path / "cache")
    with ThreadPoolExecutor(8) as pool:
        results = [pool.submit(cache.arrays, {"seed": 1}, ("a", "b"), build) for _ in range(8)]
    for first, second in (result.result() for result in results):
        assert first.tolist() == list(range(10_000))
        assert second.shape == (50, 2)
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_builder_that_was_killed_leaves_nothing_that_is_believed(tmp_path: Path) -> None:
    """`kill -9` between two arrays of an entry."""
    script = (
        "import os, sys, numpy as np\n"
        "from pathlib import Path\n"
        "from trainwright.datasets.index_cache import IndexCache\n"
        "save = np.save\n"
        "def dying(path, array, **words):\n"
        "    save(path, array, **words) if path.name == 'a.npy' else os.kill(os.getpid(), 9)\n"
        "np.save = dying\n"
        "IndexCache(Path(sys.argv[1])).arrays({}, ('a', 'b'), lambda: [np.arange(3)] * 2)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode == -9
    assert [path.name[0] for path in tmp_path.iterdir()] == ["."]
    built = IndexCache(tmp_path).arrays({}, ("a", "b"), lambda: [np.arange(4), np.arange(5)])
    assert [len(array) for array in built] == [4, 5]


def test_an_entry_is_found_by_all_of_its_key_in_any_process(tmp_path: Path) -> None:
    """Whatever Python's hash seed is."""
    script = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from trainwright.datasets.index_cache import IndexCache\n"
        "def build(): print('built'); return [np.arange(3)]\n"
        "IndexCache(Path(sys.argv[1])).arrays({'x': [1, 2], 'seed': int(sys.argv[2])}, ('a',), build)\n"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", script, str(tmp_path), seed],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed, seed in (("1", "5"), ("2", "5"), ("2", "6"))
    ]
    assert said == ["built", "", "built"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be written to .*/file: .*; set dataset\.path_to_cache"):
        IndexCache(tmp_path / "file").arrays({}, ("a",), lambda: [np.arange(3)])
