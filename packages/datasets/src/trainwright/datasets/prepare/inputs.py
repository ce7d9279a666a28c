"""Which files are read, in which order and as what."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from trainwright.datasets.errors import DataError

Format = Literal["text", "jsonl"]
Compression = Literal["gz", "zst"]

_COMPRESSIONS: dict[str, Compression] = {".gz": "gz", ".zst": "zst"}
_JSONL = (".jsonl", ".ndjson")
_UNREADABLE = {
    **dict.fromkeys(
        (".bz2", ".xz", ".lz4", ".br", ".zip", ".7z", ".tar", ".tgz"), "of compressed files, .gz and .zst are read"
    ),
    **dict.fromkeys((".parquet", ".arrow"), "export it as JSONL"),
    **dict.fromkeys((".bin", ".idx"), "it looks prepared already"),
    ".json": "say what it holds: --format jsonl (one object on each line) or --format text",
}
"""Suffix -> why a file is not simply taken for text."""


@dataclass(frozen=True)
class InputFile:
    """One file and how to read it."""

    path: Path
    format: Format
    compression: Compression | None
    size: int
    """Bytes on disk."""


def find_inputs(
    paths: Sequence[Path], *, globs: Sequence[str], excludes: Sequence[str], file_format: Format | None
) -> list[InputFile]:
    """The files that `paths` name; a folder stands for the files under it, in the order of their paths.

    Under a folder, names that begin with a dot are left out, and so is everything whose own name or that of a folder
    above it matches one of `excludes`; with `globs`, only file names that match one are kept.

    Raises:
        DataError: a path that does not exist or cannot be read as text, or a folder with nothing to read.
    """
    if globs and not any(path.is_dir() for path in paths):
        raise DataError(f"--glob {globs[0]!r} has no effect: no input is a folder")
    found: list[InputFile] = []
    for path in paths:
        if path.is_dir():
            under = [_input_file(file, file_format) for file in _walk(path, globs, excludes)]
            if not under:
                raise DataError(
                    f"{path}: no file under it" + (f" matches {' or '.join(map(repr, globs))}" if globs else "")
                )
            found += under
        elif path.exists():
            found.append(_input_file(path, file_format))
        else:
            raise DataError(f"{path} does not exist")
    return found


def _walk(folder: Path, globs: Sequence[str], excludes: Sequence[str]) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise DataError(f"{error.filename}: {error.strerror}") from error

    def kept(name: str) -> bool:
        return not name.startswith(".") and not any(fnmatchcase(name, pattern) for pattern in excludes)

    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if kept(name)]
        wanted = [
            name for name in names if kept(name) and (not globs or any(fnmatchcase(name, glob) for glob in globs))
        ]
        files += [path for path in (Path(parent, name) for name in wanted) if path.is_file()]
    return iter(sorted(files, key=lambda path: path.parts))


def _input_file(path: Path, file_format: Format | None) -> InputFile:
    suffix, inner = path.suffix.lower(), path
    compression = _COMPRESSIONS.get(suffix)
    if compression is not None:
        inner = path.with_suffix("")
        suffix = inner.suffix.lower()
    if file_format is None and suffix in _UNREADABLE:
        raise DataError(f"{path}: {suffix} files are not read as text; {_UNREADABLE[suffix]}")
    guessed: Format = "jsonl" if suffix in _JSONL else "text"
    return InputFile(path, file_format or guessed, compression, path.stat().st_size)
