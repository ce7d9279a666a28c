"""A resolved recipe as a page for people: a heading and a text for each thing that a reader compares."""

from collections.abc import Iterator

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.families import family_of
from trainwright.recipes.hardware import GPUS, Gpu
from trainwright.recipes.library import Recipe
from trainwright.recipes.memory import Memory, stage_memory
from trainwright.recipes.pipeline import ResolvedRun
from trainwright.recipes.selection import find
from trainwright.recipes.sizes import estimate, vocabulary_of

GIBIBYTE = 2**30
OFFLOADING = ("cpu_offloading", "fine_grained_activation_offloading")


def page(resolved: ResolvedRun) -> Iterator[tuple[str, str]]:
    """Headings and texts; of a heading that comes several times in a row, each text is a line of its own.

    Memory is an estimate for the GPU that the recipe names, and for its fullest pipeline stage.
    """
    recipe, config = _recipe(resolved), resolved.config
    yield from _what(resolved, recipe)
    yield from _model(config.model)
    yield "topology", topology(resolved)
    yield from _batch(resolved)
    yield from _sizes(resolved, GPUS.get(recipe.hardware) if resolved.device == "cuda" else None)
    yield from _numerics(config)
    yield "data", f"{config.dataset.kind}, split {config.dataset.split or 'of the data'}"
    yield from (("environment", f"{name}={value}") for name, value in sorted(config.env_vars.items()))
    yield from (("warning", warning) for warning in resolved.warnings)


def _recipe(resolved: ResolvedRun) -> Recipe:
    recipe = find(resolved.recipe)
    if recipe is None:
        raise ConfigError(f"{resolved.recipe}: no such recipe")
    return recipe


def _what(resolved: ResolvedRun, recipe: Recipe) -> Iterator[tuple[str, str]]:
    kind = "benchmark" if recipe.benchmark else "library"
    variant = f", {recipe.variant}" if recipe.variant else ""
    also = f", also {recipe.name}" if recipe.alias and find(recipe.name) is recipe else ""
    yield "recipe", recipe.shown + also
    yield "kind", f"{kind}, {family_of(recipe.name)}, {resolved.mode}, {resolved.step_func}"
    yield "written for", f"{recipe.world_size} x {recipe.hardware}, {recipe.precision}{variant}"
    if not resolved.canonical:
        yield from (("different", line) for line in resolved.canonical_differences)


def _model(model: ModelConfig) -> Iterator[tuple[str, str]]:
    heads = f"{model.num_attention_heads} heads"
    if model.multi_latent_attention:
        heads += f" with latents of {model.kv_lora_rank}"
    else:
        heads += f" of {model.kv_channels} in {model.num_query_groups} groups"
    yield (
        "model",
        f"{model.num_layers} blocks of {model.hidden_size}, {heads}, feed-forward {model.ffn_hidden_size}",
    )
    if model.num_moe_experts is not None:
        shared = model.moe_shared_expert_intermediate_size
        dispatcher = model.moe_token_dispatcher_type
        yield (
            "experts",
            f"{model.num_moe_experts} of {model.moe_ffn_hidden_size}, {model.moe_router_topk} for each token"
            + (f", shared {shared}" if shared else "")
            + f"; dispatcher {dispatcher}"
            + (f" ({model.moe_flex_dispatcher_backend})" if dispatcher == "flex" else ""),
        )
    if model.mtp_num_layers:
        yield "predictions", f"{model.mtp_num_layers} further token{'s'[: model.mtp_num_layers > 1]} (MTP)"


def topology(resolved: ResolvedRun) -> str:
    """How the ranks are shared out, in one line."""
    model = resolved.config.model
    parts = [
        f"TP {model.tensor_model_parallel_size}" + " with sequence parallelism" * model.sequence_parallel,
        f"PP {model.pipeline_model_parallel_size}"
        + (
            f" x {model.virtual_pipeline_model_parallel_size} chunks" * bool(model.virtual_pipeline_model_parallel_size)
        ),
        f"CP {model.context_parallel_size}",
        f"DP {resolved.data_parallel_size}",
    ]
    if model.num_moe_experts is not None:
        parts += [f"EP {model.expert_model_parallel_size}", f"ETP {model.expert_tensor_parallel_size}"]
    layout = model.pipeline_model_parallel_layout
    return f"{resolved.world_size} ranks: {', '.join(parts)}" + (f"; layout {layout}" if layout else "")


