"""Token ids as text for a person, what is learnt marked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from trainwright.datasets import Tokenizer

BRACKETS = "⟦", "⟧"
LEARNT, MARK, NOTE = "green", "magenta", "dim"
"""Styles: what is learnt, a token that is no text, what is no part of the data."""

# A terminal would obey them: shown as the pictures that Unicode has of them, or as their numbers.
_CONTROLS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
_CONTROLS |= {0x7F: "␡"} | {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}


@dataclass(frozen=True)
class Span:
    """Some text."""

    text: str
    learnt: bool
    mark: bool = False
    """Stands for a token that is no text, such as the end of a document."""


def spans(ids: np.ndarray, learn: np.ndarray, tokenizer: Tokenizer) -> Iterator[Span]:
    """The text of ids, cut where learning begins or ends and at tokens that `detokenize` leaves out."""
    marks = _marks(tokenizer)

    def what(item: tuple[int, bool]) -> tuple[bool, str | None]:
        return item[1], marks.get(item[0])

    for (learnt, mark), group in groupby(zip(ids.tolist(), learn.tolist(), strict=True), what):
        members = [number for number, _ in group]
        if mark is not None:
            yield Span(mark * len(members), learnt, mark=True)
        else:
            text = tokenizer.detokenize(members).encode("utf-8", "replace").decode("utf-8")
            yield Span(text.translate(_CONTROLS), learnt)


def _marks(tokenizer: Tokenizer) -> dict[int, str]:
    """What stands for the ids that `detokenize` leaves out: the vocabulary's own words where it has any."""
    from trainwright.datasets.tokenizers.huggingface import HuggingFaceTokenizer

    names = {tokenizer.pad: "<pad>", tokenizer.eod: "<eod>"}
    if isinstance(tokenizer, HuggingFaceTokenizer):
        names |= {number: str(tokenizer.wrapped.convert_ids_to_tokens(number)) for number in names if number >= 0}
    return names


class Painter:
    """Prints to stdout: in colour on a terminal that wants it, else with brackets."""

    def __init__(self) -> None:
        self._console = None
        if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            from rich.console import Console

            self._console = Console(highlight=False, markup=False, emoji=False)

    def note(self, line: str) -> None:
        """A line about the data."""
        if self._console is None:
            print(line)
        else:
            self._console.print(line, style=NOTE, soft_wrap=True)

    def paint(self, parts: Iterable[Span]) -> None:
        """The text of one sequence."""
        if self._console is None:
            print("".join(_bracketed(parts)))
            return
        from rich.text import Text

        text = Text()
        for part in parts:
            style = f"{LEARNT if part.learnt else ''} {MARK if part.mark and not part.learnt else ''}"
            text.append(part.text, style=style.strip())
        self._console.print(text, soft_wrap=True)


def _bracketed(parts: Iterable[Span]) -> Iterator[str]:
    for learnt, group in groupby(parts, lambda part: part.learnt):
        text = "".join(part.text for part in group)
        yield f"{BRACKETS[0]}{text}{BRACKETS[1]}" if learnt else text
