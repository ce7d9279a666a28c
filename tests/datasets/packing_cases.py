"""A dataset whose sequences a test makes up, and the configuration to pack it with."""

from collections.abc import Callable, Sequence

import numpy as np

from trainwright.datasets.sft.preprocess import Tokenized
from trainwright.datasets.tokenizers import Tokenizer, build_tokenizer
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.data import DatasetConfig, OfflinePackingConfig, TokenizerConfig

BYTES: Tokenizer = build_tokenizer(TokenizerConfig(tokenizer_type="ByteLevelTokenizer"))


class MadeUp:
    """Sequences of given lengths (ids; 0: left out), no two of them alike; the second half of each is learnt."""

    def __init__(self, lengths: Sequence[int], *, fingerprint: str = "made up", before: Callable[[int], None] = print):
        self.lengths, self.fingerprint, self._before = lengths, fingerprint, before

    def __len__(self) -> int:
        return len(self.lengths)

    def tokenized(self, number: int) -> Tokenized | str:
        if self._before is not print:
            self._before(number)
        length = self.lengths[number]
        if length == 0:
            return f"line {number}: nothing to learn"
        ids = np.random.RandomState(number).randint(0, 256, size=length)
        return Tokenized(ids.astype(np.int64), np.arange(length) >= max(1, length // 2), cut=number % 3)

    def where(self, number: int) -> tuple[str, ...]:
        return (f"line {number}",)


def packing_config(size: int, alignment: int, algorithm: str = "best_fit") -> ConfigContainer:
    """Only what packing reads."""
    specs = OfflinePackingConfig.model_validate(
        {"packed_sequence_size": size, "pad_seq_to_mult": alignment, "algorithm": algorithm}
    )
    dataset = DatasetConfig(
        kind="local-jsonl", seq_length=size, enable_offline_packing=True, offline_packing_specs=specs
    )
    return ConfigContainer.model_construct(dataset=dataset)
