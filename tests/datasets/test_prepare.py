"""Text in, `.bin`/`.idx` out: every byte, in order, whatever the number of workers; or nothing and one line."""

import gzip
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import assume, given
from hypothesis import strategies as st

from trainwright.datasets import DataError, build_tokenizer
from trainwright.datasets.indexed import open_pair
from trainwright.datasets.inspection import documents
from trainwright.datasets.prepare import Summary, prepare
from trainwright.datasets.prepare import reading as reading_module
from trainwright.datasets.prepare.inputs import find_inputs
from trainwright.datasets.prepare.reading import read_chunks
from trainwright.recipes.config.data import TokenizerConfig

BYTES = TokenizerConfig(tokenizer_type="ByteLevelTokenizer")


def texts(prefix: Path, tokenizer: TokenizerConfig = BYTES) -> list[str]:
    """All documents as text."""
    pair = open_pair(str(prefix))
    built = build_tokenizer(tokenizer)
    return [built.detokenize(ids.tolist()) for ids in documents(pair, pair.documents)]


def jsonl(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@given(st.lists(st.text(), min_size=1, max_size=6).filter(any))
def test_jsonl_comes_back_exactly(tmp_path_factory: Any, rows: list[str]) -> None:
    """Any characters: line separators, NUL, half of the astral planes; empty documents are left out."""
    folder = tmp_path_factory.mktemp("jsonl")
    (folder / "a.jsonl").write_bytes(jsonl([{"text": row} for row in rows]))
    summary = prepare([folder / "a.jsonl"], folder / "out", BYTES)
    assert texts(folder / "out") == [row for row in rows if row]
    assert summary.empty_documents == rows.count("")


@given(st.binary(min_size=1, max_size=200))
def test_a_text_file_comes_back_byte_for_byte(tmp_path_factory: Any, data: bytes) -> None:
    """CRLF, blank lines, a missing last newline, bytes that are not UTF-8; only a byte order mark is dropped."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "a.txt").write_bytes(data)
    expected = data.removeprefix(b"\xef\xbb\xbf")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or not expected:
        with pytest.raises(DataError):
            prepare([folder / "a.txt"], folder / "out", BYTES)
        return
    prepare([folder / "a.txt"], folder / "out", BYTES)
    assert [text.encode("utf-8", "surrogateescape") for text in texts(folder / "out")] == [expected]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\ntwo", ["one", "two"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"\xef\xbb\xbfone\n\n \t\r\n  two  \n\n", ["one", "  two  "]),
        ("a\u2028b\nc\u0085d\x0be\x0cf\rg\n".encode(), ["a\u2028b", "c\u0085d\x0be\x0cf\rg"]),
        (b"\n\n\nend", ["end"]),
    ],
    ids=repr,
)
def test_lines_end_at_line_feeds_and_nowhere_else(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    prepare([tmp_path / "a.txt"], tmp_path / "out", BYTES, document="line")
    assert texts(tmp_path / "out") == lines
    (tmp_path / "a.jsonl").write_bytes(
        data[: len(data) - len(data.removeprefix(b"\xef\xbb\xbf"))]
        + b"\r\n\r\n".join(json.dumps({"text": line}, ensure_ascii=False).encode() for line in lines)
    )
    prepare([tmp_path / "a.jsonl"], tmp_path / "out2", BYTES)
    assert texts(tmp_path / "out2") == lines


@given(
    st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=30),
    st.integers(1, 20),
    st.integers(1, 40),
)
def test_chunks_hold_every_line_once_and_know_its_number(
    tmp_path_factory: Any, lines: list[bytes], block: int, chunk: int
) -> None:
    """Wherever blocks and chunks end."""
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(b"\n".join(lines))
    assume(not path.read_bytes().startswith((b"\xff\xfe", b"\xfe\xff")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading_module, "BLOCK_BYTES", block)
        patch.setattr(reading_module, "CHUNK_BYTES", chunk)
        files = find_inputs([path], globs=(), excludes=(), file_format=None)
        pieces = [piece for part in read_chunks(files, one_document_per_line=True) for piece in part.pieces]
    assert b"".join(piece.data for piece in pieces) == path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    line = 1
    for piece in pieces:
        assert piece.line == line
        line += piece.data.count(b"\n")
    assert all(piece.data.endswith(b"\n") for piece in pieces[:-1])


def test_compressed_files_give_the_same_files_as_plain_ones(tmp_path: Path) -> None:
    """Also several gzip members and several zstd frames in one file, as parallel compressors write them."""
    halves = [jsonl([{"text": f"document {i}"} for i in part]) for part in (range(50), range(50, 90))]
    (tmp_path / "a.jsonl").write_bytes(b"".join(halves))
    (tmp_path / "a.jsonl.gz").write_bytes(b"".join(gzip.compress(half) for half in halves))
    (tmp_path / "a.jsonl.zst").write_bytes(b"".join(zstandard.compress(half) for half in halves))
    for suffix in ("", ".gz", ".zst"):
        prepare([tmp_path / f"a.jsonl{suffix}"], tmp_path / f"out{suffix}.", BYTES)
    for part in (".bin", ".idx"):
        plain = (tmp_path / f"out.{part}").read_bytes()
        assert (tmp_path / f"out.gz.{part}").read_bytes() == plain == (tmp_path / f"out.zst.{part}").read_bytes()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree with what such trees hold."""
    root = tmp_path / "tree"
    files = {
        "a.py": "a = 1\n",
        "b/__init__.py": "",
        "b/z.py": "z\r\n",
        "b-c/y.py": "y",
        "b/readme.md": "# readme\n",
        "site-packages/x.py": "x",
        ".git/config.py": "hidden",
        ".hidden.py": "hidden",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    (root / "latin.py").write_bytes("# -*- coding: latin-1 -*-\n# é\n".encode("latin-1"))
    (root / "link.py").symlink_to(root / "nowhere.py")
    return root


def test_a_source_tree_is_read_in_the_order_of_its_paths(tree: Path, tmp_path: Path) -> None:
    """Hidden files, excluded folders and broken links are left out; a file in another encoding keeps its bytes."""
    summary = prepare([tree], tmp_path / "out", BYTES, globs=["*.py"], excludes=["site-packages"])
    assert texts(tmp_path / "out") == ["a = 1\n", "z\r\n", "y", "# -*- coding: latin-1 -*-\n# \udce9\n"]
    assert (summary.files, summary.documents, summary.empty_documents) == (5, 4, 1)


def test_the_result_does_not_depend_on_the_number_of_workers(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, huggingface_folder: Path
) -> None:
    """Many chunks, two input kinds, two tokenizers."""
    monkeypatch.setattr(reading_module, "CHUNK_BYTES", 500)
    (tmp_path / "a.jsonl").write_bytes(jsonl([{"text": f"the cat sat {'on the mat ' * (i % 7)}"} for i in range(300)]))
    hugging = TokenizerConfig(tokenizer_type="HuggingFaceTokenizer", tokenizer_model=str(huggingface_folder))
    for name, tokenizer, globs in (("bytes", BYTES, ["*.py"]), ("hf", hugging, ["[az].py", "__init__.py"])):
        for workers in (1, 4):
            prepare(
                [tmp_path / "a.jsonl", tree], tmp_path / f"{name}{workers}", tokenizer, workers=workers, globs=globs
            )
        for suffix in (".bin", ".idx", ".prepare.json"):
            one, four = ((tmp_path / f"{name}{workers}{suffix}").read_bytes() for workers in (1, 4))
            assert one == four


def test_every_tokenizer_round_trips_text(tmp_path: Path, huggingface_folder: Path, tiktoken_file: Path) -> None:
    """A special token that stands in a text is text, not the end of a document."""
    rows = ["the cat <|endoftext|> sat", "naïve 🙂\u2028 x"]
    (tmp_path / "a.jsonl").write_bytes(jsonl([{"text": row} for row in rows]))
    kinds = [
        ("ByteLevelTokenizer", None),
        ("HuggingFaceTokenizer", huggingface_folder),
        ("TikTokenizer", tiktoken_file),
    ]
    for kind, model in kinds:
        tokenizer = TokenizerConfig(tokenizer_type=kind, tokenizer_model=model and str(model))  # type: ignore[arg-type]
        summary = prepare([tmp_path / "a.jsonl"], tmp_path / kind, tokenizer)
        assert texts(tmp_path / kind, tokenizer) == rows
        ids = open_pair(str(tmp_path / kind)).token_ids().tolist()
        assert ids.count(build_tokenizer(tokenizer).eod) == 2
        assert summary.tokens == len(ids)


def test_the_summary_counts_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl([{"text": "four"}, {"text": ""}, {"text": "é"}]))
    with_end = prepare([tmp_path / "a.jsonl"], tmp_path / "out", BYTES)
    assert isinstance(with_end, Summary)
    assert (with_end.documents, with_end.empty_documents, with_end.tokens, with_end.text_bytes) == (2, 1, 8, 6)
    assert with_end.input_bytes == (tmp_path / "a.jsonl").stat().st_size
    assert with_end.tokens_per_second == with_end.tokens / with_end.seconds
    without = prepare([tmp_path / "a.jsonl"], tmp_path / "out2", BYTES, append_eod=False)
    assert without.tokens == 6
    assert open_pair(str(tmp_path / "out2")).token_ids().tolist() == list("fouré".encode())


@pytest.mark.parametrize(
    ("vocab_size", "dtype"), [(256, "uint8"), (257, "uint16"), (65536, "uint16"), (65537, "int32")]
)
def test_ids_take_the_smallest_type_that_holds_the_vocabulary(tmp_path: Path, vocab_size: int, dtype: str) -> None:
    (tmp_path / "a.txt").write_text(f"0 {vocab_size - 2}")
    tokenizer = TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=vocab_size)
    prepare([tmp_path / "a.txt"], tmp_path / "out", tokenizer)
    pair = open_pair(str(tmp_path / "out"))
    assert pair.dtype == dtype
    assert pair.token_ids().tolist() == [0, vocab_size - 2, vocab_size - 1]


