"""Words for a bash script that arrive as they were, whatever bytes they hold."""

import os
import shlex
from collections.abc import Iterable

from trainwright.launch.errors import LaunchError

MAX_WORD_BYTES = 131_000
"""Linux takes no argument of more than 131,072 bytes (MAX_ARG_STRLEN), its closing zero byte included."""
MAX_LINE_BYTES = 2_000_000
"""All words of a command together: Linux allows 2 MiB with an 8 MiB stack, shared with the environment."""

_PLAIN = {"\\": "\\\\", "'": "\\'"}


def bash_quote(word: str) -> str:
    """One word for bash: as it is where that is safe, else in quotes.

    A word with anything beyond printable ASCII becomes `$'...'` with a `\\xHH` for each byte (of `os.fsencode`), so
    that a script made of such words is pure ASCII and nothing that reads or writes text can alter it.

    Raises `LaunchError` for a word that Linux cannot pass on.
    """
    encoded = os.fsencode(word)
    if len(encoded) > MAX_WORD_BYTES:
        raise LaunchError(
            f"the word {word[:40]!r}... has {len(encoded)} bytes; a program can be given at most {MAX_WORD_BYTES}"
        )
    if b"\0" in encoded:
        raise LaunchError(f"{word[:40]!r} holds a zero byte, which no program can be given")
    if word.isascii() and word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(_escaped(byte) for byte in encoded) + "'"


def check_lengths(words: Iterable[str]) -> None:
    """Raise `LaunchError` where a word, or all of them together, are more than Linux can pass on."""
    total = 0
    for word in words:
        bash_quote(word)
        total += len(os.fsencode(word)) + 1
    if total > MAX_LINE_BYTES:
        raise LaunchError(f"the words have {total} bytes together; a program can be given at most {MAX_LINE_BYTES}")


def _escaped(byte: int) -> str:
    character = chr(byte)
    if 0x20 <= byte < 0x7F:
        return _PLAIN.get(character, character)
    return f"\\x{byte:02x}"
