"""Broken `.bin`/`.idx` pairs: each named, with what it has and what it should have, and never trained on."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trainwright.datasets import DataError, check_data
from trainwright.datasets.indexed import DTYPES, HEADER, open_pair, token_range
from trainwright.datasets.inspection import documents, inspect_pair
from trainwright.datasets.prepare.writing import PairWriter

DOCUMENTS = [[1, 2, 3, 256], [4, 256], [5] * 40 + [256]]
# Where things stand in the .idx of DOCUMENTS: a header, 3 lengths, 3 pointers, 4 document entries.
LENGTHS, POINTERS, INDEX = HEADER.size, HEADER.size + 12, HEADER.size + 36


def write(prefix: Path, rows: list[list[int]], dtype: str = "uint16") -> str:
    with PairWriter(prefix, dtype) as writer:
        for row in rows:
            writer.add(np.array(row, dtype), np.array([len(row)], np.int32))
        writer.finish({})
    Path(f"{prefix}.prepare.json").unlink()
    return str(prefix)


def patch(path: str, at: int, value: bytes) -> None:
    data = bytearray(Path(path).read_bytes())
    data[at : at + len(value)] = value
    Path(path).write_bytes(data)


def cut(path: str, by: int) -> None:
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[:-by] if by > 0 else data + bytes(-by))


Break = Callable[[str, Path], object]
BROKEN: dict[str, tuple[Break, str]] = {
    "no .idx": (lambda p, _: Path(p + ".idx").unlink(), "c.idx does not exist, only {p}.bin"),
    "no .bin": (lambda p, _: Path(p + ".bin").unlink(), "c.bin does not exist, only {p}.idx"),
    "neither": (
        lambda p, _: [Path(p + suffix).unlink() for suffix in (".bin", ".idx")],
        "c.idx and .bin do not exist",
    ),
    ".bin one byte short": (
        lambda p, _: cut(p + ".bin", 1),
        "c.bin is cut off, or belongs to another index: it has 93",
    ),
    ".bin one byte long": (
        lambda p, _: cut(p + ".bin", -1),
        "c.bin is too long, or belongs to another index: it has 95",
    ),
    ".bin empty": (lambda p, _: Path(p + ".bin").write_bytes(b""), "it has 0 bytes, {p}.idx says 94"),
    ".idx one byte short": (lambda p, _: cut(p + ".idx", 1), "has 101 bytes, but its header (3 sequences, 4 document"),
    ".idx one byte long": (lambda p, _: cut(p + ".idx", -1), "has 103 bytes, but its header"),
    ".idx cut in its header": (lambda p, _: Path(p + ".idx").write_bytes(b"MMIDIDX\0\0\1"), "is cut off: 10 bytes"),
    ".idx empty": (lambda p, _: Path(p + ".idx").write_bytes(b""), "is not an index: it begins with b''"),
    "wrong magic": (lambda p, _: patch(p + ".idx", 0, b"GARBAGE"), "is not an index: it begins with b'GARBAGE"),
    "wrong version": (lambda p, _: patch(p + ".idx", 9, b"\2"), "has version 2, not 1"),
    "unknown dtype": (
        lambda p, _: patch(p + ".idx", 17, b"\11"),
        "has dtype code 9 (unknown); token ids are 1 (uint8)",
    ),
    "float dtype": (lambda p, _: patch(p + ".idx", 17, b"\7"), "has dtype code 7 (float32); token ids are 1 (uint8)"),
    "other dtype of other width": (lambda p, _: patch(p + ".idx", 17, b"\4"), "sequence 1 begins at byte 8, but"),
    "other dtype of the same width": (
        lambda p, _: patch(p + ".bin", 2, b"\0\xff") or patch(p + ".idx", 17, b"\3"),
        "-256",
    ),
    "empty sequence": (lambda p, _: patch(p + ".idx", LENGTHS + 4, bytes(4)), "sequence 1 has 0 tokens"),
    "negative length": (lambda p, _: patch(p + ".idx", LENGTHS, b"\xff" * 4), "sequence 0 has -1 tokens"),
    "pointer elsewhere": (lambda p, _: patch(p + ".idx", POINTERS + 8, b"\1"), "sequence 1 begins at byte 1, but"),
    "document index short of the end": (
        lambda p, _: patch(p + ".idx", INDEX + 24, b"\2"),
        "the document index runs from 0 to 2, the sequences from 0 to 3",
    ),
    "document index not from the start": (lambda p, _: patch(p + ".idx", INDEX, b"\1"), "runs from 1 to 3"),
    "document without sequence": (lambda p, _: patch(p + ".idx", INDEX + 16, b"\1"), "document 1 holds no sequence"),
    "no document index": (
        lambda p, _: Path(p + ".idx").write_bytes(
            HEADER.pack(b"MMIDIDX\0\0", 1, 8, 3, 0) + Path(p + ".idx").read_bytes()[LENGTHS:INDEX]
        ),
        "has no document index (0 entries for 3 sequences)",
    ),
    "no sequence": (
        lambda p, _: Path(p + ".idx").write_bytes(HEADER.pack(b"MMIDIDX\0\0", 1, 8, 0, 1) + bytes(8)),
        "holds no sequence",
    ),
    "a count beyond all memory": (
        lambda p, _: patch(p + ".idx", 18, struct.pack("<Q", 2**61)),
        f"its header ({2**61} sequences",
    ),
    "index of another corpus": (
        lambda p, folder: shutil.copy(write(folder / "other", [[1, 2, 256]] * 30) + ".idx", p + ".idx"),
        "it has 94 bytes, {p}.idx says 180 (90 tokens of uint16)",
    ),
    "id beyond the vocabulary": (
        lambda p, _: patch(p + ".bin", 92, struct.pack("<H", 257)),
        "c.bin holds token id 257, the vocabulary is 0 to 256",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_pair_is_refused_by_name(name: str, tmp_path: Path, make_config: object) -> None:
    breaks, says = BROKEN[name]
    prefix = write(tmp_path / "c", DOCUMENTS)
    config = make_config(kind="megatron-indexed", data_path=prefix, split="1")  # type: ignore[operator]
    check_data(config)
    breaks(prefix, tmp_path)
    with pytest.raises(DataError) as error:
        check_data(config)
    assert says.format(p=prefix) in str(error.value)
    assert prefix in str(error.value)
    assert "\n" not in str(error.value)


def test_a_misspelt_prefix_is_answered_with_the_nearest(tmp_path: Path) -> None:
    write(tmp_path / "wiki_text_document", DOCUMENTS)
    with pytest.raises(DataError, match=r"did you mean .*/wiki_text_document\?"):
        open_pair(str(tmp_path / "wiki_txt_document"))
    with pytest.raises(DataError, match="there is no folder"):
        open_pair(str(tmp_path / "nowhere" / "wiki"))
    with pytest.raises(DataError, match=r"is a file; give the prefix '.*/wiki_text_document'"):
        open_pair(str(tmp_path / "wiki_text_document.bin"))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "int64"])
def test_our_files_are_megatron_cores_byte_for_byte(tmp_path: Path, write_pair: Callable[..., str], dtype: str) -> None:
    rows = [[1, 2, 3], [4], [5, 6]]
    ours = write(tmp_path / "ours", rows, dtype)
    theirs = write_pair(tmp_path / "theirs", rows, getattr(np, dtype))
    for suffix in (".bin", ".idx"):
        assert Path(ours + suffix).read_bytes() == Path(theirs + suffix).read_bytes()


def test_dtype_codes_are_megatron_cores() -> None:
    from megatron.core.datasets.indexed_dataset import _INDEX_HEADER, DType

    assert {member.value: member.name for member in DType} == DTYPES
    assert _INDEX_HEADER == b"MMIDIDX\0\0"


def test_documents_of_several_sequences_are_read(tmp_path: Path) -> None:
    """Our writer makes one sequence of each document; other tools make several."""
    prefix = write(tmp_path / "c", [[1], [2, 3], [4, 5, 6]])
    data = Path(prefix + ".idx").read_bytes()
    head = HEADER.pack(b"MMIDIDX\0\0", 1, 8, 3, 3)
    Path(prefix + ".idx").write_bytes(head + data[LENGTHS:INDEX] + np.array([0, 2, 3], np.int64).tobytes())
    pair = open_pair(prefix)
    assert (pair.sequences, pair.documents, pair.tokens) == (3, 2, 6)
    assert [row.tolist() for row in documents(pair, 5)] == [[1, 2, 3], [4, 5, 6]]


def test_a_large_pair_is_sampled_unless_all_of_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First and last ids are always seen; one in a gap only with --full, which is what the message promises."""
    import trainwright.datasets.indexed as indexed

    monkeypatch.setattr(indexed, "CHUNK", 10)
    monkeypatch.setattr(indexed, "SMALL", 160)
    row = [5] * 1000
    row[100] = 999
    pair = open_pair(write(tmp_path / "c", [row]))
    assert token_range(pair, full=False) == (5, 5)
    assert token_range(pair, full=True) == (5, 999)
    for end in (0, -1):
        row = [5] * 1000
        row[end] = 7
        assert token_range(open_pair(write(tmp_path / f"c{end}", [row])), full=False) == (5, 7)


def test_inspection_counts_what_is_there(tmp_path: Path) -> None:
    found = inspect_pair(write(tmp_path / "c", DOCUMENTS), full=False)
    assert (found.pair.documents, found.pair.tokens, found.shortest, found.longest) == (3, 47, 2, 41)
    assert (found.lowest_id, found.highest_id, found.full, found.bytes_on_disk) == (1, 256, True, 94 + 102)
    with pytest.raises(DataError, match="token ids from 1 to 256; the vocabulary is 0 to 255"):
        inspect_pair(str(tmp_path / "c"), full=False, vocab_size=256)