GOOD = b'{"text": "fine"}\n'
BAD_INPUTS: dict[str, tuple[str, bytes, dict[str, Any], str]] = {
    "not JSON": ("a.jsonl", GOOD + b"\n{oops\n", {}, ":3: not JSON: "),
    "not an object": ("a.jsonl", GOOD + b"[1]", {}, ":2: a list, not an object"),
    "a bare string": ("a.jsonl", b'"text"', {}, ":1: a string, not an object"),
    "no such key": (
        "a.jsonl",
        b'{"txt": "x", "id": 1}',
        {},
        ":1: no key 'text'; it has 'txt', 'id'; did you mean 'txt'?",
    ),
    "empty object": ("a.jsonl", GOOD * 2 + b"{}", {}, ":3: no key 'text'; it has nothing"),
    "not a string": ("a.jsonl", b'{"text": 5}', {}, ":1: 'text' is a number, not a string"),
    "null": ("a.jsonl", b'{"text": null}', {}, ":1: 'text' is null, not a string"),
    "half a character": ("a.jsonl", b'{"text": "\\ud83d"}', {}, ":1: 'text' holds half a character (\\ud83d)"),
    "not UTF-8": ("a.jsonl", GOOD + b'{"text": "\xe9"}', {}, ":2: not UTF-8 (byte 0xe9 at column 11)"),
    "brackets without end": ("a.jsonl", GOOD + b"[" * 100_000, {}, ":2: not JSON"),
    "a number without end": ("a.jsonl", b'{"text": ' + b"9" * 10_000 + b"}", {}, ":1: not JSON"),
    "UTF-16": ("a.txt", "text".encode("utf-16"), {}, "a.txt: UTF-16 text; convert it to UTF-8"),
    "empty file": ("a.txt", b"", {}, "no document in 1 files (0 bytes, 1 empty documents)"),
    "only blank lines": ("a.jsonl", b"\n\r\n  \n", {}, "no document in 1 files"),
    "damaged gzip": ("a.jsonl.gz", b"not gzip", {}, "a.jsonl.gz is damaged"),
    "cut gzip": ("a.jsonl.gz", gzip.compress(GOOD * 1000)[:-9], {}, "a.jsonl.gz is cut off"),
    "damaged zstd": ("a.jsonl.zst", b"not zstd", {}, "a.jsonl.zst is damaged"),
    "cut zstd": ("a.jsonl.zst", zstandard.compress(os.urandom(5000))[:-9], {}, "a.jsonl.zst is cut off"),
    "parquet": ("a.parquet", b"PAR1", {}, ".parquet files are not read as text; export it as JSONL"),
    "bare .json": ("a.json", GOOD, {}, "say what it holds: --format jsonl"),
    "a pair": ("a.bin", b"x", {}, "it looks prepared already"),
    "glob without a folder": ("a.txt", b"x", {"globs": ["*.py"]}, "--glob '*.py' has no effect"),
    "no workers": ("a.txt", b"x", {"workers": 0}, "--workers 0: at least 1"),
    "ids beyond the vocabulary": (
        "a.txt",
        b"1 2\n77",
        {"tokenizer": TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=9), "document": "line"},
        ":2: NullTokenizer reads ids from 0 to 8, not '77'",
    ),
}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", BAD_INPUTS)
def test_bad_input_is_named_and_leaves_nothing(name: str, workers: int, tmp_path: Path) -> None:
    file, data, words, says = BAD_INPUTS[name]
    (tmp_path / file).write_bytes(data)
    with pytest.raises(DataError) as error:
        prepare(
            [tmp_path / file], tmp_path / "new" / "deep" / "out", **{"tokenizer": BYTES, "workers": workers} | words
        )
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert left(tmp_path) == [file]


