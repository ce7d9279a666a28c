"""One fine-tuning here and in transformers: the same model, rows and optimizer, and both loss curves."""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tests.runner.finetune_reference import (
    VOCABULARY,
    Example,
    Optimizer,
    curve,
    examples,
    fine_tune,
    rows_read,
    take_experts_apart,
    with_adapters,
)
from tests.runner.huggingface_models import make
from tests.runner.sft_training import folder_of_rows
from tests.runner.training import losses

from trainwright.runner.testing import run_ranks

GATE = 1e-3
"""Nats, absolute, at every update."""
WHOLE, ADAPTERS = Optimizer(eps=1e-5), Optimizer(lr=0.01, eps=1e-5)
RANK, ALPHA = 8, 16.0


class Targets(NamedTuple):
    """Linear layers of one kind."""

    ours: tuple[str, ...]
    """As `peft.target_modules` names them."""
    modules: tuple[str, ...] = ()
    """Theirs. Each of them has an A of its own, so ours are parts of fused layers."""
    parameters: tuple[str, ...] = ()
    """Theirs, where all experts of a block are one parameter: peft has LoRA for these and no DoRA."""


ATTENTION = Targets(("linear_q", "linear_k", "linear_v", "linear_proj"), ("q_proj", "k_proj", "v_proj", "o_proj"))
LATENT_KEYS = Targets(
    ("linear_q_proj", "linear_kv_down_proj", "linear_kv_up_proj", "linear_proj"),
    ("q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"),
)
LATENT = Targets(
    ("linear_q_down_proj", "linear_q_up_proj", *LATENT_KEYS.ours[1:]),
    ("q_a_proj", "q_b_proj", *LATENT_KEYS.modules[1:]),
)
GATED = ("gate_proj", "up_proj", "down_proj")
FEED_FORWARD = Targets(("*.mlp.linear_fc1_gate", "*.mlp.linear_fc1_up", "*.mlp.linear_fc2"), GATED)
SHARED, EXPERTS = (
    Targets(tuple(name.replace("mlp", f"mlp.{kind}") for name in FEED_FORWARD.ours), GATED)
    for kind in ("shared_experts", "experts")
)
STACKED_EXPERTS = Targets(
    ("*.mlp.experts.linear_fc1", "*.mlp.experts.linear_fc2"),
    parameters=("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
)
STACKED = "lora, experts stacked"


class Family(NamedTuple):
    """A model of `huggingface_models`, and what is trained of it."""

    model: str
    stem: str
    """Of our recipes."""
    targets: tuple[Targets, ...]
    """Layers that get adapters."""
    schemes: tuple[str, ...] = ("sft", "lora", "dora")
    n_group: int | None = None
    """Groups of experts, where other ones than the model's own."""


OF_EXPERTS = ("sft", "lora", STACKED, "dora")
FAMILIES = {
    "llama": Family("llama", "llama32_1b", (ATTENTION, FEED_FORWARD)),
    "llama, tied": Family("llama, tied", "llama32_1b", (ATTENTION, FEED_FORWARD)),
    "qwen3": Family("qwen3", "qwen3_600m", (ATTENTION, FEED_FORWARD)),
    "qwen3_moe": Family("qwen3_moe", "qwen3_30b_a3b", (ATTENTION, EXPERTS), OF_EXPERTS),
    # Its experts are one parameter in published files too.
    "gpt_oss": Family("gpt_oss", "gpt_oss_20b", (ATTENTION,), ("sft", STACKED, "dora")),
    "deepseek": Family("deepseek", "moonlight_16b", (LATENT, FEED_FORWARD, SHARED, EXPERTS), OF_EXPERTS),
    "moonlight": Family("moonlight", "moonlight_16b", (LATENT_KEYS, FEED_FORWARD, SHARED, EXPERTS), OF_EXPERTS),
    # DeepSeek-V3's latents and YaRN without its groups.
    "kimi": Family("deepseek", "moonlight_16b", (LATENT, FEED_FORWARD, SHARED, EXPERTS), OF_EXPERTS, n_group=1),
    "glm45": Family("glm45", "glm45_air_106b", (ATTENTION, FEED_FORWARD, SHARED, EXPERTS), OF_EXPERTS),
}

PADDED = ("dataset.enable_offline_packing=false", "dataset.dataloader_type=single")
LAYOUTS: dict[str, tuple[str, ...]] = {
    "padded": PADDED,
    "packed in the batch": (*PADDED, "dataset.enable_in_batch_packing=true"),
    "packed beforehand": (
        "dataset.enable_offline_packing=true",
        "train.micro_batch_size=1",
        "dataset.offline_packing_specs.packed_sequence_size=112",
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
    return ("one rank", "TP2 PP2") if STACKED not in FAMILIES[family].schemes else ("one rank", "EP2", "TP2 PP2 EP2")


def optimizer(scheme: str) -> Optimizer:
    """Adapters of little rank take larger steps."""
    return WHOLE if scheme == "sft" else ADAPTERS


def targets(family: str, scheme: str) -> tuple[Targets, ...]:
    """What gets adapters in a scheme."""
    every = FAMILIES[family].targets
    return (every[0], STACKED_EXPERTS) if scheme == STACKED else every


class Comparison:
    """Keeps what several comparisons need: rows, models and adapters on the disk, and the curves of transformers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._updates: dict[str, list[list[Example]]] = {}
        self._curves: dict[tuple[str, str, str, bool], list[float]] = {}

    @cached_property
    def rows(self) -> Path:
        """40 rows are 5 updates of 8."""
        return folder_of_rows(self.folder / "rows", 40)

    def updates(self, layout: str) -> list[list[Example]]:
        """The rows of each update. In the batch the same are packed that would be padded."""
        layout = "padded" if layout == "packed in the batch" else layout
        if layout not in self._updates:
            (numbers,) = run_ranks(rows_read, 1, self.rows, "vanilla_gpt_sft_config", *LAYOUTS[layout])
            known = examples(self.rows)
            self._updates[layout] = [[known[number] for number in update] for update in numbers]
        return self._updates[layout]

    def model(self, family: str, scheme: str, *, alpha: float = ALPHA) -> Any:
        """A new one of transformers, with adapters of peft; the same every time."""
        known = FAMILIES[family]
        groups = {} if known.n_group is None else {"n_group": known.n_group, "topk_group": known.n_group}
        model = make(known.model, vocab_size=VOCABULARY, **groups)
        if scheme == "sft":
            return model
        kinds = targets(family, scheme)
        if EXPERTS in kinds:
            take_experts_apart(model)
        return with_adapters(
            model,
            modules=sorted({name for kind in kinds for name in kind.modules}),
            parameters=[name for kind in kinds for name in kind.parameters],
            rank=RANK,
            alpha=alpha,
            dora=scheme == "dora",
        )

    def directory(self, family: str, scheme: str) -> Path:
        """The model as transformers saves it, or its adapter as peft does."""
        path = self.folder / "models" / f"{family}, {scheme}"
        if not path.exists():
            self.model(family, scheme).save_pretrained(path)
        return path

    def theirs(self, family: str, scheme: str, layout: str, *, exact: bool = False) -> list[float]:
        """The loss before each update, of transformers; `exact` is in float64."""
        layout = "padded" if layout == "packed in the batch" else layout
        key = (family, scheme, layout, exact)
        if key not in self._curves:
            model = self.model(family, scheme)
            if exact:
                model.double()
                model.set_experts_implementation("eager")
            self._curves[key] = curve(model, self.updates(layout), optimizer(scheme))
        return self._curves[key]

    def ours(self, family: str, scheme: str, layout: str, topology: str, *words: str) -> list[float]:
        """The same of a run of ours; `words` are further overrides."""
        run_dir = self.folder / "runs" / ", ".join((family, scheme, layout, topology, *words)).replace("/", " ")
        if not run_dir.exists():
            ranks, own = TOPOLOGIES[topology]
            recipe = f"{FAMILIES[family].stem}_{'sft' if scheme == 'sft' else 'peft'}_config"
            start = (self.rows, self.directory(family, "sft"), recipe, scheme.partition(",")[0])
            words = (*LAYOUTS[layout], *optimizer(scheme).words(), *own, *self._adapter_words(family, scheme), *words)
            assert run_ranks(fine_tune, ranks, ranks, run_dir, *start, *words, timeout=900) == [0] * ranks
        found = losses(run_dir)
        return [found[step] for step in sorted(found)]

    def _adapter_words(self, family: str, scheme: str) -> list[str]:
        if scheme == "sft":
            return []
        names = [name for kind in targets(family, scheme) for name in kind.ours]
        return [
            f"peft.dim={RANK}",
            f"peft.alpha={ALPHA}",
            f"peft.target_modules={json.dumps(names)}",
            f"peft.initial_adapter={self.directory(family, scheme)}",
        ]


def worst(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The largest absolute difference over all updates, in nats."""
    return max(abs(one - other) for one, other in zip(ours, theirs, strict=True))
