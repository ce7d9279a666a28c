"""Each public dataset, from a row in its own columns to ids and masks worked out by hand."""

from pathlib import Path
from typing import Any

import pytest
from tests.datasets.sft_cases import BYTES, DATA, MARKED, PLAIN, chat_tokenizer, local, process, read_jsonl, texts

from trainwright.datasets import DataError, Tokenizer
from trainwright.datasets.sft.adapters import ADAPTERS, without_answer
from trainwright.datasets.sft.preprocess import Preprocessor
from trainwright.datasets.sft.rows import BrokenRow
from trainwright.recipes.presets import ROW_KINDS, preset_dataset

PROMPT_COMPLETION = {
    "squad": [
        ("Context: The lamp was lit in 1858 by two keepers. Question: When was the lamp lit? Answer:", " 1858"),
        ("Context: Its café sells tea. Question: What does it sell? Answer:", " tea"),
    ],
    "openmathinstruct2": [
        (
            "Problem: What is 2+3? Solution:",
            " First $\\boxed{2}$ and then 3 more, so the sum is $\\boxed{5}$.",
        ),
        ("Problem: Simplify 2/4. Solution:", " Halve both: \\boxed{\\frac{1}{2}}"),
    ],
    "gsm8k": [
        (
            "Question: Tom has 3 apples and eats 1. How many are left? Answer:",
            " He has 3 - 1 = <<3-1=2>>2 apples left.\n#### 2",
        )
    ],
}


@pytest.mark.parametrize("kind", PROMPT_COMPLETION)
def test_prompt_and_completion_become_bytes_of_which_the_completion_and_its_end_are_learnt(kind: str) -> None:
    rows = read_jsonl(DATA / f"{kind}.jsonl")
    for row, (prompt, completion) in zip(rows, PROMPT_COMPLETION[kind], strict=True):
        sequence = process(preset_dataset(kind, 512), BYTES, row)
        asked, answered = list(prompt.encode()), [*completion.encode(), 256]
        assert sequence.ids.tolist() == asked + answered
        assert sequence.learn.tolist() == [False] * len(asked) + [True] * len(answered)


START = "<|im_start|>"
TOOLS = (
    '[{"type": "function", "function": {"name": "execute_bash", "description": "Run a command.", "parameters": '
    '{"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}]'
)
CALL = '<call>{"name": "execute_bash", "arguments": {"command": "ls -l"}}</call>'
CHAT: dict[str, list[tuple[str, list[str]]]] = {
    "tulu3": [
        (
            f"{START}user\nName a colour.<|im_end|>\n{START}assistant\nRed.<|im_end|>\n"
            f"{START}user\nAnother.<|im_end|>\n{START}assistant\nBlue.<|im_end|>\n",
            ["Red.<|im_end|>", "Blue.<|im_end|>"],
        ),
        (
            f"{START}system\nAnswer in French.<|im_end|>\n{START}user\nYes?<|im_end|>\n"
            f"{START}assistant\nOui.<|im_end|>\n",
            ["Oui.<|im_end|>"],
        ),
    ],
    "openmathinstruct2-thinking": [
        (
            f"{START}user\nWhat is 2+3?<|im_end|>\n{START}assistant\n"
            "<think>First $2$ and then 3 more, so the sum is $</think>#### 5<|im_end|>\n",
            ["<think>First $2$ and then 3 more, so the sum is $</think>#### 5<|im_end|>"],
        ),
        (
            f"{START}user\nSimplify 2/4.<|im_end|>\n{START}assistant\n"
            "<think>Halve both:</think>#### \\frac{1}{2}<|im_end|>\n",
            ["<think>Halve both:</think>#### \\frac{1}{2}<|im_end|>"],
        ),
    ],
    "coderforge": [
        (
            f"{START}tools\n{TOOLS}<|im_end|>\n{START}system\nYou fix bugs.<|im_end|>\n{START}user\nFix it.<|im_end|>\n"
            f"{START}assistant\nI look.{CALL}<|im_end|>\n{START}tool\na.py<|im_end|>\n"
            f"{START}assistant\nDone.<|im_end|>\n",
            [f"I look.{CALL}<|im_end|>", "Done.<|im_end|>"],
        )
    ],
}


