"""Configurations, files and a small chat tokenizer for tests of rows of text."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from trainwright.datasets import Tokenizer, build_tokenizer
from trainwright.datasets.sft.adapters import ADAPTERS
from trainwright.datasets.sft.preprocess import Preprocessor, Tokenized
from trainwright.recipes.config.data import DatasetConfig, TokenizerConfig
from trainwright.recipes.presets import preset_dataset

DATA = Path(__file__).parent / "data"
BYTES: Tokenizer = build_tokenizer(TokenizerConfig(tokenizer_type="ByteLevelTokenizer"))

_TURN = "<|im_start|>{{ message.role }}\n"
_BODY = (
    "{% if message.thinking %}<think>{{ message.thinking }}</think>{% endif %}{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}<call>{{ call.function | tojson }}</call>{% endfor %}<|im_end|>"
)
PLAIN = (
    "{% if tools %}<|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}" + _TURN + _BODY + "\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML without generation marks."""
MARKED = PLAIN.replace(
    _BODY + "\n",
    "{% if message.role == 'assistant' %}{% generation %}"
    + _BODY
    + "{% endgeneration %}{% else %}"
    + _BODY
    + "{% endif %}"
    "{{ '\\n' }}",  # Jinja would drop the line feed after a block
)
"""The same with them."""
SPECIAL = ("<|im_end|>", "<|im_start|>", "<|endoftext|>")


def write_jsonl(path: Path, rows: Iterable[object]) -> Path:
    """One JSON value on each line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, by the standard library."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def save_chat_tokenizer(
    folder: Path, template: str | None, special: Sequence[str] = SPECIAL, bos: str | None = None
) -> Path:
    """Bytes and special tokens, the first of which ends a sequence; a space before a word is merged with its letter."""
    from tokenizers import Tokenizer as Rust
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    rust = Rust(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    # Offsets without the space before a word, as some published tokenizers have them.
    rust.post_processor = processors.ByteLevel(trim_offsets=True)
    trainer = trainers.BpeTrainer(
        vocab_size=len(special) + 256 + 30,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rust.train_from_iterator([" a b c d e f the cat sat on the mat assistant user"] * 3, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=rust, eos_token=special[0], bos_token=bos, chat_template=template
    )
    tokenizer.save_pretrained(str(folder))
    return folder


def chat_tokenizer(
    folder: Path, template: str | None, special: Sequence[str] = SPECIAL, bos: str | None = None
) -> Tokenizer:
    """The same, as a run builds it."""
    path = save_chat_tokenizer(folder, template, special, bos)
    return build_tokenizer(TokenizerConfig(tokenizer_type="HuggingFaceTokenizer", tokenizer_model=str(path)))


def local(seq_length: int = 512, **preprocessing: Any) -> DatasetConfig:
    """`local-jsonl` with its preset's fields and these."""
    words = preset_dataset("local-jsonl", seq_length).preprocessing.model_dump() | preprocessing
    return preset_dataset("local-jsonl", seq_length, preprocessing=words)


def chat_words(**preprocessing: Any) -> DatasetConfig:
    """`local-jsonl` of messages."""
    return local(**{"style": "chat", "loss": "assistant"} | preprocessing)


def process(dataset: DatasetConfig, tokenizer: Tokenizer, row: dict[str, Any]) -> Tokenized:
    """What becomes of a row, through the adapter of its kind."""
    return Preprocessor(dataset, tokenizer)(ADAPTERS[dataset.kind](row))


def texts(tokenizer: Any, sequence: Tokenized) -> tuple[str, list[str]]:
    """All of a sequence as text, and each stretch that is learnt."""
    decode: Callable[[list[int]], str] = getattr(tokenizer, "wrapped", tokenizer).decode
    learnt: list[list[int]] = []
    before = False
    for token, learn in zip(sequence.ids.tolist(), sequence.learn.tolist(), strict=True):
        if learn:
            learnt = [*learnt[:-1], [*learnt[-1], token]] if before else [*learnt, [token]]
        before = learn
    return decode(sequence.ids.tolist()), [decode(ids) for ids in learnt]
