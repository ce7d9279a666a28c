"""The loss curve of a fine-tuning, computed by transformers on the rows that a run of ours reads.

Sequences and masks, model and optimizer are made here from the file of rows and the model's directory; only the order
in which rows are read is the run's.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch

VOCABULARY, END = 257, 256
"""Of the byte-level tokenizer: 256 bytes, and the end of a row."""
SEPARATOR = " "
UPDATES, GLOBAL_BATCH = 20, 8
SEED = 1234
"""Of the order of rows."""


class Optimizer(NamedTuple):
    """AdamW and clipping, the rate the same at every update."""

    lr: float = 0.003
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.1
    clip: float = 1.0

    def words(self) -> list[str]:
        """The same for a run of ours."""
        return [
            f"optimizer.lr={self.lr}",
            f"optimizer.min_lr={self.lr}",
            f"optimizer.adam_beta1={self.beta1}",
            f"optimizer.adam_beta2={self.beta2}",
            f"optimizer.adam_eps={self.eps}",
            f"optimizer.weight_decay={self.weight_decay}",
            f"optimizer.clip_grad={self.clip}",
        ]


class Example(NamedTuple):
    """A row as it is trained on: each token, the one after it, and whether that is learnt."""

    tokens: list[int]
    labels: list[int]
    learnt: list[bool]


def examples(root: Path) -> list[Example]:
    """The rows of `training.jsonl`, a token a byte; the completion is learnt, with the space before it and the end."""
    found = []
    for line in (root / "training.jsonl").read_text().splitlines():
        row = json.loads(line)
        prompt, completion = row["input"].encode(), (SEPARATOR + row["output"]).encode()
        ids = [*prompt, *completion, END]
        learnt = [place >= len(prompt) for place in range(len(ids))]
        found.append(Example(ids[:-1], ids[1:], learnt[1:]))
    return found


def curve(model: Any, updates: Sequence[Sequence[Example]], optimizer: Optimizer) -> list[float]:
    """Train what of the model takes gradients; returns the loss before each update.

    The loss is one mean over all tokens of the update that are learnt. As everywhere in the field, norms, biases and
    other vectors do not decay; of a stack of experts' vectors each is one.
    """
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    vectors = [name for name, parameter in trained.items() if parameter.dim() == 1 or name.endswith("bias")]
    groups = [
        {"params": [trained[name] for name in trained if name not in vectors], "weight_decay": optimizer.weight_decay},
        {"params": [trained[name] for name in vectors], "weight_decay": 0.0},
    ]
    betas = (optimizer.beta1, optimizer.beta2)
    adam = torch.optim.AdamW(groups, lr=optimizer.lr, betas=betas, eps=optimizer.eps)
    losses = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the matrices are small, and threads that wait for each other cost more than they save
    for batch in updates:
        loss = mean_loss(model, batch)
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), optimizer.clip)
        adam.step()
        losses.append(loss.item())
    torch.set_num_threads(threads)
    return losses


class SeparateExperts(torch.nn.ModuleList):
    """The experts of a block with a module for each matrix: so files have them, and transformers 4 had them."""

    def __init__(self, stacked: Any) -> None:
        super().__init__()
        for both, down in zip(stacked.gate_up_proj.data, stacked.down_proj.data, strict=True):
            gate, up = both.chunk(2)
            matrices = {"gate_proj": gate, "up_proj": up, "down_proj": down}
            self.append(torch.nn.ModuleDict({name: _linear(matrix) for name, matrix in matrices.items()}))

    def forward(self, states: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Of states [tokens, hidden], the experts `chosen` of each token and their weights, both [tokens, experts]."""
        result = torch.zeros_like(states)
        for number, expert in enumerate(self):
            tokens, places = torch.where(chosen == number)
            x = states[tokens]
            x = expert["down_proj"](torch.nn.functional.silu(expert["gate_proj"](x)) * expert["up_proj"](x))
            result = result.index_add(0, tokens, x * weights[tokens, places, None])
        return result


def _linear(matrix: torch.Tensor) -> torch.nn.Linear:
    made = torch.nn.Linear(matrix.size(1), matrix.size(0), bias=False)
    made.weight.data = matrix.clone()
    return made


def take_experts_apart(model: Any) -> None:
    """Put `SeparateExperts` in the place of every block's stacked ones: peft knows DoRA for modules alone."""
    for block in model.model.layers:
        if hasattr(block.mlp, "experts"):
            block.mlp.experts = SeparateExperts(block.mlp.experts)


def with_adapters(
    model: Any, *, modules: Sequence[str], parameters: Sequence[str], rank: int, alpha: float, dora: bool
) -> Any:
    """The model with adapters of peft, which do something from the beginning: B is not zero, lengths are not W's.

    peft would take names of modules for the stacked parameters that transformers has since release 5.
    """
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        use_dora=dora,
        target_modules=list(modules),
        target_parameters=list(parameters) or None,
    )
    torch.manual_seed(1)
    with mock.patch("peft.utils.transformers_weight_conversion.convert_peft_config_for_transformers"):
        model = get_peft_model(model, config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.02)
        elif "magnitude" in name:
            parameter.data.mul_(torch.empty_like(parameter).uniform_(0.8, 1.2))
    return model


