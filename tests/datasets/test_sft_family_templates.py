"""A conversation in the form of each family's published chat template, and what is learnt of it.

The templates are written here in as few words as give the published ones' text for turns, system messages and thinking,
without tools: marks, their order, and what becomes of thinking in earlier turns are the published ones'.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from tests.datasets.sft_cases import chat_tokenizer, chat_words, process, texts

from trainwright.datasets import Tokenizer
from trainwright.datasets.sft.rows import BrokenRow
from trainwright.recipes.library import RECIPES

QUESTIONS: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is two and two?"},
    {"role": "assistant", "content": "Four."},
    {"role": "user", "content": "And three and three?"},
    {"role": "assistant", "content": "Six."},
]
THOUGHT: list[dict[str, Any]] = [
    {"role": "user", "content": "What is two and two?"},
    {"role": "assistant", "content": "Four.", "thinking": "Two more than two."},
]


@dataclass(frozen=True)
class Family:
    """A published form."""

    stems: tuple[str, ...]
    """How the models in names of recipes begin."""
    special: tuple[str, ...]
    """Tokens that are one id each; the first ends a sequence."""
    bos: str | None
    template: str
    questions: str
    """`QUESTIONS` as text."""
    learnt: tuple[str, ...]
    """Of it."""
    thought: tuple[str, ...] | None = None
    """What is learnt of `THOUGHT`; null for a template that leaves thinking out, which is refused."""


LLAMA = Family(
    stems=("llama3",),
    special=("<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>"),
    bos="<|begin_of_text|>",
    template=(
        "{%- macro head(role) -%}<|start_header_id|>{{ role }}<|end_header_id|>{{ '\\n\\n' }}{%- endmacro -%}"
        "{{ bos_token }}{{ head('system') }}Cutting Knowledge Date: December 2023{{ '\\n' }}"
        "Today Date: {{ strftime_now('%d %b %Y') }}{{ '\\n\\n' }}"
        "{%- if messages[0].role == 'system' %}{{ messages[0].content | trim }}{% endif -%}<|eot_id|>"
        "{%- for message in messages if message.role != 'system' -%}"
        "{{ head(message.role) }}{{ message.content | trim }}<|eot_id|>{%- endfor -%}"
        "{%- if add_generation_prompt %}{{ head('assistant') }}{% endif -%}"
    ),
    questions=(
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
        "Today Date: 01 Jan 2025\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nWhat is two and two?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nFour.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nAnd three and three?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nSix.<|eot_id|>"
    ),
    learnt=("Four.<|eot_id|>", "Six.<|eot_id|>"),
)
QWEN3 = Family(
    stems=("qwen3",),
    special=("<|im_end|>", "<|im_start|>", "<|endoftext|>"),
    bos=None,
    template=(
        "{%- set ns = namespace(last=-1) -%}"
        "{%- for message in messages if message.role == 'user' -%}"
        "{%- set ns.last = messages.index(message) -%}{%- endfor -%}"
        "{%- for message in messages -%}<|im_start|>{{ message.role }}{{ '\\n' }}"
        "{%- if message.role == 'assistant' and loop.index0 > ns.last and (loop.last or message.reasoning_content) -%}"
        "<think>{{ '\\n' + (message.reasoning_content or '') + '\\n' }}</think>{{ '\\n\\n' }}{%- endif -%}"
        "{{ message.content }}<|im_end|>{{ '\\n' }}{%- endfor -%}"
        "{%- if add_generation_prompt %}<|im_start|>assistant{{ '\\n' }}{% endif -%}"
    ),
    questions=(
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is two and two?<|im_end|>\n"
        "<|im_start|>assistant\nFour.<|im_end|>\n<|im_start|>user\nAnd three and three?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\nSix.<|im_end|>\n"
    ),
    learnt=("Four.<|im_end|>", "<think>\n\n</think>\n\nSix.<|im_end|>"),
    thought=("<think>\nTwo more than two.\n</think>\n\nFour.<|im_end|>",),
)
GPT_OSS = Family(
    stems=("gpt_oss",),
    special=("<|return|>", "<|end|>", "<|start|>", "<|message|>", "<|channel|>"),
    bos=None,
    template=(
        "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.{{ '\\n' }}"
        "Knowledge cutoff: 2024-06{{ '\\n' }}Current date: {{ strftime_now('%Y-%m-%d') }}{{ '\\n\\n' }}"
        "Reasoning: medium{{ '\\n\\n' }}# Valid channels: analysis, commentary, final. "
        "Channel must be included for every message.<|end|>"
        "{%- for message in messages -%}"
        "{%- if message.role == 'system' -%}"
        "<|start|>developer<|message|># Instructions{{ '\\n\\n' + message.content + '\\n\\n' }}<|end|>"
        "{%- elif message.role == 'user' -%}<|start|>user<|message|>{{ message.content }}<|end|>"
        "{%- else -%}"
        "{%- set final = loop.last and not add_generation_prompt -%}"
        "{%- if final and message.thinking -%}"
        "<|start|>assistant<|channel|>analysis<|message|>{{ message.thinking }}<|end|>{%- endif -%}"
        "<|start|>assistant<|channel|>final<|message|>{{ message.content }}{{ '<|return|>' if final else '<|end|>' }}"
        "{%- endif -%}{%- endfor -%}"
        "{%- if add_generation_prompt %}<|start|>assistant{% endif -%}"
    ),
    questions=(
        "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
        "Knowledge cutoff: 2024-06\nCurrent date: 2025-01-01\n\nReasoning: medium\n\n"
        "# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>"
        "<|start|>developer<|message|># Instructions\n\nBe brief.\n\n<|end|>"
        "<|start|>user<|message|>What is two and two?<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Four.<|end|>"
        "<|start|>user<|message|>And three and three?<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Six.<|return|>"
    ),
    learnt=("<|channel|>final<|message|>Four.<|end|>", "<|channel|>final<|message|>Six.<|return|>"),
    thought=(
        "<|channel|>analysis<|message|>Two more than two.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Four.<|return|>",
    ),
)
DEEPSEEK = Family(
    stems=("deepseek_v3",),
    special=("<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
    bos="<｜begin▁of▁sentence｜>",
    template=(
        "{{ bos_token }}{%- for message in messages -%}"
        "{%- if message.role == 'system' -%}{{ message.content }}"
        "{%- elif message.role == 'user' -%}<｜User｜>{{ message.content }}"
        "{%- else -%}<｜Assistant｜>{{ message.content }}<｜end▁of▁sentence｜>{%- endif -%}{%- endfor -%}"
        "{%- if add_generation_prompt %}<｜Assistant｜>{% endif -%}"
    ),
    questions=(
        "<｜begin▁of▁sentence｜>Be brief.<｜User｜>What is two and two?<｜Assistant｜>Four.<｜end▁of▁sentence｜>"
        "<｜User｜>And three and three?<｜Assistant｜>Six.<｜end▁of▁sentence｜>"
    ),
    learnt=("Four.<｜end▁of▁sentence｜>", "Six.<｜end▁of▁sentence｜>"),
)
MOONLIGHT = Family(
    stems=("moonlight", "kimi_k2"),
    special=("<|im_end|>", "<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>"),
    bos=None,
    template=(
        "{%- for message in messages -%}"
        "{%- if loop.first and message.role != 'system' -%}"
        "<|im_system|>system<|im_middle|>You are a helpful assistant<|im_end|>{%- endif -%}"
        "<|im_{{ message.role }}|>{{ message.role }}<|im_middle|>{{ message.content }}<|im_end|>{%- endfor -%}"
        "{%- if add_generation_prompt %}<|im_assistant|>assistant<|im_middle|>{% endif -%}"
    ),
    questions=(
        "<|im_system|>system<|im_middle|>Be brief.<|im_end|><|im_user|>user<|im_middle|>What is two and two?<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|>Four.<|im_end|>"
        "<|im_user|>user<|im_middle|>And three and three?<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|>Six.<|im_end|>"
    ),
    learnt=("Four.<|im_end|>", "Six.<|im_end|>"),
)
GLM45 = Family(
    stems=("glm45",),
    special=("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"),
    bos=None,
    template=(
        "{%- set ns = namespace(last=-1) -%}"
        "{%- for message in messages if message.role == 'user' -%}"
        "{%- set ns.last = messages.index(message) -%}{%- endfor -%}"
        "[gMASK]<sop>{%- for message in messages -%}<|{{ message.role }}|>{{ '\\n' }}"
        "{%- if message.role == 'assistant' -%}"
        "{%- set thought = message.reasoning_content if loop.index0 > ns.last else '' -%}"
        "<think>{{ (thought or '') | trim }}</think>{{ '\\n' }}{%- endif -%}"
        "{{ message.content }}{%- endfor -%}"
        "{%- if add_generation_prompt %}<|assistant|>{% endif -%}"
    ),
    questions=(
        "[gMASK]<sop><|system|>\nBe brief.<|user|>\nWhat is two and two?<|assistant|>\n<think></think>\nFour."
        "<|user|>\nAnd three and three?<|assistant|>\n<think></think>\nSix."
    ),
    # Published without an end of the assistant's turn: what a model stops at is the next one's mark.
    learnt=("\n<think></think>\nFour.", "\n<think></think>\nSix."),
    thought=("\n<think>Two more than two.</think>\nFour.",),
)
FAMILIES = {"llama": LLAMA, "qwen3": QWEN3, "gpt_oss": GPT_OSS, "deepseek": DEEPSEEK, "moonlight": MOONLIGHT,
            "glm45": GLM45}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    """Bytes and a family's special tokens, with its template."""
    return {
        name: chat_tokenizer(tmp_path_factory.mktemp(name), family.template, family.special, family.bos)
        for name, family in FAMILIES.items()
    }


