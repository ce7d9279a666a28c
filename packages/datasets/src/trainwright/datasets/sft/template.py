"""A chat template and its tokenizer: messages to text, text to ids, and which part of the text is to be learnt."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.datasets.errors import DataError
from trainwright.datasets.sft.rows import BrokenRow, digest
from trainwright.datasets.tokenizers import Tokenizer

if TYPE_CHECKING:
    import numpy as np

Span = tuple[int, int]
Messages = Sequence[dict[str, Any]]
Tools = list[dict[str, Any]] | None

GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")
_GUARD = "\ufdd0"
"""Put inside a special token that somebody wrote out, so that it is none until its text is tokenized. Unicode says that
this code point is no character and never will be."""

_NO_CLOCK = (
    "{%- macro strftime_now(format) -%}"
    "{{ format | replace('%Y', '2025') | replace('%y', '25') | replace('%m', '01') | replace('%d', '01')"
    " | replace('%b', 'Jan') | replace('%B', 'January') | replace('%A', 'Wednesday') | replace('%a', 'Wed') }}"
    "{%- endmacro %}"
)
"""A template that writes today's date would make other ids of a row tomorrow: here it is always 1 January 2025."""


@dataclass(frozen=True)
class Rendered:
    """A conversation as text, special tokens that a message holds still guarded."""

    text: str
    generated: tuple[Span, ...] | None
    """What stands between generation marks, as [begin, end) in `text`; None where the template has no marks."""