def mean_loss(model: Any, batch: Sequence[Example]) -> torch.Tensor:
    """Over the learnt tokens of all examples, in nats. Padding stands at the end, where causal models never look."""
    length = max(len(example.tokens) for example in batch)

    def padded(rows: list[list[Any]]) -> torch.Tensor:
        return torch.tensor([row + [0] * (length - len(row)) for row in rows])

    tokens, labels, learnt = (padded([list(example[part]) for example in batch]) for part in range(3))
    logits = model(input_ids=tokens, use_cache=False).logits
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return (losses * learnt).sum() / learnt.sum()


def rows_read(root: Path, recipe: str, *words: str) -> list[list[int]]:
    """Which rows of the file each update of a run of ours reads, from its own loader. To be called by `run_ranks`."""
    from trainwright.datasets import build_tokenizer
    from trainwright.runner.build import build_data
    from trainwright.runner.distributed import place, stop
    from trainwright.runner.run import come_up

    resolved = resolve_run(root, recipe, "sft", words, world_size=1)
    device = come_up(resolved, place(), deterministic=False)
    data = build_data(resolved, build_tokenizer(resolved.config.tokenizer), device, consumed_samples=0)
    number = {tuple(example.tokens): number for number, example in enumerate(examples(root))}
    updates = [
        [number[tokens] for _ in range(resolved.num_microbatches) for tokens in _sequences(next(data.train), number)]
        for _ in range(resolved.config.train.train_iters)
    ]
    stop()
    return updates


def _sequences(batch: dict[str, torch.Tensor], known: Any) -> list[tuple[int, ...]]:
    """The tokens of each sequence of a micro-batch, without what pads it; rows of padding alone are none."""
    rows, learnt = batch["tokens"], batch["loss_mask"]
    if "cu_seqlens" in batch:
        lengths = batch["cu_seqlens"].diff().tolist()
        pairs = list(zip(rows[0].split(lengths), learnt[0].split(lengths), strict=True))
    else:
        pairs = list(zip(rows, learnt, strict=True))
    return [tuple(row[: int(mask.nonzero().max()) + 1].tolist()) for row, mask in pairs if mask.any()]


def resolve_run(root: Path, recipe: str, mode: str, words: Sequence[str], *, world_size: int) -> Any:
    """A run of ours on the rows in `root`, on the CPU in float32; of the recipe stays what is not said here."""
    from trainwright.recipes import Selection, resolve

    settings = [
        f"dataset.dataset_root={root}",
        "dataset.seq_length=64",
        f"dataset.random_seed={SEED}",
        "dataset.num_workers=0",
        "dataset.do_validation=false",
        "validation.eval_interval=null",
        "tokenizer.tokenizer_type=ByteLevelTokenizer",
        "tokenizer.tokenizer_model=null",
        f"model.vocab_size={VOCABULARY}",
        f"train.train_iters={UPDATES}",
        f"train.global_batch_size={GLOBAL_BATCH}",
        "train.micro_batch_size=2",
        "scheduler.lr_decay_style=constant",
        "scheduler.lr_warmup_iters=0",
        "logger.log_interval=1",
        "checkpoint.save_interval=null",
        "mixed_precision=fp32",
        "model.tensor_model_parallel_size=1",
        "model.pipeline_model_parallel_size=1",
        "model.context_parallel_size=1",
        "model.expert_model_parallel_size=1",
    ]
    # The last of two words about one thing counts, as on a command line.
    chosen = {word.partition("=")[0]: word for word in [*settings, *words]}
    selection = Selection(recipe=recipe, mode=mode, dataset="local-jsonl")
    return resolve(selection, list(chosen.values()), world_size=world_size, device="cpu")


def model_words(folder: Path) -> list[str]:
    """The architecture in a Hugging Face directory as overrides, and nothing that transformers does not do.

    transformers balances no experts unless it is asked to, and does not train further predictions.
    """
    from trainwright.runner.huggingface.families import family_of_folder
    from trainwright.runner.huggingface.family import architecture
    from trainwright.runner.huggingface.folder import HuggingFaceFolder

    _, model, _ = family_of_folder(HuggingFaceFolder(folder))
    fields = architecture(model) | {"max_position_embeddings": model.max_position_embeddings}
    if model.num_moe_experts is not None:
        fields |= {"moe_router_load_balancing_type": "none"}
    if model.moe_router_enable_expert_bias:
        fields |= {"moe_router_bias_update_rate": 0.0}
    said = {name: value for name, value in fields.items() if value is not None or name == "mtp_num_layers"}
    return [f"model.{name}={json.dumps(value)}" for name, value in said.items()]


def fine_tune(world_size: int, run_dir: Path, root: Path, folder: Path, recipe: str, mode: str, *words: str) -> int:
    """A session of ours that starts from the model in `folder`; returns the exit code. To be called by `run_ranks`."""
    from trainwright.runner.run import run

    start = f"checkpoint.pretrained_checkpoint={folder}"
    resolved = resolve_run(root, recipe, mode, [*model_words(folder), start, *words], world_size=world_size)
    return run(resolved, run_dir=run_dir)
