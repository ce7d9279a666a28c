"""Conversations: messages of a row in one form, and which tokens of the rendered text the assistant wrote.

Where the template has generation marks, they say it. Where not, it is found by rendering the conversation up to each
turn of the assistant and comparing: what was rendered must stand at the beginning of the whole, or the row is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainwright.datasets.errors import DataError
from trainwright.datasets.sft.adapters import column, json_list
from trainwright.datasets.sft.preprocess import Style
from trainwright.datasets.sft.rows import BrokenRow, Row
from trainwright.datasets.sft.template import ChatTemplate, Span, Tools, overlapping
from trainwright.datasets.tokenizers import Tokenizer

if TYPE_CHECKING:
    import numpy as np

    from trainwright.recipes.config.data import DatasetConfig

ROLES = ("system", "developer", "user", "assistant", "tool", "function", "ipython", "environment")
_SHARE_GPT = {"human": "user", "gpt": "assistant", "observation": "tool"}
"""Roles of `{"from": ..., "value": ...}` that have another name in `{"role": ..., "content": ...}`."""
_THINKING = ("thinking", "reasoning_content", "reasoning")


@dataclass(frozen=True)
class Conversation:
    """Messages with `role` and, unless they only call tools, `content` as text; no value is null."""

    messages: list[dict[str, Any]]
    tools: Tools


def chat(dataset: DatasetConfig, tokenizer: Tokenizer) -> Style[Conversation]:
    """Messages through a chat template, learning what the assistant wrote or everything.

    Raises:
        DataError: there is no template, or the words contradict each other.
    """
    import numpy as np

    words = dataset.preprocessing
    if words.loss == "completion":
        raise DataError(
            "dataset.preprocessing.loss=completion needs style=prompt-completion; chat has assistant or all"
        )
    template = ChatTemplate(tokenizer, words.chat_template, dataset.dataset_kwargs.get("chat_template_kwargs", {}))

    def read(row: Row) -> Conversation:
        messages = column(row, words.messages_column, list)
        tools = json_list(row, words.tools_column) if row.get(words.tools_column) else None
        return conversation(messages, tools)

    def encode(read: Conversation) -> tuple[Sequence[int], np.ndarray]:
        messages, tools = template.guarded(read.messages), template.guarded(read.tools)
        whole = template.render(messages, tools)
        _check_complete(messages, tools, whole.text)
        ids, offsets = template.encode(whole.text)
        if words.loss == "all":
            return ids, np.ones(len(ids), dtype=bool)
        spans = whole.generated
        if spans is None:
            spans = spans_by_prefix(template, messages, tools, whole.text)
        return ids, overlapping(spans, offsets)

    return Style(read, encode, template.identity)


def conversation(messages: list[Any], tools: list[Any] | None) -> Conversation:
    """Messages in one form. Raises BrokenRow, which names the turn."""
    if not messages:
        raise BrokenRow("the list of messages is empty")
    for number, tool in enumerate(tools or (), start=1):
        if not isinstance(tool, dict):
            raise BrokenRow(f"tool {number} is no object")
    read = []
    for turn, message in enumerate(messages, start=1):
        try:
            read.append(_message(message))
        except BrokenRow as error:
            raise BrokenRow(f"turn {turn} {error}") from None
    return Conversation(read, tools)


def _message(message: Any) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise BrokenRow("is no object with role and content")
    message = {key: value for key, value in message.items() if value is not None}
    if "from" in message and "role" in message:
        raise BrokenRow("has both 'from' and 'role'")
    if "from" in message:
        named = message.pop("from")
        message = {"role": _SHARE_GPT.get(named, named), "content": message.pop("value", None), **message}
    role = message.get("role")
    if role not in ROLES:
        raise BrokenRow(f"has role {role!r}; roles are {', '.join(ROLES)}" if role else "has no role")
    content = _text(message.get("content"))
    if content is None and not any(message.get(key) for key in ("tool_calls", *_THINKING)):
        raise BrokenRow("has no content")
    thinking = next((message[key] for key in _THINKING if message.get(key)), None)
    message = {key: value for key, value in message.items() if key not in (*_THINKING, "content")}
    if content is not None:
        message["content"] = content
    if thinking is not None:
        message |= {"thinking": thinking, "reasoning_content": thinking}  # each template reads one of the two
    if message.get("tool_calls"):
        message["tool_calls"] = [_tool_call(call) for call in message["tool_calls"]]
    return message


def _text(content: Any) -> str | None:
    """Text as it is, or parts of text joined: a template that does not know parts would print the list."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BrokenRow("has content that is no text")
    parts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text" or not isinstance(part.get("text"), str):
            raise BrokenRow(f"has a part of type {kind!r}; only text is read")
        parts.append(part["text"])
    return "".join(parts)