@pytest.fixture(scope="module", params=[PLAIN, MARKED], ids=["by prefix", "by marks"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A chat tokenizer without and with generation marks."""
    return chat_tokenizer(tmp_path_factory.mktemp("chat"), request.param)


@pytest.mark.parametrize("kind", CHAT)
def test_chats_are_rendered_and_the_assistants_turns_learnt(kind: str, tokenizer: Tokenizer) -> None:
    file = kind.removesuffix("-thinking")
    for row, expected in zip(read_jsonl(DATA / f"{file}.jsonl"), CHAT[kind], strict=True):
        assert texts(tokenizer, process(preset_dataset(kind, 2048), tokenizer, row)) == expected


def test_every_published_kind_is_worked_out_here() -> None:
    assert set(ROW_KINDS) == {*PROMPT_COMPLETION, *CHAT, "local-jsonl"} == set(ADAPTERS)


def test_what_is_only_known_of_a_row_is_kept_and_not_read() -> None:
    """All answers of SQuAD, the number of GSM8K, the environment of a trajectory."""
    adapted = {kind: ADAPTERS[kind](read_jsonl(DATA / f"{kind}.jsonl")[0]) for kind in ("squad", "gsm8k", "coderforge")}
    assert adapted["squad"]["original_answers"] == ["1858", "in 1858"]
    assert adapted["gsm8k"]["original_answers"] == ["2"]
    assert adapted["coderforge"]["image"] == "registry/ours:made"


@pytest.mark.parametrize(
    ("solution", "thinking"),
    [
        ("So \\boxed{5}.", "So"),
        ("\\boxed{5}", ""),
        ("no box", "no box"),
        ("a \\boxed{1} b \\boxed{2} c \\boxed{3}", "a 1 b 2 c"),
        ("a \\boxed{x \\boxed{\\frac{1}{2}} y} b \\boxed{3}", "a x \\frac{1}{2} y b"),
        ("broken \\boxed{1 and \\boxed{3}", "broken \\boxed{1 and"),
    ],
)
def test_thinking_is_the_solution_before_its_last_box(solution: str, thinking: str) -> None:
    assert without_answer(solution) == thinking


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "a column that is not there": (
        "gsm8k",
        {"questions": "q", "answer": "a"},
        "no column 'question'; it has questions, answer; did you mean 'questions'?",
    ),
    "a column that is null": ("gsm8k", {"question": None, "answer": "a"}, "column 'question' is null; columns with a"),
    "a column of another type": ("gsm8k", {"question": ["q"], "answer": "a"}, "'question' holds a list, not text"),
    "answers without text": (
        "squad",
        {"context": "c", "question": "q", "answers": {"answer_start": [0]}},
        "column 'answers': no column 'text'; it has answer_start",
    ),
    "no answer": (
        "squad",
        {"context": "c", "question": "q", "answers": {"text": [], "answer_start": []}},
        "column 'answers': 'text' is not a list of at least one answer",
    ),
    "JSON that is cut off": ("coderforge", {"messages": '[{"role":'}, "column 'messages' is no JSON: "),
    "JSON of an object": ("coderforge", {"messages": "{}"}, "column 'messages' holds JSON of an object, not of a list"),
    "the old shape of a chat": ("tulu3", {"conversations": []}, "no column 'messages'; it has conversations"),
    "text named messages": ("tulu3", {"messages": "Hi"}, "column 'messages' holds text, not a list"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_row_of_another_shape_is_refused_by_its_column(name: str, tokenizer: Tokenizer) -> None:
    kind, row, says = BAD[name]
    with pytest.raises(BrokenRow) as error:
        process(preset_dataset(kind, 64), tokenizer, row)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("tokenizer_says", "preprocessing", "says"),
    [
        (
            BYTES,
            {"style": "chat", "loss": "assistant"},
            "needs the special tokens of a chat template, which",
        ),
        (BYTES, {"style": "chat", "loss": "completion"}, "loss=completion needs style=prompt-completion"),
        (BYTES, {"loss": "assistant"}, "loss=assistant needs style=chat"),
        (BYTES, {"add_bos": True}, "add_bos=true, but the tokenizer has no beginning-of-sequence token"),
        (
            None,
            {"style": "chat", "loss": "assistant"},
            "the tokenizer has no chat template; dataset.pre",
        ),
        (None, {"style": "chat", "loss": "assistant", "chat_template": "/no/file"}, "/no/file: No such file"),
    ],
)
def test_words_that_the_tokenizer_cannot_follow_are_refused(
    tmp_path: Path, tokenizer_says: Tokenizer | None, preprocessing: dict[str, Any], says: str
) -> None:
    with pytest.raises(DataError) as error:
        Preprocessor(local(**preprocessing), tokenizer_says or chat_tokenizer(tmp_path, None))
    assert says in str(error.value)
    assert "\n" not in str(error.value)