def test_text_that_is_not_utf8_is_named_with_its_line_by_tokenizers_that_need_characters(
    tmp_path: Path, tiktoken_file: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\n" * 3 + b"caf\xe9\n")
    tokenizer = TokenizerConfig(tokenizer_type="TikTokenizer", tokenizer_model=str(tiktoken_file))
    for document in ("file", "line"):
        with pytest.raises(DataError, match=r"a\.txt:4: not UTF-8 \(byte 0xe9\)"):
            prepare([tmp_path / "a.txt"], tmp_path / "out", tokenizer, document=document)  # type: ignore[arg-type]


def test_the_first_bad_line_is_named_whatever_the_number_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_module, "CHUNK_BYTES", 100)
    (tmp_path / "a.jsonl").write_bytes(GOOD * 150 + b"{}\n" + GOOD * 50 + b"oops\n")
    for workers in (1, 4):
        with pytest.raises(DataError, match=r"a\.jsonl:151: no key"):
            prepare([tmp_path / "a.jsonl"], tmp_path / "out", BYTES, workers=workers)
    assert left(tmp_path) == ["a.jsonl"]


def test_nothing_is_overwritten_unless_asked(tmp_path: Path) -> None:
    """And a failure leaves the old files as they were."""
    for name in ("old", "new"):
        (tmp_path / f"{name}.txt").write_text(name)
    out = tmp_path / "out"
    prepare([tmp_path / "old.txt"], out, BYTES)
    with pytest.raises(DataError, match=r"out\.idx exists; --overwrite replaces it"):
        prepare([tmp_path / "new.txt"], out, BYTES)
    (tmp_path / "bad.jsonl").write_text("bad")
    with pytest.raises(DataError, match="not JSON"):
        prepare([tmp_path / "new.txt", tmp_path / "bad.jsonl"], out, BYTES, overwrite=True)
    assert texts(out) == ["old"]
    prepare([tmp_path / "new.txt"], out, BYTES, overwrite=True)
    assert texts(out) == ["new"]
    assert [name for name in left(tmp_path) if name.startswith((".", "out"))] == [
        "out.bin",
        "out.idx",
        "out.prepare.json",
    ]


