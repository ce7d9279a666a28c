"""Which tokens of a rendered conversation are learnt, with generation marks and by comparing prefixes."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.datasets.sft_cases import MARKED, PLAIN, SPECIAL, chat_tokenizer, chat_words, process, texts

from trainwright.datasets import DataError, Tokenizer
from trainwright.datasets.sft.preprocess import Preprocessor
from trainwright.datasets.sft.rows import BrokenRow, UnsupervisedRow


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Its own template has no generation marks."""
    return chat_tokenizer(tmp_path_factory.mktemp("chat"), PLAIN)


@pytest.fixture(scope="module")
def template_file(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Writes a template; gives the file."""

    def write(text: str) -> str:
        path = tmp_path_factory.mktemp("template") / "chat.jinja"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def turns(*contents: str) -> dict[str, Any]:
    """User and assistant in turns."""
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[n % 2], "content": content} for n, content in enumerate(contents)]}


def learnt(tokenizer: Tokenizer, row: dict[str, Any], **preprocessing: Any) -> list[str]:
    return texts(tokenizer, process(chat_words(**preprocessing), tokenizer, row))[1]


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (turns("yes", "yes", "yes", "yes"), ["yes", "yes"]),
        (turns("a", "", "b", "c"), ["", "c"]),
        (turns("a", "\n  b\t\n"), ["\n  b\t\n"]),
        (turns("a", " é🙂\u2028"), [" é🙂\u2028"]),
        (turns("a", "x <|im_start|>assistant\nyes"), ["x <|im_start|>assistant\nyes"]),
        ({"messages": [{"role": "assistant", "content": "first"}, *turns("a", "b")["messages"]]}, ["first", "b"]),
    ],
    ids=[
        "the same text everywhere",
        "an empty turn",
        "white space",
        "several bytes",
        "marks as text",
        "assistant first",
    ],
)
def test_exactly_the_assistants_turns_and_their_ends_are_learnt(
    tokenizer: Tokenizer, template_file: Any, marked: bool, row: dict[str, Any], expected: list[str]
) -> None:
    """Spans are found by place in the text and never by searching for it."""
    template = template_file(MARKED) if marked else None
    assert learnt(tokenizer, row, chat_template=template) == [f"{text}<|im_end|>" for text in expected]


@settings(max_examples=50)
@given(contents=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=2, max_size=6))
def test_marks_and_prefixes_agree(tokenizer: Tokenizer, template_file: Any, contents: list[str]) -> None:
    """Whatever is said: the same ids and the same targets."""
    row = turns(*contents)
    by_prefix = process(chat_words(), tokenizer, row)
    by_marks = process(chat_words(chat_template=_kept(template_file)), tokenizer, row)
    assert by_prefix.ids.tolist() == by_marks.ids.tolist()
    assert by_prefix.learn.tolist() == by_marks.learn.tolist()


def _kept(template_file: Any, files: dict[str, str] = {}) -> str:  # noqa: B006  one file for all examples
    if "marked" not in files:
        files["marked"] = template_file(MARKED)
    return files["marked"]


@pytest.mark.parametrize("text", SPECIAL)
def test_special_tokens_are_real_in_the_template_and_text_in_a_message(tokenizer: Tokenizer, text: str) -> None:
    """Written out by a user or an assistant they become the ids that the text has elsewhere."""
    sequence = process(chat_words(), tokenizer, turns(f"a{text}b", f"c{text}"))
    special = {tokenizer.wrapped.convert_tokens_to_ids(token) for token in SPECIAL}  # type: ignore[attr-defined]
    assert sum(token in special for token in sequence.ids.tolist()) == 4  # begin and end of two turns
    ids = tokenizer.tokenize(f"a{text}b")
    assert ids == sequence.ids.tolist()[len(tokenizer.tokenize("user\n")) + 1 :][: len(ids)]


def test_everything_is_learnt_where_that_is_asked_for(tokenizer: Tokenizer) -> None:
    whole, stretches = texts(tokenizer, process(chat_words(loss="all"), tokenizer, turns("a", "b")))
    assert stretches == [whole.removeprefix("<|im_start|>")]


SHAPES: dict[str, dict[str, Any]] = {
    "ShareGPT": {"messages": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
    "nulls of other columns": {
        "messages": [
            {"role": "user", "content": "a", "tool_calls": None, "name": None},
            {"role": "assistant", "content": "b", "tool_calls": None, "name": None},
        ],
        "tools": None,
    },
    "parts of text": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "b"}]},
        ]
    },
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_shapes_in_use_mean_the_same(tokenizer: Tokenizer, name: str) -> None:
    expected = process(chat_words(), tokenizer, turns("a", "b"))
    assert process(chat_words(), tokenizer, SHAPES[name]).ids.tolist() == expected.ids.tolist()


ALTERNATING = (
    "{% for message in messages %}{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}" + "{% endfor %}" + PLAIN
)
DROPS_EARLIER = PLAIN.replace(
    "{{ message.content or '' }}", "{{ message.content if loop.last or message.role != 'assistant' else '...' }}"
).replace("<|im_end|>\n{% endfor", "\n{% endfor")
BROKEN: dict[str, tuple[str | None, Any, str]] = {
    "no messages": (None, [], "the list of messages is empty"),
    "a message that is text": (None, ["a"], "turn 1 is no object with role and content"),
    "no role": (None, [{"content": "a"}], "turn 1 has no role"),
    "an unknown role": (None, [{"role": "bot", "content": "a"}], "turn 1 has role 'bot'; roles are system, "),
    "no content": (None, [{"role": "user"}], "turn 1 has no content"),
    "two shapes at once": (None, [{"role": "user", "from": "gpt", "value": "a"}], "turn 1 has both 'from' and 'role'"),
    "a picture": (
        None,
        [{"role": "user", "content": [{"type": "image"}]}],
        "a part of type 'image'; only text",
    ),
    "two users": (ALTERNATING, [{"role": "user", "content": "a"}] * 2, "does not take it: roles must alternate"),
    "half a character": (None, turns("a", "\ud800")["messages"], "half of a character"),
    "a turn that later turns change": (
        DROPS_EARLIER,
        turns("a", "b", "c", "d")["messages"],
        "the end of turn 2",
    ),
    "thinking left out": (
        PLAIN.replace("message.thinking", "message.no"),
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "because"}],
        "the chat template leaves out the thinking of turn 2",
    ),
    "a call left out": (
        PLAIN.replace("message.tool_calls", "message.no"),
        [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"function": {"name": "look_up"}}]}],
        "the chat template leaves out a tool call of turn 2: look_up",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_conversation_that_cannot_be_used_says_why(tokenizer: Tokenizer, template_file: Any, name: str) -> None:
    template, messages, says = BROKEN[name]
    words = chat_words(chat_template=template_file(template) if template else None)
    with pytest.raises(BrokenRow) as error:
        process(words, tokenizer, {"messages": messages})
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_conversation_without_the_assistant_teaches_nothing(tokenizer: Tokenizer) -> None:
    with pytest.raises(UnsupervisedRow, match="nothing to learn: none of its 6 tokens is a target"):
        process(chat_words(), tokenizer, {"messages": [{"role": "user", "content": "a"}]})


def test_tools_and_variables_reach_the_template(tokenizer: Tokenizer, template_file: Any) -> None:
    """`tools` of the row, also as JSON text, and `dataset_kwargs.chat_template_kwargs`."""
    template = template_file("{{ colour }}{{ tools | tojson }}" + PLAIN)
    for tools in ([{"name": "look_up"}], '[{"name": "look_up"}]'):
        words = chat_words(chat_template=template).model_copy(
            update={"dataset_kwargs": {"chat_template_kwargs": {"colour": "green"}}}
        )
        whole, _ = texts(tokenizer, process(words, tokenizer, turns("a", "b") | {"tools": tools}))
        assert whole.startswith('green[{"name": "look_up"}]<|im_start|>tools')


def test_a_template_that_writes_the_date_gives_the_same_ids_every_day(tokenizer: Tokenizer, template_file: Any) -> None:
    template = template_file("{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d') }}" + PLAIN)
    whole, _ = texts(tokenizer, process(chat_words(chat_template=template), tokenizer, turns("a", "b")))
    assert whole.startswith("01 Jan 2025 2025-01-01<|im_start|>")


def test_a_template_that_is_none_is_refused_by_file_and_line(tokenizer: Tokenizer, template_file: Any) -> None:
    path = template_file("{{ messages }}\n{% for x %}")
    with pytest.raises(DataError, match=r"chat\.jinja:2: no Jinja template: ") as error:
        Preprocessor(chat_words(chat_template=path), tokenizer)
    assert "\n" not in str(error.value)


def test_another_template_is_another_fingerprint(tokenizer: Tokenizer, template_file: Any) -> None:
    """Also where the file keeps its name."""
    path = template_file(PLAIN)
    before = Preprocessor(chat_words(chat_template=path), tokenizer).identity
    Path(path).write_text(PLAIN + " ")
    assert Preprocessor(chat_words(chat_template=path), tokenizer).identity != before


def test_white_space_at_the_edge_of_a_mark_belongs_to_it(tokenizer: Tokenizer, template_file: Any) -> None:
    """Though this tokenizer's own offsets leave spaces out."""
    template = template_file(
        "{% for message in messages %}{% generation %}{{ message.content }}{% endgeneration %}<|im_end|>{% endfor %}"
    )
    assert learnt(tokenizer, turns("x", " y  "), chat_template=template) == [" y  "]
