"""One fine-tuning here and in transformers: the same model, rows and optimizer, and both loss curves."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.runner.finetune_reference import VOCABULARY, Example, Optimizer, curve, examples, fine_tune, rows_read
from tests.runner.huggingface_models import make
from tests.runner.sft_training import folder_of_rows
from tests.runner.training import losses

from trainwright.runner.testing import run_ranks

GATE = 1e-3
"""Nats, absolute, at every update."""

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama, tied": ("llama, tied", {}),
    "qwen3": ("qwen3", {}),
    "qwen3_moe": ("qwen3_moe", {}),
    "gpt_oss": ("gpt_oss", {}),
    "deepseek": ("deepseek", {}),
    "moonlight": ("moonlight", {}),
    # DeepSeek-V3's latents and YaRN without groups of experts.
    "kimi": ("deepseek", {"n_group": 1, "topk_group": 1}),
    "glm45": ("glm45", {}),
}
"""A model of `huggingface_models` and what is changed in it."""
DENSE = ("llama", "llama, tied", "qwen3")

PADDED = ("dataset.enable_offline_packing=false", "dataset.dataloader_type=single")
LAYOUTS: dict[str, tuple[str, ...]] = {
    "padded": PADDED,
    "packed in the batch": (*PADDED, "dataset.enable_in_batch_packing=true"),
    "packed beforehand": (
        "dataset.enable_offline_packing=true",
        "train.micro_batch_size=1",
        "dataset.offline_packing_specs.packed_sequence_size=96",
        # Which topologies agree on, so that all of them have the same rows.
        "dataset.offline_packing_specs.pad_seq_to_mult=4",
    ),
}

TP2_PP2 = (
    "model.tensor_model_parallel_size=2",
    "model.sequence_parallel=true",
    "model.pipeline_model_parallel_size=2",
)
EP2 = ("model.expert_model_parallel_size=2",)
TOPOLOGIES: dict[str, tuple[int, tuple[str, ...]]] = {
    "one rank": (1, ()),
    "TP2 PP2": (4, TP2_PP2),
    "EP2": (2, EP2),
    "TP2 PP2 EP2": (4, (*TP2_PP2, *EP2, "model.expert_tensor_parallel_size=1")),
}


def topologies(family: str) -> tuple[str, ...]:
    """Those at which a family is compared: a mixture of experts shares them out."""
    return ("one rank", "TP2 PP2") if family in DENSE else ("one rank", "EP2", "TP2 PP2 EP2")


class Comparison:
    """Keeps what several comparisons need: rows, models on the disk, and the curves of transformers."""

    def __init__(self, folder: Path, optimizer: Optimizer | None = None) -> None:
        self.folder, self.optimizer = folder, optimizer or Optimizer()
        self._updates: dict[str, list[list[Example]]] = {}
        self._curves: dict[tuple[str, str, str], list[float]] = {}

    @cached_property
    def rows(self) -> Path:
        """40 rows are 5 updates of 8."""
        return folder_of_rows(self.folder / "rows", 40)

    def updates(self, layout: str) -> list[list[Example]]:
        """The rows of each update. In the batch the same are packed that would be padded."""
        layout = "padded" if layout == "packed in the batch" else layout
        if layout not in self._updates:
            (numbers,) = run_ranks(rows_read, 1, self.rows, LAYOUTS[layout])
            known = examples(self.rows)
            self._updates[layout] = [[known[number] for number in update] for update in numbers]
        return self._updates[layout]

    def model(self, family: str) -> Any:
        """A new one of transformers, the same every time."""
        name, changes = FAMILIES[family]
        return make(name, vocab_size=VOCABULARY, **changes)

    def directory(self, family: str) -> Path:
        """The model as transformers saves it."""
        path = self.folder / "models" / family
        if not path.exists():
            self.model(family).save_pretrained(path)
        return path

    def theirs(self, family: str, scheme: str, layout: str) -> list[float]:
        """The loss before each update, of transformers."""
        layout = "padded" if layout == "packed in the batch" else layout
        key = (family, scheme, layout)
        if key not in self._curves:
            self._curves[key] = curve(self.model(family), self.updates(layout), self.optimizer)
        return self._curves[key]

    def ours(self, family: str, scheme: str, layout: str, topology: str, *words: str) -> list[float]:
        """The same of a run of ours; `words` are further overrides."""
        ranks, own = TOPOLOGIES[topology]
        run_dir = self.folder / "runs" / f"{family}, {scheme}, {layout}, {topology} {len(words)}"
        words = (*LAYOUTS[layout], *self.optimizer.words(), *own, *words)
        assert (
            run_ranks(fine_tune, ranks, ranks, run_dir, self.rows, self.directory(family), words, timeout=900)
            == [0] * ranks
        )
        found = losses(run_dir)
        return [found[step] for step in sorted(found)]


def worst(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The largest absolute difference over all updates, in nats."""
    return max(abs(one - other) for one, other in zip(ours, theirs, strict=True))