@pytest.mark.parametrize(
    ("output", "says"),
    [(".", "is a folder; add a name"), ("x.bin", "give it without .bin"), ("a.txt/x", "cannot write there")],
)
def test_an_output_that_is_no_prefix_is_refused(tmp_path: Path, output: str, says: str) -> None:
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DataError, match=says):
        prepare([tmp_path / "a.txt"], tmp_path / output, BYTES)
    assert left(tmp_path) == ["a.txt"]


def test_a_path_that_is_not_there_or_a_folder_without_a_match_is_refused(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere does not exist"):
        prepare([tmp_path / "nowhere"], tmp_path / "out", BYTES)
    with pytest.raises(DataError, match=r"no file under it matches '\*\.rs' or '\*\.go'"):
        prepare([tree], tmp_path / "out", BYTES, globs=["*.rs", "*.go"])


def test_memory_stays_flat_on_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 MB in chunks of 64 KB take a small multiple of a chunk."""
    for name in ("BLOCK_BYTES", "CHUNK_BYTES"):
        monkeypatch.setattr(reading_module, name, 2**16)
    (tmp_path / "a.txt").write_bytes(b"\n" * 2**16 + (b"x" * 1000 + b"\n") * 2**14)
    tracemalloc.start()
    summary = prepare([tmp_path / "a.txt"], tmp_path / "out", BYTES, document="line")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert summary.documents == 2**14
    assert peak < 4 * 2**20
