"""`KEY=VALUE`: Hydra's grammar where Hydra has one, text where it has none."""

import string
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import example, given
from hypothesis import strategies as st

from trainwright.recipes import ConfigError
from trainwright.recipes.grammar import parse_value, parse_word


def parsed(text: str) -> Any:
    return parse_value(text, f"a.b={text}").parsed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("-1.5e-3", -1.5e-3),
        ("True", True),
        ("FALSE", False),
        ("null", None),
        ("None", None),
        ("'None'", "None"),
        ("", ""),
        ("text", "text"),
        ("two  words", "two  words"),
        ('"a,b"', "a,b"),
        ("[1,2]", [1, 2]),
        ("[]", []),
        ("{}", {}),
        ("[None,null,x]", [None, None, "x"]),
        ("{a:1,b:{c:[x,y]}}", {"a": 1, "b": {"c": ["x", "y"]}}),
        ("{'x':1}", {"x": 1}),
        ('{"x": 1, "y z": "v"}', {"x": 1, "y z": "v"}),
        ('{"a:b,c}": [1]}', {"a:b,c}": [1]}),
        ("int(3.2)", 3),
        ("a\\,b", "a,b"),
    ],
)
def test_values_have_the_type_that_they_show(text: str, value: Any) -> None:
    assert parsed(text) == value
    assert type(parsed(text)) is type(value)


@pytest.mark.parametrize(
    "text", ["/c/epoch=9-step=1.ckpt", "#x", "李", "~/x", "hello!", "50%", "a@b", "a:b", "a&b;c", "p(1", "a'b", "é=ü#~"]
)
def test_text_that_the_lexer_does_not_know_is_text(text: str) -> None:
    """Alone, in a list, and in a dictionary."""
    assert parsed(text) == text
    if not set(text) & set("(:'"):
        assert parsed(f"[{text},1]") == [text, 1]
        assert parsed(f"{{k:{text}}}") == {"k": text}


@pytest.mark.parametrize("text", ["a,b", "1,2", "range(1,3)", "choice(a,b)", "glob(*)", "interval(0,1)", "李,王"])
def test_what_would_be_a_sweep_is_marked(text: str) -> None:
    assert parse_value(text, "k=v").sweep


@pytest.mark.parametrize("text", ["???", "${HOME}/x", "[${a}]", "{k:${a}}"])
def test_what_hydra_would_expand_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"Hydra|not expanded"):
        parse_value(text, f"a.b={text}")


@pytest.mark.parametrize("text", ['"${HOME}"', "'???'"])
def test_in_quotes_it_is_text(text: str) -> None:
    assert parsed(text) == text[1:-1]


@pytest.mark.parametrize("text", ["[1,2", "{a:1", "[a]]", "{a}", "[a]b", "'a", '"a', "[1,2],[3]"])
def test_a_value_that_does_not_close_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_value(text, f"a.b={text}")
    assert f"a.b={text}" in str(caught.value).replace("\\'", "'")


@pytest.mark.parametrize("word", ["foo", "-x=1", "--lr=1", "=1", "a b=1", "+=1", "a/b=1", "a@b=1", "é=1", "~", "1a=2"])
def test_a_word_that_is_no_assignment_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="neither a known flag nor KEY=VALUE"):
        parse_word(word)


@pytest.mark.parametrize(
    ("word", "operation"),
    [("a.b=1", "set"), ("+a.b=1", "add"), ("++a.b=1", "set"), ("~a.b", "delete"), (" a.b = 1 ", "set")],
)
def test_prefixes_say_what_is_done(word: str, operation: str) -> None:
    override = parse_word(word)
    assert (override.operation, override.path) == (operation, "a.b")


@given(st.text(alphabet=string.ascii_letters + string.digits + " .,:-_/[]{}'\"\\()=+", max_size=20))
@example("[a,b]")
@example("{a:[1,{b:c}]}")
@example(": ")
def test_what_hydra_reads_is_read_the_same(text: str) -> None:
    """Property: wherever Hydra's own parser yields a value, so do we, but for the word None.

    Blanks around a value are none of it; Hydra keeps some of them behind some marks.
    """
    try:
        override = OverridesParser.create().parse_override(f"k={text.strip()}")
        sweep = override.is_sweep_override()
        expected = None if sweep else override.value()
    except HydraException:
        return
    if "None" in text or "${" in text or "???" in text:
        return
    try:
        value = parse_value(text, f"k={text}")
    except ConfigError:
        # A list of sweeps is the one thing that Hydra takes and we do not.
        assert sweep and text.strip()[0] in "[{"
        return
    assert value.sweep == sweep
    assert repr(value.parsed) == repr(expected)


@given(st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), max_size=30))
def test_quoting_carries_any_text(text: str) -> None:
    """Property: text in double quotes, with quotes and backslashes before them escaped as Hydra wants it, arrives."""
    if text.endswith("\\") or '\\"' in text:
        return
    escaped = text.replace('"', '\\"')
    assert parsed(f'"{escaped}"') == text


@given(st.text(min_size=1, max_size=30), st.text(max_size=30))
def test_no_word_breaks_the_parser(key: str, text: str) -> None:
    """Property: any word is read, or refused in one line."""
    try:
        parse_word(f"{key}={text}")
    except ConfigError as error:
        assert "\n" not in str(error)
