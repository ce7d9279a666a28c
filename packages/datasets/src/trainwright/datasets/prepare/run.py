"""The whole of `trainwright-data prepare`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trainwright.datasets.errors import DataError
from trainwright.datasets.prepare.encoding import Encoder
from trainwright.datasets.prepare.inputs import Format, find_inputs
from trainwright.datasets.prepare.reading import read_chunks
from trainwright.datasets.prepare.writing import SUFFIXES, PairWriter, dtype_for
from trainwright.datasets.progress import progress_bar
from trainwright.datasets.tokenizers import build_tokenizer
from trainwright.datasets.workers import in_order

if TYPE_CHECKING:
    from trainwright.recipes.config.data import TokenizerConfig


@dataclass(frozen=True)
class Summary:
    """What `prepare` did."""

    prefix: Path
    files: int
    documents: int
    empty_documents: int
    """Left out: nothing in them."""
    tokens: int
    """With the end of each document, where appended."""
    dtype: str
    text_bytes: int
    """UTF-8 bytes of the documents."""
    input_bytes: int
    """Bytes of the input files on disk."""
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


def prepare(
    inputs: Sequence[str | Path],
    output_prefix: str | Path,
    tokenizer: TokenizerConfig,
    *,
    workers: int = 1,
    json_key: str = "text",
    globs: Sequence[str] = (),
    excludes: Sequence[str] = (),
    file_format: Format | None = None,
    document: Literal["file", "line"] = "file",
    append_eod: bool = True,
    overwrite: bool = False,
    progress: bool = False,
) -> Summary:
    """Write `output_prefix`.bin and .idx (and .prepare.json, which says what made them), whole or not at all.

    Text files are read as UTF-8: a byte order mark at the start is dropped, all else is kept. Each is one document, or
    with `document="line"` each of its lines that is not blank. A JSONL file (.jsonl, .ndjson) has a document in
    `json_key` of each line. `.gz` and `.zst` files are decompressed. Documents are in the order of the inputs, whatever
    the number of `workers`. `file_format` overrules the file names.

    Raises:
        DataError: an input that cannot be read (with file and line), an output that exists, or no document at all.
    """
    began = time.perf_counter()
    prefix = _free_prefix(Path(output_prefix), overwrite)
    if workers < 1:
        raise DataError(f"--workers {workers}: at least 1")
    files = find_inputs([Path(path) for path in inputs], globs=globs, excludes=excludes, file_format=file_format)
    built = build_tokenizer(tokenizer)
    dtype = dtype_for(built.vocab_size)
    encoder = Encoder(built, dtype=dtype, json_key=json_key, append_eod=append_eod)
    input_bytes = sum(file.size for file in files)
    empty = text_bytes = 0
    with PairWriter(prefix, dtype) as writer:
        chunks = read_chunks(files, one_document_per_line=document == "line")
        results = in_order(encoder.encode, chunks, workers)
        # The first result before the bar, whose thread would not survive the fork of the workers.
        results = chain([first] if (first := next(results, None)) else [], results)
        with progress_bar("reading", input_bytes, of="bytes", shown=progress) as done:
            for chunk, encoded in results:
                writer.add(encoded.tokens, encoded.lengths)
                empty += encoded.empty
                text_bytes += encoded.text_bytes
                done(chunk.consumed)
        if not writer.documents:
            raise DataError(f"no document in {len(files)} files ({input_bytes} bytes, {empty} empty documents)")
        writer.finish(
            {
                "documents": writer.documents,
                "tokens": writer.tokens,
                "tokenizer": built.unique_identifiers,
                "vocab_size": built.vocab_size,
                "eod": built.eod if append_eod else None,
            }
        )
    return Summary(
        prefix=prefix,
        files=len(files),
        documents=writer.documents,
        empty_documents=empty,
        tokens=writer.tokens,
        dtype=dtype,
        text_bytes=text_bytes,
        input_bytes=input_bytes,
        seconds=time.perf_counter() - began,
    )


def _free_prefix(prefix: Path, overwrite: bool) -> Path:
    if prefix.suffix in (".bin", ".idx"):
        raise DataError(f"--output-prefix {prefix}: give it without {prefix.suffix}, which is added")
    if not prefix.name or prefix.is_dir():
        raise DataError(f"--output-prefix {prefix} is a folder; add a name for the corpus, such as {prefix / 'corpus'}")
    existing = [path for path in (Path(f"{prefix}{suffix}") for suffix in SUFFIXES) if path.exists()]
    if existing and not overwrite:
        raise DataError(f"{existing[0]} exists; --overwrite replaces it")
    return prefix
