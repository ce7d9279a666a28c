"""Lines of JSONL by number: which bytes are rows, what a broken one is called, and an index that is never stale."""

import gzip
import json
import multiprocessing
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from trainwright.datasets import DataError
from trainwright.datasets.index_cache import IndexCache
from trainwright.datasets.sft import jsonl
from trainwright.datasets.sft.jsonl import JsonlRows, ListRows, json_rows
from trainwright.datasets.sft.rows import BrokenRow, ChosenRows, JoinedRows


@pytest.fixture(scope="session")
def open_bytes(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., JsonlRows]:
    """Rows of a file with these bytes."""

    def open_(data: bytes, name: str = "rows.jsonl") -> JsonlRows:
        folder = tmp_path_factory.mktemp("jsonl")
        (folder / name).write_bytes(data)
        return JsonlRows(folder / name, IndexCache(folder / "cache"))

    return open_


BOM = b"\xef\xbb\xbf"
FILES: dict[str, tuple[bytes, list[Any], list[int]]] = {
    # bytes -> values of "a", lines
    "lines": (b'{"a":1}\n{"a":2}\n', [1, 2], [1, 2]),
    "no last line feed": (b'{"a":1}\n{"a":2}', [1, 2], [1, 2]),
    "CRLF": (b'{"a":1}\r\n{"a":2}\r\n', [1, 2], [1, 2]),
    "a byte order mark": (BOM + b'{"a":1}\n{"a":2}\n', [1, 2], [1, 2]),
    "blank lines": (b'\n \t\r\n{"a":1}\n\n\r\n{"a":2}\n\n  ', [1, 2], [3, 6]),
    "signs that end lines elsewhere": (
        '{"a":"x\u2028y\u2029z\u0085"}\n{"a":"\\u2028\\u000c"}\n'.encode(),
        ["x\u2028y\u2029z\u0085", "\u2028\x0c"],
        [1, 2],
    ),
    "an empty file": (b"", [], []),
    "only a byte order mark": (BOM, [], []),
    "only blank lines": (b"\n\n \n", [], []),
    "one line": (b'{"a":0}', [0], [1]),
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_a_row(open_bytes: Callable[..., JsonlRows], name: str) -> None:
    data, values, lines = FILES[name]
    rows = open_bytes(data)
    assert [rows[number]["a"] for number in range(len(rows))] == values
    assert [rows.where(number).rpartition(" line ")[2] for number in range(len(rows))] == [str(line) for line in lines]


BROKEN: dict[str, tuple[bytes, str]] = {
    "cut off": (b'{"a":1', "no JSON object: Expecting ',' delimiter at column 7"),
    "two objects": (b'{"a":1}{"b":2}', "no JSON object: Extra data at column 8"),
    "lines that end with CR alone": (b'{"a":1}\r{"b":2}', "no JSON object: Extra data at column 9"),
    "a list": (b"[1]", "a JSON list and no object"),
    "a number": (b"1", "a JSON number and no object"),
    "NUL bytes": (b"\0\0\0", "no JSON object: Expecting value at column 1"),
    "not UTF-8": (b'{"a":"\xff"}', "not UTF-8: byte 7 is 0xff"),
    "a form feed in a string": (b'{"a":"\x0c"}', "no JSON object: Invalid control character at"),
    "nested too deeply": (b'{"a":' + b"[" * 200_000, "nested too deeply"),
    "a number of 5000 digits": (b'{"a":' + b"1" * 5000 + b"}", "no JSON object that can be read: Exceeds the limit"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_line_says_what_is_wrong_and_costs_no_other(open_bytes: Callable[..., JsonlRows], name: str) -> None:
    line, says = BROKEN[name]
    rows = open_bytes(b'{"a":1}\n\n' + line + b'\n{"a":2}\n')
    assert (len(rows), rows[0], rows[2]) == (3, {"a": 1}, {"a": 2})
    assert rows.where(1).endswith("rows.jsonl line 3")
    with pytest.raises(BrokenRow) as error:
        rows[1]
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@given(
    pieces=st.lists(
        st.sampled_from([b"{}", b'{"a": "' + b"x" * 40 + b'"}', b" ", b"\t", b"\r\n", b"\n", b"\n\n", b"[]"]),
        max_size=40,
    ),
    block=st.sampled_from([3, 4, 7, 64]),
    bom=st.booleans(),
)
def test_lines_are_found_whatever_block_they_cross(
    open_bytes: Callable[..., JsonlRows], pieces: list[bytes], block: int, bom: bool
) -> None:
    """As Python's own split at line feeds finds them."""
    data = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "_BLOCK_BYTES", block)
        rows = open_bytes(BOM + data if bom else data)
    expected = [(n, line.strip()) for n, line in enumerate(data.split(b"\n"), start=1) if line.strip(b" \t\r")]
    assert [(rows.where(number).rpartition(" ")[2], rows._line(number).strip()) for number in range(len(rows))] == [
        (str(n), line) for n, line in expected
    ]


def test_utf_16_is_named(open_bytes: Callable[..., JsonlRows]) -> None:
    with pytest.raises(DataError, match=r"rows\.jsonl: UTF-16 text; convert it to UTF-8"):
        open_bytes('{"a":1}\n'.encode("utf-16"))


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gz", "zst"])
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst"])
def test_compression_is_known_by_content_and_not_by_name(
    open_bytes: Callable[..., JsonlRows], compress: Callable[[bytes], bytes], name: str
) -> None:
    data = b'{"a":1}\n\n{"a":2}'
    rows = open_bytes(compress(data), name)
    assert [rows[0]["a"], rows[1]["a"]] == [1, 2]
    assert rows.where(1).endswith(f"{name} line 3")
    assert rows.fingerprint == open_bytes(data).fingerprint


def test_a_compressed_file_that_is_cut_off_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(os.urandom(1000))[:-20])
    with pytest.raises(DataError, match="is cut off: the gzip stream does not end"):
        JsonlRows(tmp_path / "rows.jsonl.gz", IndexCache(tmp_path / "cache"))
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_one_huge_line_between_small_ones(open_bytes: Callable[..., JsonlRows]) -> None:
    """Longer than several blocks."""
    text = "x" * 20_000_000
    rows = open_bytes(b'{"a":1}\n' + json.dumps({"a": text}).encode() + b'\n{"a":2}\n')
    assert (rows[0], rows[2], len(rows[1]["a"])) == ({"a": 1}, {"a": 2}, len(text))


def test_a_change_is_seen_whatever_its_time_stamp_says(tmp_path: Path) -> None:
    """Same size, same modification time: other rows and another fingerprint, not the cached ones."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a":1}\n\n{"a":2}')
    stamp = path.stat()
    first = JsonlRows(path, IndexCache(tmp_path / "cache"))
    path.write_bytes(b'{"a":"five"}\n{} ')
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    second = JsonlRows(path, IndexCache(tmp_path / "cache"))
    assert path.stat().st_mtime_ns == stamp.st_mtime_ns
    assert path.stat().st_size == stamp.st_size
    assert [second[0], second[1]] == [{"a": "five"}, {}]
    assert first.fingerprint != second.fingerprint


def test_the_same_content_elsewhere_has_the_same_fingerprint(open_bytes: Callable[..., JsonlRows]) -> None:
    assert open_bytes(b"{}\n").fingerprint == open_bytes(b"{}\n", "other.jsonl").fingerprint


def test_the_index_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b"{}\n")
    JsonlRows(tmp_path / "rows.jsonl", IndexCache(tmp_path / "cache"))
    monkeypatch.setattr(jsonl, "_scan", lambda *_: pytest.fail("scanned again"))
    assert len(JsonlRows(tmp_path / "rows.jsonl", IndexCache(tmp_path / "cache"))) == 1


def test_a_file_that_is_cut_short_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"{}\n" * 100)
    rows = JsonlRows(path, IndexCache(tmp_path / "cache"))
    os.truncate(path, 9)
    assert rows[2] == {}
    with pytest.raises(DataError, match="has become shorter while it was read"):
        rows[50]


def _open_and_count(folder: Path, results: Any) -> None:
    rows = JsonlRows(folder / "rows.jsonl.gz", IndexCache(folder / "cache"))
    results.put((len(rows), rows[4999]["a"], rows.fingerprint))


def test_many_processes_may_open_a_file_for_the_first_time_at_once(tmp_path: Path) -> None:
    """Of which one is killed."""
    data = "".join(f'{{"a":{n}}}\n' for n in range(5000)).encode()
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(data))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=_open_and_count, args=(tmp_path, results)) for _ in range(4)]
    for process in processes:
        process.start()
    processes[0].kill()
    for process in processes[1:]:
        process.join(60)
        assert process.exitcode == 0
    processes[0].join(60)
    found = [results.get(timeout=10) for _ in range(3)]
    assert len(set(found)) == 1
    assert found[0][:2] == (5000, 4999)


def _index_under_a_limit(path: Path, cache: Path, results: Any) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 100_000_000, used + 100_000_000))
    rows = JsonlRows(path, IndexCache(cache))
    results.put((len(rows), rows[0], rows[2]))


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """1 GB, most of it a hole that takes no place on disk, with 100 MB of address space to spare."""
    import numpy  # noqa: F401  before the limit

    path = tmp_path / "rows.jsonl"
    with path.open("wb") as stream:
        stream.write(b'{"a":1}\n')
        stream.seek(1_000_000_000)
        stream.write(b'\n{"a":2}\n')
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=_index_under_a_limit, args=(path, tmp_path / "cache", results))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert results.get(timeout=10) == (3, {"a": 1}, {"a": 2})


def test_a_json_file_may_also_be_one_list(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(BOM + b' \n[{"a":1}, 7]')
    rows = json_rows(path, IndexCache(tmp_path / "cache"))
    assert isinstance(rows, ListRows)
    assert (len(rows), rows[0]) == (2, {"a": 1})
    with pytest.raises(BrokenRow, match="a JSON number and no object"):
        rows[1]
    assert rows.where(1).endswith("rows.json item 2")
    path.write_bytes(b'{"a":1}\n{"a":2}\n')
    assert len(json_rows(path, IndexCache(tmp_path / "cache"))) == 2


def test_joined_and_chosen_rows_keep_their_places(open_bytes: Callable[..., JsonlRows]) -> None:
    import numpy as np

    first, empty, last = open_bytes(b'{"a":0}\n{"a":1}\n'), open_bytes(b""), open_bytes(b'{"a":2}\n', "last.jsonl")
    rows = ChosenRows(JoinedRows([first, empty, last]), np.array([2, 0]))
    assert [rows[0]["a"], rows[1]["a"]] == [2, 0]
    assert rows.where(0).endswith("last.jsonl line 1")
    assert rows.fingerprint != ChosenRows(JoinedRows([first, empty, last]), np.array([0, 2])).fingerprint
