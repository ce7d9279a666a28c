"""Ids and targets beside those of TRL's SFTTrainer, which prepares the same rows in its own way."""

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.datasets.sft_cases import DATA, MARKED, chat_tokenizer, chat_words, process, read_jsonl

from trainwright.datasets import Tokenizer
from trainwright.datasets.sft.adapters import ADAPTERS
from trainwright.datasets.sft.chat import chat
from trainwright.recipes.presets import preset_dataset

pytest.importorskip("trl")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return chat_tokenizer(tmp_path_factory.mktemp("chat"), MARKED)


def prepared_by_trl(rows: list[dict[str, Any]], tokenizer: Any, folder: Path, **words: Any) -> list[tuple[Any, Any]]:
    """(ids, whether each is a target) of each row, as SFTTrainer holds them after its own preparation."""
    from datasets import Dataset
    from transformers import GPT2Config, GPT2LMHeadModel
    from trl import SFTConfig, SFTTrainer

    size = len(tokenizer.wrapped)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=size, n_embd=4, n_layer=1, n_head=1, eos_token_id=0, bos_token_id=0))
    arguments = SFTConfig(
        output_dir=str(folder), report_to=[], use_cpu=True, bf16=False, max_length=None, disable_tqdm=True, **words
    )
    logging.disable(logging.WARNING)
    try:
        trainer = SFTTrainer(
            model=model, args=arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer.wrapped
        )
    finally:
        logging.disable(logging.NOTSET)
    return [
        (row["input_ids"], [label != -100 for label in row["labels"]])
        for row in trainer.train_dataset  # type: ignore[union-attr]
    ]


def unshifted(sequence: Any) -> tuple[Any, Any]:
    return sequence.ids.tolist(), sequence.learn.tolist()


@pytest.mark.parametrize("kind", ["squad", "gsm8k", "openmathinstruct2"])
def test_prompt_and_completion(kind: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """TRL puts nothing between the two: its completion gets our separator in front."""
    dataset = preset_dataset(kind, 512)
    rows = read_jsonl(DATA / f"{kind}.jsonl")
    adapted = [ADAPTERS[kind](row) for row in rows]
    theirs = prepared_by_trl(
        [{"prompt": row["input"], "completion": " " + row["output"]} for row in adapted], tokenizer, tmp_path
    )
    assert [unshifted(process(dataset, tokenizer, row)) for row in rows] == theirs


@pytest.mark.parametrize("kind", ["tulu3", "openmathinstruct2-thinking", "coderforge"])
def test_the_assistants_turns(kind: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """With generation marks, which TRL needs."""
    rows = [ADAPTERS[kind](row) for row in read_jsonl(DATA / f"{kind.removesuffix('-thinking')}.jsonl")]
    style = chat(chat_words(), tokenizer)
    for row in rows:
        read = style.read(row)
        messages = {"messages": read.messages, **({"tools": read.tools} if read.tools else {})}
        ((ids, learn),) = prepared_by_trl([messages], tokenizer, tmp_path, assistant_only_loss=True)
        assert unshifted(process(chat_words(), tokenizer, row)) == (ids, learn)


QWEN = ("<|im_end|>", "<|im_start|>", "<|endoftext|>")
TEMPLATES: dict[str, tuple[tuple[str, ...], str]] = {
    # TRL's template with marks -> special tokens, and what it learns besides: the header or the end of the line.
    "qwen2_5": (QWEN, "\n"),
    "qwen3_instruct_2507": (QWEN, "\n"),
    "llama3": (("<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>"), ""),
    "cohere": (("<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>"), ""),
    "deepseekv3": (("<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"), ""),
    "gptoss": (("<|return|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>"), "<|start|>assistant"),
    "gemma": (("<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"), "\n"),
    "phi3": (("<|endoftext|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"), "\n"),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_published_templates_without_marks_beside_trls_copies_with_marks(name: str, tmp_path: Path) -> None:
    """Prefixes find in each model's own template what TRL marked by hand, without white space and headers around it."""
    import trl

    special, surplus = TEMPLATES[name]
    folder = Path(trl.__file__).parent / "chat_templates"
    tokenizer = chat_tokenizer(tmp_path, None, special, bos=special[1])
    row = {
        "messages": [
            {"role": role, "content": content}
            for role, content in [("user", "yes"), ("assistant", "yes"), ("user", "a"), ("assistant", "é b")]
        ]
    }
    found = []
    for file in (f"{name}.jinja", f"{name}_training.jinja"):
        sequence = process(chat_words(chat_template=str(folder / file)), tokenizer, row)
        learnt: list[list[int]] = []
        for place, learn in enumerate(sequence.learn.tolist()):
            if learn and not sequence.learn[place - 1]:
                learnt.append([])
            if learn:
                learnt[-1].append(int(sequence.ids[place]))
        texts = [tokenizer.wrapped.decode(ids) for ids in learnt]  # type: ignore[attr-defined]
        found.append((sequence.ids.tolist(), [text.removeprefix(surplus).removesuffix(surplus) for text in texts]))
    assert found[0] == found[1]
    assert len(found[0][1]) == 2
