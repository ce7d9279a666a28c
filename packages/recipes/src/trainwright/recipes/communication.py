"""Bytes that a rank sends in one update, by what for.

Collectives are counted as rings send them (Chan et al. 2007, "Collective communication: theory, practice, and
experience"): of n ranks, each sends (n - 1) / n of the whole in an all-gather, a reduce-scatter or an all-to-all, and
twice that in an all-reduce. How often they happen: tensor parallelism as in Korthikanti et al. 2022 (arXiv:2205.05198,
section 4.2), pipelines as in Narayanan et al. 2021 (arXiv:2104.04473, section 2.2), the distributed optimizer as in
Rajbhandari et al. 2020 (arXiv:1910.02054, section 7). Losses, norms, statistics of routers and scaling factors are too
small to count.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

from trainwright.recipes.activations import Share, recomputed
from trainwright.recipes.adapters import stage_adapters
from trainwright.recipes.blocks import blocks_per_chunk, expert_blocks
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.memory import copies, fully_sharded, share_of
from trainwright.recipes.parameters import Count, output, split_of, stage_matrices, stage_parameters
from trainwright.recipes.pipeline import ResolvedRun
from trainwright.recipes.precision import Widths, widths


@dataclass(frozen=True)
class Traffic:
    """What one kind of communication costs a rank."""

    kind: str
    how: str
    """The collectives."""
    ranks: int
    """Of the group."""
    sent: float
    """Bytes in one update."""


def stage_communication(resolved: ResolvedRun, vocabulary: int, *, two_layouts: bool = False) -> list[list[Traffic]]:
    """What a rank of each pipeline stage sends; kinds that the topology does not have are left out.

    `vocabulary` counts tokens before padding; `two_layouts` as `hardware.Gpu` has it.
    """
    each = widths(resolved.config, two_layouts=two_layouts)
    stages = range(resolved.config.model.pipeline_model_parallel_size)
    return [[one for one in _of(resolved, vocabulary, each, stage) if one.sent > 0] for stage in stages]


def _of(resolved: ResolvedRun, vocabulary: int, each: Widths, stage: int) -> Iterator[Traffic]:
    model, share = resolved.config.model, share_of(resolved, each)
    blocks, times = _blocks(model, stage), resolved.num_microbatches
    tensor = sum(_tensor_parallel(share, mixed) for mixed in blocks) + _ends(share, stage)
    collectives = "all-gather, reduce-scatter" if model.sequence_parallel else "all-reduce"
    yield Traffic("tensor parallel", collectives, share.tensor, tensor * times)
    context = len(blocks) * _context_parallel(share)
    how = (model.model_extra or {}).get("cp_comm_type") or "p2p"
    yield Traffic("context parallel", str(how), model.context_parallel_size, context * times)
    for kind, how, ranks, sent in _experts(share):
        yield Traffic(kind, how, ranks, sent * sum(blocks) * times)
    yield Traffic("pipeline", "send, receive", model.pipeline_model_parallel_size, _pipeline(share, stage) * times)
    yield from _data_parallel(resolved, vocabulary, each, stage)
    yield from _copies_of_words(resolved, vocabulary, each, stage)


def _blocks(model: ModelConfig, stage: int) -> list[bool]:
    """Of a stage's blocks, further predictions among them, whether they have experts."""
    stages, number, found = model.pipeline_model_parallel_size, 0, []
    mixed = expert_blocks(model)
    for chunk, blocks in enumerate(blocks_per_chunk(model)):
        found += mixed[number : number + blocks] if chunk % stages == stage else []
        number += blocks
    return found + mixed[-1:] * (model.mtp_num_layers or 0) * (stage == stages - 1)


def _part(ranks: int) -> float:
    return (ranks - 1) / ranks


def _tensor_parallel(share: Share, mixed: bool) -> float:
    """Of a block and a micro-batch: its attention, and its dense part or shared experts."""
    model = share.model
    into = model.hidden_size
    if model.multi_latent_attention:
        latents = (model.kv_lora_rank or 0) + (model.qk_pos_emb_head_dim or 0)
        into = (model.q_lora_rank or model.hidden_size) + latents
    modules = recomputed(model)
    total = _pair(share, into, again=model.recompute_granularity == "full")
    if not mixed or model.moe_shared_expert_intermediate_size is not None:
        names = {"moe", "shared_experts"} if mixed else {"mlp"}
        total += _pair(share, model.hidden_size, again=model.recompute_granularity == "full" or bool(modules & names))
    return total


def _pair(share: Share, into: int, *, again: bool) -> float:
    """A linear layer that fans out and one that fans in, forward and backward; `into` channels go into the first.

    Under sequence parallelism what goes in is gathered, what comes out is reduced and scattered, backward the other way
    round, and what goes in once more for the gradient of weights. Without it, what comes out is reduced, and backward
    the gradient of what goes in. `again`: the forward pass happens twice.
    """
    out, forwards = share.model.hidden_size, 2 if again else 1
    if share.model.sequence_parallel:
        weights = 0 if share.adapters is not None else into
        channels = float(forwards * (into + out) + out + into + weights)
    else:
        channels = 2.0 * (forwards * out + into)
    return _part(share.tensor) * share.positions * channels * share.widths.activation