def test_every_family_of_the_library_is_here() -> None:
    stems = {recipe.stem for recipe in RECIPES if not recipe.own and recipe.stem != "vanilla_gpt"}
    begins = tuple(stem for family in FAMILIES.values() for stem in family.stems)
    assert [stem for stem in sorted(stems) if not stem.startswith(begins)] == []


@pytest.mark.parametrize("name", FAMILIES)
def test_a_conversation_reads_as_published_and_the_assistants_turns_are_learnt(
    tokenizers: dict[str, Tokenizer], name: str
) -> None:
    """Without its header, and to its end where the template has one."""
    family, tokenizer = FAMILIES[name], tokenizers[name]
    whole, learnt = texts(tokenizer, process(chat_words(), tokenizer, {"messages": QUESTIONS}))
    assert whole == family.questions
    assert learnt == list(family.learnt)


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.thought])
def test_thinking_of_the_last_turn_is_learnt(tokenizers: dict[str, Tokenizer], name: str) -> None:
    _, learnt = texts(tokenizers[name], process(chat_words(), tokenizers[name], {"messages": THOUGHT}))
    assert learnt == list(FAMILIES[name].thought or ())


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if not family.thought])
def test_thinking_that_a_template_has_no_place_for_is_refused(tokenizers: dict[str, Tokenizer], name: str) -> None:
    """And never lost in silence."""
    with pytest.raises(BrokenRow, match="the chat template leaves out the thinking of turn 2"):
        process(chat_words(), tokenizers[name], {"messages": THOUGHT})