class ChatTemplate:
    """What `dataset.preprocessing.chat_template` or else the tokenizer brings."""

    def __init__(self, tokenizer: Tokenizer, file: str | None, variables: dict[str, Any]) -> None:
        """Raises DataError: no template, or one that Jinja cannot read."""
        from trainwright.datasets.tokenizers.huggingface import HuggingFaceTokenizer

        if not isinstance(tokenizer, HuggingFaceTokenizer):
            raise DataError(
                f"dataset.preprocessing.style=chat needs the special tokens of a chat template, which "
                f"{tokenizer.unique_identifiers['class']} does not have; use tokenizer_type=HuggingFaceTokenizer"
            )
        self._tokenizer = tokenizer.wrapped
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise DataError("dataset.preprocessing.style=chat needs a tokenizer.json: this tokenizer gives no offsets")
        self._sources = _sources(self._tokenizer, file)
        self._variables = {**self._tokenizer.special_tokens_map, **variables}
        self._special, self._plain = _without_trimming(backend), _without_trimming(backend)
        self._special.encode_special_tokens, self._plain.encode_special_tokens = False, True
        special = {
            token.content: number for number, token in self._tokenizer.added_tokens_decoder.items() if token.special
        }
        self._ids = special
        longest_first = sorted(special, key=len, reverse=True)
        self.special = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        """Any special token, as the template writes it."""
        self.end_of_sequence: str | None = self._tokenizer.eos_token
        self.identity: dict[str, object] = {
            "chat": 1,
            "templates": digest(*(f"{name} {text}" for name, text in sorted(self._sources.items()))),
            "variables": self._variables,
            "special": special,
        }

    def guarded(self, value: Any) -> Any:
        """The same messages or tools, with every special token written out in them made text.

        Raises:
            BrokenRow: a text holds the guard itself.
        """
        if isinstance(value, str):
            if _GUARD in value:
                raise BrokenRow("a text holds U+FDD0, which is no character")
            return self.special.sub(lambda found: found[0][0] + _GUARD + found[0][1:], value)
        if isinstance(value, dict):
            return {key: self.guarded(held) for key, held in value.items()}
        if isinstance(value, list):
            return [self.guarded(held) for held in value]
        return value

    def render(self, messages: Messages, tools: Tools, *, prompt: bool = False) -> Rendered:
        """The text of guarded messages; `prompt` adds what comes before a turn of the assistant.

        Raises:
            BrokenRow: the template does not take these messages.
        """
        from transformers.utils.chat_template_utils import render_jinja_template

        source = self._sources.get("tool_use" if tools else "default", self._sources["default"])
        marked = GENERATION.search(source) is not None
        try:
            texts, spans = render_jinja_template(
                conversations=[list(messages)],
                tools=tools,
                chat_template=source,
                return_assistant_tokens_mask=marked,
                add_generation_prompt=prompt,
                **self._variables,
            )
        except Exception as error:  # a template fails in any way that a program can
            raise BrokenRow(f"the chat template does not take it: {_first_line(error)}") from None
        return Rendered(texts[0], tuple((begin, end) for begin, end in spans[0]) if marked else None)

    def encode(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of a rendered text and the [begin, end) of each in it. Raises BrokenRow for what is no text."""
        if _GUARD not in text:
            encoding = self._encoded(self._special, text)
            return encoding.ids, encoding.offsets
        # Cut at the special tokens that are real, and all between them is text.
        ids: list[int] = []
        spans: list[Span] = []
        begin = 0
        for found in self.special.finditer(text):
            self._append_text(text, begin, found.start(), ids, spans)
            ids.append(self._ids[found[0]])
            spans.append(found.span())
            begin = found.end()
        self._append_text(text, begin, len(text), ids, spans)
        return ids, spans

    def _append_text(self, text: str, begin: int, end: int, ids: list[int], spans: list[Span]) -> None:
        places = [place for place in range(begin, end) if text[place] != _GUARD]
        encoding = self._encoded(self._plain, "".join(text[place] for place in places))
        ids += encoding.ids
        spans += [
            (places[first], places[last - 1] + 1 if last > first else places[first]) for first, last in encoding.offsets
        ]

    @staticmethod
    def _encoded(backend: Any, text: str) -> Any:
        try:
            return backend.encode(text, add_special_tokens=False)
        except (UnicodeEncodeError, TypeError):
            raise BrokenRow("a message holds half of a character (a lone surrogate)") from None


def overlapping(spans: Sequence[Span], offsets: Sequence[Span]) -> np.ndarray:
    """Whether each token holds something of a span: bool, shape [tokens]. Both ascend."""
    import numpy as np

    begins, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
    found = np.zeros(len(begins), dtype=bool)
    for begin, end in spans:
        found |= (ends > begin) & (begins < end)
    return found


def _sources(tokenizer: Any, file: str | None) -> dict[str, str]:
    """`default`, and perhaps `tool_use` for rows with tools."""
    if file is not None:
        try:
            found = {"default": Path(file).expanduser().read_text(encoding="utf-8")}
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"dataset.preprocessing.chat_template: {file}: {reason}") from None
    else:
        own = tokenizer.chat_template
        if not own:
            raise DataError(
                "the tokenizer has no chat template; dataset.preprocessing.chat_template names a file with one"
            )
        found = dict(own) if isinstance(own, dict) else {"default": own}
        if "default" not in found:
            raise DataError(f"the tokenizer's chat templates are {', '.join(sorted(found))}; none is named default")
    for name, text in found.items():
        _check_syntax(text, file or f"the tokenizer's chat template {name!r}")
    return {name: _NO_CLOCK + text if "strftime_now" in text else text for name, text in found.items()}


def _check_syntax(text: str, name: str) -> None:
    from jinja2.exceptions import TemplateSyntaxError
    from transformers.utils.chat_template_utils import render_jinja_template

    try:
        render_jinja_template(conversations=[[{"role": "user", "content": "?"}]], chat_template=text)
    except TemplateSyntaxError as error:
        raise DataError(f"{name}:{error.lineno}: no Jinja template: {error.message}") from None
    except Exception:  # it may well want other messages
        return


def _without_trimming(backend: Any) -> Any:
    """A copy whose offsets hold the space before a word: what is put around a sequence is also what trims them."""
    copied = copy.deepcopy(backend)
    copied.post_processor = None
    copied.no_truncation()
    copied.no_padding()
    return copied


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
