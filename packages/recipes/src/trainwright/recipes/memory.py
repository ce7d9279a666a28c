"""Bytes on a rank of each pipeline stage: weights, gradients, optimizer state, and what micro-batches leave behind.

Not in it: what a CUDA context, NCCL and libraries take, what lives within one operation, and gaps between blocks of
memory. Offloading, paged stashes and room that experts keep free are not taken into account either.
"""

import math
from dataclasses import dataclass
from itertools import chain

from trainwright.recipes.activations import (
    Beside,
    Kept,
    Share,
    of_block,
    of_embedding,
    of_loss,
    of_prediction,
    recomputed,
)
from trainwright.recipes.adapters import adapted, stage_adapters
from trainwright.recipes.blocks import blocks_per_chunk
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.in_flight import Pipeline
from trainwright.recipes.packing import row_length
from trainwright.recipes.parameters import Count, block, split_of, stage_matrices, stage_parameters, stage_words
from trainwright.recipes.pipeline import ResolvedRun
from trainwright.recipes.precision import BYTES, Widths, widths


@dataclass(frozen=True)
class Memory:
    """Of one rank of a pipeline stage, in bytes, at the moments when it holds most."""

    stage: int
    blocks: int
    parameters: int
    trainable: int
    """All of them, or those of adapters."""
    weights: int
    gradients: int
    """The buffer in which they are summed and reduced."""
    optimizer: int
    """Moments, and what is kept beside weights of 16 bits or fewer."""
    activations: int
    """What micro-batches under way have left for their backward passes, at the most."""
    update: int
    """Copies of gradients in the optimizer's type, at an update, when no activations are there."""

    @property
    def state(self) -> int:
        """What is there all the time."""
        return self.weights + self.gradients + self.optimizer

    @property
    def total(self) -> int:
        """All together, at the fuller of the two moments."""
        return self.state + max(self.activations, self.update)


def stage_memory(resolved: ResolvedRun, vocabulary: int, *, two_layouts: bool = False) -> list[Memory]:
    """One rank of each pipeline stage; its tensor and data parallel neighbours hold as much.

    `vocabulary` counts tokens before padding; `two_layouts` as `hardware.Gpu` has it.
    """
    config, model = resolved.config, resolved.config.model
    each = widths(config, two_layouts=two_layouts)
    held = stage_activations(resolved, vocabulary, each)
    found = stage_parameters(model, vocabulary)
    trainable = found if config.peft is None else stage_adapters(model, config.peft)
    beside = [Count()] * len(found) if config.peft is None else trainable
    words = stage_words(model, vocabulary) if config.peft is None else [0] * len(found)
    gathered, blocks = _gathered(resolved), blocks_per_chunk(model)
    return [
        Memory(
            stage=stage,
            blocks=sum(blocks[stage :: len(found)]),
            parameters=found[stage].total + beside[stage].total,
            trainable=trainable[stage].total,
            weights=_weights(resolved, found[stage], matrices, each)
            + beside[stage].total * each.weight
            + gathered[stage] * each.weight,
            gradients=_shared_out(resolved, trainable[stage], each.gradient) + gathered[stage] * each.gradient,
            optimizer=_optimizer(resolved, trainable[stage], words[stage], each),
            activations=math.ceil(held[stage]),
            update=_split(resolved, trainable[stage], each.update),
        )
        for stage, matrices in enumerate(stage_matrices(model))
    ]


def pipeline_of(resolved: ResolvedRun) -> Pipeline:
    """How micro-batches pass the run's pipeline."""
    model = resolved.config.model
    stages = model.pipeline_model_parallel_size
    group = (model.model_extra or {}).get("microbatch_group_size_per_vp_stage") or stages
    return Pipeline(stages, model.virtual_pipeline_model_parallel_size or 1, resolved.num_microbatches, group)


def share_of(resolved: ResolvedRun, each: Widths) -> Share:
    """What a rank has of a micro-batch."""
    config, model = resolved.config, resolved.config.model
    row = row_length(config)
    positions = config.train.micro_batch_size * row / model.context_parallel_size
    return Share(model, each, positions, row, resolved.device == "cpu", _adapters(config))