def _ends(share: Share, stage: int) -> float:
    """Of a micro-batch: the embedding's sum, and what goes into the output layer, for each predicted token."""
    model, last = share.model, share.model.pipeline_model_parallel_size - 1
    whole = _part(share.tensor) * share.positions * model.hidden_size * share.widths.activation
    further = model.mtp_num_layers or 0
    embeddings = int(stage == 0) + further * int(stage == last)
    outputs = (1 + further) * int(stage == last)
    return whole * (embeddings * 2 + outputs * (3 if model.sequence_parallel else 2))


def _context_parallel(share: Share) -> float:
    """Of a block and a micro-batch: keys and values of the others forward, once more and their gradients backward.

    `a2a` exchanges heads for positions instead: of queries, keys, values and the output, forward and backward.
    """
    model, ranks = share.model, share.model.context_parallel_size
    heads, groups = model.num_attention_heads, model.num_query_groups or 0
    if model.multi_latent_attention:
        wide, value = (model.qk_head_dim or 0) + (model.qk_pos_emb_head_dim or 0), model.v_head_dim or 0
        keys, others = heads * (wide + value), heads * (wide + value)
    else:
        channels = model.kv_channels or 0
        keys, others = 2 * groups * channels, 2 * heads * channels
    position = share.positions / share.tensor * share.widths.activation
    if (model.model_extra or {}).get("cp_comm_type") == "a2a":
        return 2 * _part(ranks) * (keys + others) * position
    return 3 * (ranks - 1) * keys * position


def _experts(share: Share) -> Iterator[tuple[str, str, int, float]]:
    """Of a block and a micro-batch: tokens go to their experts and come back, forward and backward."""
    model, split = share.model, split_of(share.model)
    if model.num_moe_experts is None:
        return
    again = model.recompute_granularity == "full" or "moe" in recomputed(model)
    passes = 6 if again else 4
    position = share.spread * model.hidden_size * share.widths.activation
    ranks, chosen = split.experts, model.moe_router_topk
    if model.moe_token_dispatcher_type == "allgather":
        group = ranks * split.expert_tensor
        yield "expert parallel", "all-gather, reduce-scatter", group, passes * (group - 1) * position
        return
    flex = model.moe_token_dispatcher_type == "flex"
    copies_sent = _ranks_of_a_token(model.num_moe_experts, ranks, chosen) if flex else float(chosen)
    kind = model.moe_flex_dispatcher_backend if flex else "all-to-all"
    yield "expert parallel", str(kind), ranks, passes * _part(ranks) * copies_sent * position
    within = split.expert_tensor
    yield "expert tensor parallel", "all-gather, reduce-scatter", within, passes * (within - 1) * chosen * position


def _ranks_of_a_token(experts: int, ranks: int, chosen: int) -> float:
    """On how many ranks the chosen experts of a token are, on average, where each choice is as likely.

    DeepEP and HybridEP send a token once to each of them, however many of its experts are there.
    """
    own = experts // ranks
    return ranks * (1 - comb(experts - own, chosen) / comb(experts, chosen))


def _pipeline(share: Share, stage: int) -> float:
    """Of a micro-batch: hidden states to the next chunk, gradients to the one before."""
    stages, chunks = share.model.pipeline_model_parallel_size, share.model.virtual_pipeline_model_parallel_size or 1
    if stages == 1:
        return 0.0
    messages = 2 * chunks - int(stage == 0) - int(stage == stages - 1)
    return messages * share.hidden * share.widths.activation


def _data_parallel(resolved: ResolvedRun, vocabulary: int, each: Widths, stage: int) -> Iterator[Traffic]:
    """Gradients are reduced, and with the distributed optimizer only to each rank's share, whose weights are then
    gathered; `dist_muon` reduces all of them, and gathers its matrices.

    Fully sharded, weights are gathered for every forward and backward pass instead, and gradients reduced after each.
    """
    config = resolved.config
    found, matrices = stage_parameters(config.model, vocabulary)[stage], stage_matrices(config.model)[stage]
    if config.peft is not None:
        found, matrices = stage_adapters(config.model, config.peft)[stage], Count()
    ranks = copies(resolved)
    parts = zip(("data parallel", "data parallel of experts"), ranks, _both(found), _both(matrices), strict=True)
    for kind, group, parameters, quantised in parts:
        gradients = _part(group) * parameters * each.gradient
        weights = _part(group) * (quantised * each.gathered + (parameters - quantised) * each.weight)
        if fully_sharded(config):
            how = "all-gather, reduce-scatter for each micro-batch"
            yield Traffic(kind, how, group, (2 * weights + gradients) * resolved.num_microbatches)
        elif config.optimizer.use_distributed_optimizer:
            yield Traffic(kind, "reduce-scatter, all-gather", group, gradients + weights)
        elif config.optimizer.optimizer == "dist_muon":
            yield Traffic(kind, "all-reduce, all-gather", group, 2 * gradients + weights)
        else:
            yield Traffic(kind, "all-reduce", group, 2 * gradients)


def _both(count: Count) -> tuple[int, int]:
    return count.dense, count.experts


def _copies_of_words(resolved: ResolvedRun, vocabulary: int, each: Widths, stage: int) -> Iterator[Traffic]:
    """Gradients of an embedding that the last stage has a copy of, tied or for further predictions."""
    model, stages = resolved.config.model, resolved.config.model.pipeline_model_parallel_size
    copied = model.share_embeddings_and_output_weights or model.mtp_num_layers is not None
    if copied and stages > 1 and stage in (0, stages - 1) and resolved.config.peft is None:
        words = output(model, vocabulary, model.tensor_model_parallel_size)
        yield Traffic("copies of the embedding", "all-reduce", 2, 2 * _part(2) * words * each.gradient)
