"""Which kind each block of a model is, and which of the pipeline's model chunks holds it."""

import re

from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.errors import ConfigError

Pattern = int | list[int]
"""A choice of blocks: every N-th, or 1 or 0 for each."""


def expert_blocks(model: ModelConfig) -> list[bool]:
    """For each block, whether its feed-forward part is a mixture of experts. Raises ConfigError for a list that is no
    such choice."""
    if model.num_moe_experts is None:
        return [False] * model.num_layers
    frequency = model.moe_layer_freq
    if isinstance(frequency, int):
        _at_least_one("moe_layer_freq", frequency)
        return [block % frequency == 0 for block in range(model.num_layers)]
    return _listed("moe_layer_freq", frequency, model.num_layers)


def windowed_blocks(model: ModelConfig) -> list[bool]:
    """For each block, whether its attention has the sliding window. Raises ConfigError as `expert_blocks` does."""
    if model.window_size is None:
        return [False] * model.num_layers
    frequency = model.window_attn_skip_freq
    if frequency is None:
        return [True] * model.num_layers
    if isinstance(frequency, int):
        _at_least_one("window_attn_skip_freq", frequency)
        return [block % frequency != 0 for block in range(1, model.num_layers + 1)]
    return _listed("window_attn_skip_freq", frequency, model.num_layers)


def _at_least_one(name: str, frequency: int) -> None:
    if frequency < 1:
        raise ConfigError(f"model.{name}={frequency}: it has to be at least 1")


def _listed(name: str, chosen: list[int], blocks: int) -> list[bool]:
    if len(chosen) != blocks or not set(chosen) <= {0, 1}:
        raise ConfigError(
            f"model.{name}: the list takes 0 or 1 for each of the {blocks} blocks, {len(chosen)} are given"
        )
    return [bool(one) for one in chosen]


def blocks_per_chunk(model: ModelConfig) -> list[int]:
    """Blocks of each model chunk, in the order in which tokens pass them: chunk c is on stage c % stages.

    Raises ConfigError where blocks cannot be shared out as the configuration says.
    """
    stages, virtual = model.pipeline_model_parallel_size, model.virtual_pipeline_model_parallel_size or 1
    if model.pipeline_model_parallel_layout is not None:
        return [chunk.count("t") for chunk in layout_chunks(model)]
    if model.account_for_embedding_in_pipeline_split or model.account_for_loss_in_pipeline_split:
        return _with_places_for_embedding_and_loss(model, stages * virtual)
    per_stage = _blocks_per_stage(model)
    if any(blocks % virtual for blocks in per_stage):
        shared = ", ".join(map(str, sorted(set(per_stage))))
        raise ConfigError(
            f"model.num_layers={model.num_layers}: the {shared} blocks of a pipeline stage are not a multiple of its "
            f"{virtual} model chunks (model.virtual_pipeline_model_parallel_size)"
        )
    return [blocks // virtual for _ in range(virtual) for blocks in per_stage]


def _with_places_for_embedding_and_loss(model: ModelConfig, chunks: int) -> list[int]:
    first, last = model.account_for_embedding_in_pipeline_split, model.account_for_loss_in_pipeline_split
    places = model.num_layers + first + last
    if places % chunks:
        raise ConfigError(
            f"model.num_layers={model.num_layers} and {first + last} more for embedding and loss "
            f"(model.account_for_..._in_pipeline_split) are not a multiple of {chunks} model chunks"
        )
    counts = [places // chunks] * chunks
    counts[0] -= first
    counts[-1] -= last
    return counts


def _blocks_per_stage(model: ModelConfig) -> list[int]:
    stages = model.pipeline_model_parallel_size
    first, last = model.num_layers_in_first_pipeline_stage, model.num_layers_in_last_pipeline_stage
    if stages == 1:
        return [model.num_layers]
    middle = stages - sum(one is not None for one in (first, last))
    rest = model.num_layers - (first or 0) - (last or 0)
    if rest < 0 or (rest % middle if middle else rest):
        if first is None and last is None:
            raise ConfigError(f"model.num_layers={model.num_layers} is not a multiple of {stages} pipeline stages")
        raise ConfigError(
            f"model.num_layers={model.num_layers}: with {first or 0} blocks in the first and {last or 0} in the last "
            f"pipeline stage, {rest} are left for {middle} of {stages} stages, which have as many each"
        )
    counts = [rest // middle if middle else 0] * stages
    if first is not None:
        counts[0] = first
    if last is not None:
        counts[-1] = last
    return counts


def layout_chunks(model: ModelConfig) -> list[str]:
    """`pipeline_model_parallel_layout` spelled out, one text of the letters E, t, m and L for each chunk.

    Raises ConfigError for a layout that does not hold the model's parts, each once and in their order.
    """
    layout = model.pipeline_model_parallel_layout or ""
    name = f"model.pipeline_model_parallel_layout={layout}"
    chunks = spelled_out(layout).split("|")
    whole = "".join(chunks)
    if unknown := set(whole) - set("EtmL"):
        raise ConfigError(
            f"{name}: {sorted(unknown)[0]!r} is none of E (embedding), t (block), m (prediction), L (loss)"
        )
    further = model.mtp_num_layers or 0
    wanted = "E" + "t" * model.num_layers + "m" * further + "L"
    if whole != wanted:
        raise ConfigError(
            f"{name}: it has {whole.count('t')} blocks t and {whole.count('m')} predictions m, the model has "
            f"{model.num_layers} and {further}; E comes first and L last, m just before L"
        )
    if any("m" in chunk for chunk in chunks[:-1]):
        raise ConfigError(f"{name}: multi-token prediction stands with the loss in the last chunk, mL")
    if len(chunks) % model.pipeline_model_parallel_size:
        raise ConfigError(
            f"{name}: {len(chunks)} chunks are not a multiple of "
            f"model.pipeline_model_parallel_size={model.pipeline_model_parallel_size}"
        )
    return chunks


def spelled_out(layout: str) -> str:
    """Repetitions written out as Megatron Core does: groups first, then single characters."""
    text = re.sub(r"[\s,]", "", layout)
    for repeated in (r"\(([^()]+)\)\*(\d{1,4})", r"(.)\*(\d{1,4})"):
        text = re.sub(repeated, lambda found: found[1] * int(found[2]), text)
    return text


def uneven_layout(blocks: int, chunks: int, further: int) -> str | None:
    """A layout of `blocks` that `chunks` do not divide: as many in each as come out when rounded up, the rest in the
    last, beside its `further` predictions and the loss. None where there are too few blocks for that."""
    each = -(-blocks // chunks)
    rest = blocks - each * (chunks - 1)
    if rest < 0:
        return None
    return "E" + f"t*{each}|" * (chunks - 1) + (f"t*{rest}" if rest > 1 else "t" * rest) + "m" * further + "L"