def _adapters(config: ConfigContainer) -> dict[str, Beside] | None:
    if config.peft is None:
        return None
    split, beside = split_of(config.model), {}
    for one in adapted(config.model, config.peft):
        linear = one.linear
        ranks = split.tensor if linear.experts is None else split.expert_tensor
        columns = linear.columns // (ranks if linear.split == "columns" else 1)
        outputs = sum(part.rows for part in one.parts) / (ranks if linear.split == "rows" else 1)
        if config.model.sequence_parallel and linear.experts is None and linear.split is not None:
            # What goes in is gathered, or what comes out is scattered.
            outputs *= ranks if linear.split == "rows" else 1 / ranks
        outputs = outputs if config.peft.scheme == "dora" else 0.0
        beside[linear.path] = Beside(columns, len(one.parts) * config.peft.dim, outputs)
    return beside


def stage_activations(resolved: ResolvedRun, vocabulary: int, each: Widths) -> list[float]:
    """The most bytes that micro-batches have left on a rank of each pipeline stage."""
    model, pipeline, share = resolved.config.model, pipeline_of(resolved), share_of(resolved, each)
    chunks, number = [], 0
    counts = blocks_per_chunk(model)
    for chunk, blocks in enumerate(counts):
        ends = of_embedding(share) if chunk == 0 else []
        last = chunk == len(counts) - 1
        chunks.append(_chunk(share, range(number, number + blocks), ends, vocabulary if last else None))
        number += blocks
    return [
        pipeline.most_held(stage, *zip(*chunks[stage :: pipeline.stages], strict=True))
        for stage in range(pipeline.stages)
    ]


def _chunk(share: Share, blocks: range, ends: list[Kept], vocabulary: int | None) -> tuple[float, float]:
    """Bytes that a model chunk keeps of a micro-batch, and bytes that its backward pass makes again on top.

    What is recomputed is there for one block, or group of blocks, at a time, and only once all that comes after it has
    gone. `vocabulary` is null for a chunk that is not the last.
    """
    parts = [_sum(ends), *_bodies(share, [of_block(share, number) for number in blocks])]
    if vocabulary is not None:
        depths = range(share.model.mtp_num_layers or 0)
        parts += [_prediction(share, depth, vocabulary) for depth in depths]
        parts.append(_sum(of_loss(share, vocabulary)))
    before = most = 0.0
    for kept, again in parts:
        before += kept
        most = max(most, before + again)
    return before, most - before


def _sum(kept: list[Kept]) -> tuple[float, float]:
    return sum(one.size for one in kept), 0.0


def _bodies(share: Share, blocks: list[list[list[Kept]]]) -> list[tuple[float, float]]:
    """Of blocks, or of what is recomputed together: bytes that are kept, and bytes that are made again.

    `uniform` recomputes groups of so many blocks, `block` the two halves of so many blocks each on its own.
    """
    model = share.model
    if model.recompute_granularity != "full":
        return [_selected(share, list(chain(*halves))) for halves in blocks]
    count = model.recompute_num_layers or 1
    if model.recompute_method == "block":
        halves = [(_input(share), _sum(half)[0]) for half in chain(*blocks[:count])]
        return halves + [_sum(list(chain(*halves))) for halves in blocks[count:]]
    sizes = [_sum(list(chain(*halves)))[0] for halves in blocks]
    return [(_input(share), sum(sizes[begin : begin + count])) for begin in range(0, len(sizes), count)]


def _input(share: Share) -> float:
    return share.hidden * share.widths.activation


def _selected(share: Share, body: list[Kept]) -> tuple[float, float]:
    """What selective recomputation keeps and makes again."""
    modules = recomputed(share.model)
    again = sum(one.size for one in body if modules & set(one.recomputed_with))
    return sum(one.size for one in body) - again, again


