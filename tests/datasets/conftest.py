"""Small configurations and corpora for the tests of `trainwright.datasets`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.recipes.config import ConfigContainer


@pytest.fixture(scope="session")
def make_config() -> Callable[..., ConfigContainer]:
    """A whole configuration from what its dataset, tokenizer, train and validation sections say."""

    def make(
        tokenizer: dict[str, Any] | None = None,
        train: dict[str, Any] | None = None,
        validation: dict[str, Any] | None = None,
        **dataset: Any,
    ) -> ConfigContainer:
        return ConfigContainer.model_validate(
            {
                "model": {"num_layers": 2, "hidden_size": 16, "num_attention_heads": 2},
                "train": {"train_iters": 10, "global_batch_size": 8, "micro_batch_size": 2} | (train or {}),
                "validation": validation or {},
                "optimizer": {"lr": 1e-3},
                "dataset": {"seq_length": 16, "num_workers": 0} | dataset,
                "tokenizer": tokenizer or {"tokenizer_type": "ByteLevelTokenizer"},
            }
        )

    return make


@pytest.fixture(scope="session")
def write_pair() -> Callable[..., str]:
    """Write documents as `PREFIX.bin`/`PREFIX.idx` with Megatron Core's own builder; returns the prefix."""

    def write(prefix: Path, documents: Sequence[Sequence[int]], dtype: type = np.uint16) -> str:
        from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

        builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype)
        for document in documents:
            builder.add_document(np.array(document), [len(document)])
        builder.finalize(f"{prefix}.idx")
        return str(prefix)

    return write


@pytest.fixture(scope="session")
def random_documents() -> Callable[..., list[list[int]]]:
    """`count` byte-level documents of 1 to `longest` tokens, each with its end of document."""

    def make(count: int, longest: int = 60, seed: int = 0) -> list[list[int]]:
        random = np.random.default_rng(seed)
        return [[*random.integers(0, 256, random.integers(0, longest)).tolist(), 256] for _ in range(count)]

    return make


@pytest.fixture
def tiktoken_file(tmp_path: Path) -> Path:
    """A vocabulary of all bytes and of a few merges, 260 ranks."""
    import base64

    tokens = [bytes([byte]) for byte in range(256)] + [b"th", b"the", b" the", b"in"]
    path = tmp_path / "small.tiktoken"
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)))
    return path


@pytest.fixture(scope="session")
def huggingface_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE tokenizer of 300 tokens, saved as transformers saves one; `<|endoftext|>` ends a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(["the cat sat on the mat, the dog sat on the log"] * 3, trainer)
    folder = tmp_path_factory.mktemp("tokenizer")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(str(folder))
    return folder