def _tool_call(call: Any) -> Any:
    """Arguments written as JSON text become an object, which templates expect; text that is no object stays text."""
    if not isinstance(call, dict):
        raise BrokenRow("has a tool call that is no object")
    call = {key: value for key, value in call.items() if value is not None}
    function = call.get("function", call)
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return call
    if not isinstance(arguments, dict):
        return call
    function = function | {"arguments": arguments}
    return call | {"function": function} if "function" in call else function


def _check_complete(messages: list[dict[str, Any]], tools: Tools, text: str) -> None:
    """Refuse a template that leaves out what it does not know: tools, calls of them, thinking.

    Of thinking the last turn's must be there; some templates drop that of earlier turns, on purpose.
    """
    for tool in tools or ():
        _check_named(tool, text, "a tool")
    for turn, message in enumerate(messages, start=1):
        for call in message.get("tool_calls", ()):
            _check_named(call, text, f"a tool call of turn {turn}")
    thought = [(turn, message["thinking"]) for turn, message in enumerate(messages, start=1) if "thinking" in message]
    if thought and str(thought[-1][1]).strip() not in text:
        raise BrokenRow(f"the chat template leaves out the thinking of turn {thought[-1][0]}")


def _check_named(described: dict[str, Any], text: str, what: str) -> None:
    function = described.get("function", described)
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise BrokenRow(f"{what} has no name")
    if name not in text:
        raise BrokenRow(f"the chat template leaves out {what}: {name}")


def spans_by_prefix(
    template: ChatTemplate, messages: list[dict[str, Any]], tools: Tools, whole: str
) -> tuple[Span, ...]:
    """Where in the whole text each turn of the assistant begins and ends.

    Raises:
        BrokenRow: the template renders a turn differently when others follow it; the turn is named.
    """
    turns = [turn for turn, message in enumerate(messages) if message["role"] == "assistant"]
    begins = []
    for turn in turns:
        begins.append(_begin(template, messages, tools, turn, whole))
    limits = [*begins[1:], len(whole)]
    return tuple(
        (begin, _end(template, messages, tools, turn, whole, begin, limit))
        for turn, begin, limit in zip(turns, begins, limits, strict=False)
    )


_MARKS = "dataset.preprocessing.chat_template may name a template with {% generation %} marks"


def _begin(template: ChatTemplate, messages: list[dict[str, Any]], tools: Tools, turn: int, whole: str) -> int:
    """After what a model is given before it writes the turn.

    Some templates give more to write on ("<think>") than stands in a written turn: then the turn with its header.
    """
    reason = "what comes before is rendered otherwise alone"
    for prompt in (True, False):
        try:
            before = template.render(messages[:turn], tools, prompt=prompt).text
        except BrokenRow as error:
            reason = str(error)
            continue
        if whole.startswith(before):
            return len(before)
    raise BrokenRow(f"the beginning of turn {turn + 1} cannot be told: {reason}; {_MARKS}")


def _end(
    template: ChatTemplate,
    messages: list[dict[str, Any]],
    tools: Tools,
    turn: int,
    whole: str,
    begin: int,
    limit: int,
) -> int:
    """After the token that ends the turn. White space after that is the template's."""
    if template.end_of_sequence:
        # Where writing stops, the turn has ended: no need to render once more.
        found = whole.find(template.end_of_sequence, begin, limit)
        if found >= 0:
            return found + len(template.end_of_sequence)
    through = template.render(messages[: turn + 1], tools).text
    last = through.rstrip()
    token = next((found for found in template.special.finditer(last) if found.end() == len(last)), None)
    body = last[: token.start()] if token else through
    if whole.startswith(body):
        if token is None:
            return len(body)
        if whole.startswith(token[0], len(body)):
            return len(last)
        # gpt-oss ends the last turn and the others with different tokens; Phi adds one to the last turn's own.
        ended = body.rstrip()
        if any(found.end() == len(ended) for found in template.special.finditer(ended)):
            return len(ended)
        if other := template.special.match(whole, len(body)):
            return other.end()
    raise BrokenRow(
        f"the end of turn {turn + 1} cannot be told: the template renders it differently when others follow; {_MARKS}"
    )