def _prediction(share: Share, depth: int, vocabulary: int) -> tuple[float, float]:
    """Of a depth of multi-token prediction, which Megatron Core recomputes as a whole but for its loss."""
    kept, again = _selected(share, of_prediction(share, depth, vocabulary))
    if share.model.recompute_granularity != "full" or share.model.recompute_method == "block":
        return kept, again
    left = 2 * _input(share) + _sum(of_loss(share, vocabulary))[0]
    return left, kept + again - left


def _weights(resolved: ResolvedRun, found: Count, matrices: Count, each: Widths) -> int:
    """In their types, with the quantised copies of those of linear layers."""
    quantised = _shared_out(resolved, matrices, each.matrix - each.weight)
    return _shared_out(resolved, found, each.weight) + quantised


def fully_sharded(config: ConfigContainer) -> bool:
    """Whether weights and gradients are split between data parallel ranks too (Megatron FSDP)."""
    return config.ddp.use_megatron_fsdp and config.ddp.data_parallel_sharding_strategy == "optim_grads_params"


def _shared_out(resolved: ResolvedRun, found: Count, width: float) -> int:
    """Bytes of weights or gradients, which ranks have whole unless they are fully sharded."""
    dense, experts = sharers(resolved) if fully_sharded(resolved.config) else (1, 1)
    return math.ceil(found.dense * width / dense + found.experts * width / experts)


def _gathered(resolved: ResolvedRun) -> list[int]:
    """Parameters of each stage that fully sharded ranks have whole for a while: of two blocks, one in use and the next.

    So it is with blocks as units and one gathered ahead.
    """
    model, split = resolved.config.model, split_of(resolved.config.model)
    stages, found, number = model.pipeline_model_parallel_size, [0] * model.pipeline_model_parallel_size, 0
    if not fully_sharded(resolved.config):
        return found
    for chunk, blocks in enumerate(blocks_per_chunk(model)):
        for one in range(number, number + blocks):
            found[chunk % stages] = max(found[chunk % stages], 2 * block(model, one, split).total)
        number += blocks
    return found


def _optimizer(resolved: ResolvedRun, trainable: Count, words: int, each: Widths) -> int:
    """Adam keeps two moments of each parameter, SGD one where it has momentum, and each what 16-bit weights lack.

    Muon keeps one of its matrices, and Adam beside it two of the `words` of embedding and output layer (norms and
    biases are too few to count). The distributed optimizer splits them between the ranks that hold the same weights,
    and so does `dist_muon`, matrix by matrix.
    """
    optimizer = resolved.config.optimizer
    if optimizer.optimizer == "adam":
        moments = BYTES[optimizer.exp_avg_dtype] + BYTES[optimizer.exp_avg_sq_dtype]
        return _split(resolved, trainable, each.master + moments)
    if optimizer.optimizer == "sgd":
        return _split(resolved, trainable, each.master + 4 * int(optimizer.sgd_momentum > 0))
    return _split(resolved, trainable, each.master + 4, more=4 * words)


def _split(resolved: ResolvedRun, trainable: Count, width: int, *, more: int = 0) -> int:
    """Bytes of `width` for each parameter, and `more`, on the rank's share of what the optimizer splits."""
    dense, experts = sharers(resolved)
    return -(-(trainable.dense * width + more) // dense) + -(-trainable.experts * width // experts)


def sharers(resolved: ResolvedRun) -> tuple[int, int]:
    """Ranks between which optimizer state is split: of all but experts, and of experts."""
    config = resolved.config
    if not (config.optimizer.use_distributed_optimizer or config.optimizer.optimizer == "dist_muon"):
        return 1, 1
    dense, experts = copies(resolved)
    groups = config.ddp.num_distributed_optimizer_instances
    return max(dense // groups, 1), max(experts // groups, 1)


def copies(resolved: ResolvedRun) -> tuple[int, int]:
    """Ranks that hold the same weights: of all but experts, and of experts."""
    model, split = resolved.config.model, split_of(resolved.config.model)
    dense = resolved.data_parallel_size * model.context_parallel_size
    # At least one, also where the public recipe's experts do not fit its ranks.
    return dense, max(dense * split.tensor // (split.experts * split.expert_tensor), 1)
