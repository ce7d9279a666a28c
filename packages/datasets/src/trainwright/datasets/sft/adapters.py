"""From the columns of each public dataset to one of two shapes: a prompt and its completion, or messages and tools.

What else a row holds that somebody may want to see (all known answers, CoderForge's environment) stays in it as
metadata, which no model reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from trainwright.datasets.sft.rows import BrokenRow, Row

Adapter = Callable[[Row], Row]


def column(row: Row, name: str, kind: type | tuple[type, ...] = str) -> Any:
    """The value of a column that has to be there.

    Raises:
        BrokenRow: it is absent, null, or of another type.
    """
    value = row.get(name)
    if isinstance(value, kind):
        return value
    if value is not None:
        raise BrokenRow(f"column {name!r} holds {_described(value)}, not {_WANTED[kind]}")
    if name in row:
        filled = ", ".join(str(other) for other, held in row.items() if held is not None) or "none"
        raise BrokenRow(f"column {name!r} is null; columns with a value: {filled}")
    from trainwright.recipes.nearest import did_you_mean

    there = ", ".join(map(str, row)) or "none at all"
    raise BrokenRow(f"no column {name!r}; it has {there}{did_you_mean(name, row)}")


_WANTED = {str: "text", list: "a list", dict: "an object", (list, str): "a list"}
_TYPES = {list: "a list", dict: "an object", str: "text", bool: "a truth value", int: "a number", float: "a number"}


def _described(value: object) -> str:
    return _TYPES.get(type(value), type(value).__name__)


def squad(row: Row) -> Row:
    """`context`, `question`, `answers.text`; the first known answer is learnt."""
    answers = column(row, "answers", dict)
    try:
        known = column(answers, "text", list)
    except BrokenRow as error:
        raise BrokenRow(f"column 'answers': {error}") from None
    if not known or not all(isinstance(answer, str) for answer in known):
        raise BrokenRow("column 'answers': 'text' is not a list of at least one answer")
    return {
        "input": f"Context: {column(row, 'context')} Question: {column(row, 'question')} Answer:",
        "output": known[0],
        "original_answers": known,
    }


def openmathinstruct2(row: Row) -> Row:
    """`problem`, `generated_solution`, `expected_answer`."""
    return {
        "input": f"Problem: {column(row, 'problem')} Solution:",
        "output": column(row, "generated_solution"),
        "original_answers": [column(row, "expected_answer")],
    }


def openmathinstruct2_thinking(row: Row) -> Row:
    """The same columns; the way to the answer is thought, the answer alone is said."""
    answer = {"role": "assistant", "content": f"#### {column(row, 'expected_answer')}"}
    thinking = without_answer(column(row, "generated_solution"))
    if thinking:
        answer["thinking"] = thinking
    return {"messages": [{"role": "user", "content": column(row, "problem")}, answer]}


def without_answer(solution: str) -> str:
    r"""The solution up to its last `\boxed`; boxes before it are opened, their content stays."""
    last = solution.rfind(_BOX)
    return _opened(solution[:last] if last >= 0 else solution).strip()


_BOX = "\\boxed{"


def _opened(text: str) -> str:
    parts = []
    begin = 0
    while (found := text.find(_BOX, begin)) >= 0:
        inner = found + len(_BOX)
        end = _closing_brace(text, inner)
        if end < 0:
            break
        parts += [text[begin:found], _opened(text[inner:end])]
        begin = end + 1
    return "".join((*parts, text[begin:]))


def _closing_brace(text: str, begin: int) -> int:
    depth = 1
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return -1


def gsm8k(row: Row) -> Row:
    """`question`, `answer`; the number after `####` is the known answer."""
    answer = column(row, "answer")
    return {
        "input": f"Question: {column(row, 'question')} Answer:",
        "output": answer,
        "original_answers": [answer.rpartition("####")[2].strip()],
    }


def coderforge(row: Row) -> Row:
    """`messages` and `tools` as JSON in text; `image` names the environment of the trajectory and is kept."""
    return {
        "messages": json_list(row, "messages"),
        "tools": json_list(row, "tools") if row.get("tools") else None,
        **{name: row[name] for name in ("trajectory_id", "image", "finish_reason", "reward") if name in row},
    }


def json_list(row: Row, name: str) -> list[Any]:
    """A list, or a list written as JSON text."""
    value = column(row, name, (list, str))
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise BrokenRow(f"column {name!r} is no JSON: {error}") from None
        if not isinstance(value, list):
            raise BrokenRow(f"column {name!r} holds JSON of {_described(value)}, not of a list")
    return value


def as_it_is(row: Row) -> Row:
    """Rows that have the wanted shape already."""
    return row


ADAPTERS: dict[str, Adapter] = {
    "local-jsonl": as_it_is,
    "squad": squad,
    "tulu3": as_it_is,
    "coderforge": coderforge,
    "openmathinstruct2": openmathinstruct2,
    "openmathinstruct2-thinking": openmathinstruct2_thinking,
    "gsm8k": gsm8k,
}
"""`dataset.kind` -> its adapter."""
