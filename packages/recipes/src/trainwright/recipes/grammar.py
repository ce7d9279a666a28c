"""`KEY=VALUE`: Hydra's override grammar, with its known gaps closed.

Structure, numbers, quoting and escapes are Hydra's own parser's. Added here: text that Hydra's lexer does not know
(`=`, `#`, `~`, `!`, letters outside ASCII) is text and not an error, quoted dictionary keys work as in JSON, and
`None` means `null`. What Hydra would read as a sweep or an interpolation is reported as such, never expanded.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from trainwright.recipes.errors import ConfigError

Operation = Literal["set", "add", "delete"]

_KEY = re.compile(r"(?P<prefix>\+\+|\+|~|)(?P<path>[A-Za-z_][\w.]*)$", re.ASCII)
_QUOTES = "\"'"
# What Hydra's lexer takes between structural characters; anything else is shielded from it.
_LEXABLE = re.compile(r"[\w/\-+.$%*@?|:\s]*$", re.ASCII)


@dataclass(frozen=True)
class Value:
    """The right side of a word: as typed, and as Hydra reads it."""

    text: str
    """As typed, without surrounding blanks."""
    parsed: Any
    """None, bool, int, float, str, list or dict."""
    quoted: bool = False
    """The whole value stands in quotes, so it is text whatever it looks like."""
    sweep: bool = False
    """Hydra would run once for each of several values (`a,b`, `range(1,3)`, `choice(...)`)."""


@dataclass(frozen=True)
class Override:
    """One trailing word."""

    word: str
    operation: Operation
    path: str
    value: Value | None
    """None only for a deletion."""


def parse_word(word: str) -> Override:
    """Read one `KEY=VALUE`, `+KEY=VALUE`, `++KEY=VALUE` or `~KEY`. Raises ConfigError for anything else."""
    key, equals, text = word.partition("=")
    match = _KEY.fullmatch(key.strip())
    if match is None or (not equals and match["prefix"] != "~"):
        raise ConfigError(f"{word!r} is neither a known flag nor KEY=VALUE (such as train.train_iters=10)")
    if match["prefix"] == "~":
        return Override(word, "delete", match["path"], parse_value(text, word) if equals else None)
    return Override(word, "add" if match["prefix"] == "+" else "set", match["path"], parse_value(text, word))


def parse_value(text: str, word: str) -> Value:
    """Read the right side of an override. `word` is what a message shows. Raises ConfigError."""
    text = text.strip()
    if text == "None":
        return Value(text, None)
    if text.startswith(("[", "{")):
        return Value(text, _container(text, word))
    quoted = text[:1] != "" and text[0] in _QUOTES
    try:
        parsed, sweep = _hydra(text)
    except _NotHydra as error:
        if quoted:
            raise ConfigError(f"{word!r}: the quotes of the value do not close") from error
        return Value(text, text, sweep="," in text)
    if not quoted and isinstance(parsed, str):
        _refuse_interpolation(parsed, word)
    return Value(text, None if sweep else parsed, quoted, sweep)


class _NotHydra(Exception):
    """Hydra's parser does not take the text."""


@cache
def _parser() -> OverridesParser:
    return OverridesParser.create()


def _hydra(text: str) -> tuple[Any, bool]:
    """The value of `text` as Hydra reads it, and whether it would be a sweep."""
    try:
        override = _parser().parse_override(f"key={text}")
        sweep = override.is_sweep_override()
        return (None if sweep else override.value()), sweep
    # Besides its own errors, Python's at numbers of thousands of digits and at lists hundreds deep get through.
    except (HydraException, ValueError, OverflowError, RecursionError) as error:
        raise _NotHydra from error


def _container(text: str, word: str) -> Any:
    """A list or dictionary."""
    try:
        parsed, sweep = _hydra(text)
    except _NotHydra:
        shielded, hidden = _shield(text)
        try:
            parsed, sweep = _hydra(shielded)
        except _NotHydra as error:
            raise ConfigError(
                f"{word!r}: the value does not parse; a list is [a,b], a dictionary {{key:value}}, "
                f"text that starts with a bracket stands in quotes"
            ) from error
        parsed = _unshield(parsed, hidden)
    if sweep:
        raise ConfigError(f"{word!r}: several values were given where one is needed; a list is typed as [[a],[b]]")
    return _nulls(parsed, word)


def _nulls(value: Any, word: str) -> Any:
    """The same value with each bare `None` read as null."""
    if isinstance(value, list):
        return [_nulls(item, word) for item in value]
    if isinstance(value, dict):
        return {str(key): _nulls(item, word) for key, item in value.items()}
    if isinstance(value, str):
        _refuse_interpolation(value, word)
        return None if value == "None" else value
    return value


def _refuse_interpolation(text: str, word: str) -> None:
    if text == "???":
        raise ConfigError(f"{word!r}: '???' is Hydra's mark for a missing value; give the value")
    if "${" in text:
        raise ConfigError(
            f"{word!r}: ${{...}} is not expanded here; let the shell expand it, or quote it to keep the text"
        )


def _shield(text: str) -> tuple[str, dict[str, str]]:
    """Replace what Hydra's lexer would not take (dictionary keys in quotes, unusual characters) by plain names.

    Returns the new text and what each name stands for.
    """
    hidden: dict[str, str] = {}
    stem = "shielded"
    while stem in text:
        stem += "_"

    def hide(token: str) -> str:
        name = f"{stem}{len(hidden)}"
        hidden[name] = token
        return name

    out: list[str] = []
    for kind, token in _tokens(text):
        bare = token.strip()
        if kind == "key" and bare[:1] in ("'", '"'):
            out.append(hide(bare[1:-1]))
        elif kind != "mark" and bare[:1] not in ("'", '"') and not _LEXABLE.match(token):
            out.append(hide(re.sub(r"\\(.)", r"\1", bare)))
        else:
            out.append(token)
    return "".join(out), hidden


def _tokens(text: str) -> list[tuple[Literal["mark", "key", "value"], str]]:
    """Cut a list or dictionary into structural marks and the tokens between them."""
    tokens: list[tuple[Literal["mark", "key", "value"], str]] = []
    open_marks: list[str] = []
    token, expect_key, position = "", False, 0
    while position < len(text):
        step, mark = _next_piece(text, position, expect_key)
        position += len(step)
        if not mark:
            token += step
            continue
        if token:
            tokens.append(("key" if expect_key else "value", token))
            token = ""
        tokens.append(("mark", step))
        if step in "[{":
            open_marks.append(step)
        elif step in "]}" and open_marks:
            open_marks.pop()
        expect_key = step in "{," and bool(open_marks) and open_marks[-1] == "{"
    return [*tokens, ("value", token)] if token else tokens


def _next_piece(text: str, position: int, expect_key: bool) -> tuple[str, bool]:
    """The next character, escape or quoted string at `position`, and whether it is a structural mark.

    A colon is structural after a key only: `{key:value:with:colons}`.
    """
    character = text[position]
    if character == "\\":
        return text[position : position + 2], False
    if character in _QUOTES:
        quoted = re.match(rf"{character}(?:\\.|[^{character}\\])*{character}", text[position:])
        return (quoted[0] if quoted else character), False
    return character, character in "[]{}," or (character == ":" and expect_key)


def _unshield(value: Any, hidden: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_unshield(item, hidden) for item in value]
    if isinstance(value, dict):
        return {hidden.get(key, key): _unshield(item, hidden) for key, item in value.items()}
    return hidden.get(value, value) if isinstance(value, str) else value
