"""Hiding secrets in what a run shows or leaves behind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

REDACTED = "<redacted>"

_SECRET_WORD = (
    r"(?:TOKEN(?!IZ)|KEY|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH(?!OR)|COOKIE|JWT|(?<![A-Z])PAT(?![A-Z])|(?<=[_-])PWD)"
)
"""Anywhere in a name: to hide too much costs a look elsewhere. `TOKENIZERS_PARALLELISM`, `GIT_AUTHOR_NAME` stay."""

_PART = r"[\w.\-]{0,64}"
_SECRET_NAME = re.compile(_SECRET_WORD, re.IGNORECASE)
_SECRET_OPTION = re.compile(rf"--?{_PART}{_SECRET_WORD}{_PART}", re.IGNORECASE)
_WORD = r"""(?:"[^"]*"|'[^']*'|[^\s,;&"']+)"""

# Values of 100 kB occur, and a search is tried anew from each of their letters: no pattern begins with a repetition,
# and what may stand around a secret word has a bound.
_IN_VALUES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", REDACTED),
        # Credentials of a URL, or of a host without a scheme as proxies are written.
        (r"://[^\s/?#]*@", f"://{REDACTED}@"),
        (r"""(?<![^\s=,;'"])[^\s/@:=,;'"<>]+:[^\s/@]{1,256}@(?=[\w\[])""", f"{REDACTED}@"),
        # Tokens whose makers gave them a shape.
        (r"\b(?:hf|api_org)_[A-Za-z0-9]{16,}", REDACTED),
        (r"\b(?:gh[opsur]|github_pat|glpat|nvapi|sk|xox[abprs])[_\-][A-Za-z0-9_\-]{16,}", REDACTED),
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", REDACTED),
        (r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]*", REDACTED),
        (r"(?i)\b(Bearer|Basic)\s+[A-Za-z0-9+/=._\-]{8,}", rf"\1 {REDACTED}"),
        # NAME=secret, "name": "secret" and --name secret, in a command line or a list of settings.
        (rf"""(?i)({_SECRET_WORD}{_PART}["']?\s{{0,8}}[=:]\s{{0,8}}){_WORD}""", rf"\1{REDACTED}"),
        (rf"""(?i)(?<![^\s"'])({_SECRET_OPTION.pattern}\s+)(?!-){_WORD}""", rf"\1{REDACTED}"),
    )
)


def redact(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings without their secrets, nested mappings and lists included.

    A value becomes `<redacted>` when its name speaks of a secret (`HF_TOKEN`, `api-key`, `credentials`). In every other
    text, URL credentials, tokens of a well-known form and what is assigned to such a name are replaced by it.
    """
    return {name: _redacted(str(name), value) for name, value in settings.items()}


def redact_text(text: str) -> str:
    """The text without the secrets that can be told by their form."""
    for pattern, replacement in _IN_VALUES:
        text = pattern.sub(replacement, text)
    return text


def _redacted(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool) or value == "":
        return value
    if _SECRET_NAME.search(name):
        return REDACTED
    if isinstance(value, Mapping):
        return redact(value)
    if isinstance(value, list | tuple):
        return _redacted_list(value)
    return redact_text(value) if isinstance(value, str) else value


def _redacted_list(items: Iterable[Any]) -> list[Any]:
    """A list may be the words of a command: what follows `--hf-token` is a secret."""
    kept: list[Any] = []
    follows_option = False
    for item in items:
        is_word = isinstance(item, str)
        kept.append(REDACTED if follows_option and is_word and not item.startswith("-") else _redacted("", item))
        follows_option = is_word and _SECRET_OPTION.fullmatch(item) is not None
    return kept