def _batch(resolved: ResolvedRun) -> Iterator[tuple[str, str]]:
    train, length = resolved.config.train, resolved.config.dataset.seq_length
    yield (
        "batch",
        f"{train.global_batch_size:,} sequences of {length:,} tokens per step: {resolved.num_microbatches:,} "
        f"micro-batches of {train.micro_batch_size} on each data parallel rank",
    )
    yield "duration", f"{train.train_iters:,} steps"


def _sizes(resolved: ResolvedRun, gpu: Gpu | None) -> Iterator[tuple[str, str]]:
    config = resolved.config
    try:
        size, vocabulary = estimate(resolved), vocabulary_of(resolved)
    except ConfigError as error:
        yield "parameters", str(error)
        return
    active = f", {size.active_parameters:,} of them for each token" if config.model.num_moe_experts else ""
    source = f" (the vocabulary of {vocabulary:,} is the published one)" if config.model.vocab_size is None else ""
    yield "parameters", f"{size.parameters:,}{active}{source}"
    yield "trainable", size.trainable
    yield "tokens", f"{size.tokens_per_update:,} per step, {size.tokens:,} in all"
    ranks = resolved.world_size
    yield (
        "operations",
        f"{size.operations_per_update:.4g} model FLOPs per step, {size.operations_per_update / ranks:.4g} per rank",
    )
    stages = stage_memory(resolved, vocabulary, two_layouts=gpu is not None and gpu.two_layouts)
    extra = config.model.model_extra or {}
    offloads = any(extra.get(name) for name in OFFLOADING)
    held = "; what it would offload is counted as held" if offloads else ""
    yield "memory", _memory(max(stages, key=lambda one: one.total), len(stages), gpu) + held


def _memory(fullest: Memory, stages: int, gpu: Gpu | None) -> str:
    where = f"stage {fullest.stage} of {stages}" if stages > 1 else "each rank"
    parts = ("weights", "gradients", "optimizer", "activations")
    shares = ", ".join(f"{name} {_gibibytes(getattr(fullest, name))}" for name in parts)
    room = f" of the {_gibibytes(gpu.memory)} of {gpu.name}" if gpu is not None else ""
    over = "; more than there is" if gpu is not None and fullest.total > gpu.memory else ""
    return f"{_gibibytes(fullest.total)}{room} on {where}, estimated: {shares}{over}"


def _gibibytes(size: int) -> str:
    return f"{size / GIBIBYTE:,.2f} GiB"


def _numerics(config: ConfigContainer) -> Iterator[tuple[str, str]]:
    mixed, model, optimizer = config.mixed_precision, config.model, config.optimizer
    formats = [name for name in ("bf16", "fp16") if getattr(mixed, name)] or ["fp32"]
    if mixed.fp8:
        formats.append(f"fp8 {mixed.fp8} ({mixed.fp8_recipe})")
    if mixed.fp4:
        formats.append(f"fp4 {mixed.fp4} ({mixed.fp4_recipe})")
    gradients = "fp32" if config.ddp.grad_reduce_in_fp32 else formats[0]
    yield "precision", f"{', '.join(formats)}; gradients reduced in {gradients}"
    split = ", split between data parallel ranks" if optimizer.use_distributed_optimizer else ""
    yield "optimizer", f"{optimizer.optimizer}, lr {optimizer.lr:g} to {optimizer.min_lr:g}{split}"
    if config.peft is not None:
        targets = ", ".join(config.peft.target_modules)
        yield "adapters", f"{config.peft.scheme} of rank {config.peft.dim}, alpha {config.peft.alpha:g}: {targets}"
    extra = model.model_extra or {}
    yield "recompute", _recompute(model, extra.get("recompute_modules"))
    graphs = extra.get("cuda_graph_impl") or "none"
    if graphs != "none":
        yield "CUDA graphs", f"{graphs}: {', '.join(map(str, extra.get('cuda_graph_scope') or ['all']))}"
    yield "overlap", ", ".join(_overlaps(config)) or "none"


def _recompute(model: ModelConfig, modules: list[str] | None) -> str:
    if model.recompute_granularity is None:
        return "nothing"
    if model.recompute_granularity == "selective":
        return f"selective: {', '.join(modules or ['core_attn'])}"
    return f"full, {model.recompute_method}, {model.recompute_num_layers} blocks"


def _overlaps(config: ConfigContainer) -> Iterator[str]:
    """Names of what hides behind computation."""
    for section in (config.ddp, config.comm_overlap):
        for name, value in section or ():
            if value is True and ("overlap" in name or "delay" in name or "defer" in name):
                yield name
