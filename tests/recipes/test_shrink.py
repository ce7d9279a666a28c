"""A run made small for a rehearsal: valid, small, and with the code paths of the whole one."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from trainwright.recipes import ConfigContainer, ConfigError, ResolvedRun, Selection, resolve
from trainwright.recipes.blocks import blocks_per_chunk, expert_blocks, windowed_blocks
from trainwright.recipes.selection import all_recipes
from trainwright.recipes.shrink import Rehearsal, shrink
from trainwright.recipes.shrink.grid import Grid, enough_for_all, grid_of, reduced

NAMES = list(dict.fromkeys(recipe.shown for recipe in all_recipes()))


def resolved(name: str, *words: str, device: str = "cuda", **flags: str) -> ResolvedRun:
    return resolve(Selection(recipe=name), words, world_size=None, device=device, flags=flags)  # type: ignore[arg-type]


def shrunk(name: str, *words: str, ranks: int = 2) -> Rehearsal:
    full = resolved(name, *words)
    return shrink(full, min(ranks, full.world_size), "folder")


def two_kinds(chosen: list[bool]) -> bool:
    return any(chosen) and not all(chosen)


def heads_for_each_key(config: ConfigContainer) -> float:
    return config.model.num_attention_heads / (config.model.num_query_groups or 1)


def recomputed(config: ConfigContainer) -> str | None:
    """How much, unless it is only modules that do not exist without a GPU."""
    modules = set(getattr(config.model, "recompute_modules", None) or ["core_attn"])
    return config.model.recompute_granularity if modules - {"layernorm", "moe_act"} else None


def require_small(run: ResolvedRun) -> None:
    """A run of seconds: a few blocks of small matrices, a few short sequences."""
    model, config = run.config.model, run.config
    assert model.num_layers <= 9
    assert model.hidden_size == 64
    assert (model.num_moe_experts or 0) <= 8
    assert model.num_attention_heads * (model.kv_channels or 0) <= 1024
    assert config.dataset.seq_length <= 64
    assert config.train.global_batch_size <= 8
    assert config.train.train_iters == 5


# What decides which code runs, whatever the sizes: as of the whole run, so of the shrunk one.
FEATURES: dict[str, Callable[[ConfigContainer], Any]] = {
    "experts": lambda c: c.model.num_moe_experts is not None,
    "dense blocks beside experts": lambda c: two_kinds(expert_blocks(c.model)),
    "first block dense": lambda c: expert_blocks(c.model)[0],
    "shared experts": lambda c: c.model.moe_shared_expert_intermediate_size is not None,
    "several experts of a token": lambda c: c.model.moe_router_topk > 1,
    "groups of experts": lambda c: (c.model.moe_router_num_groups or 0) > (c.model.moe_router_group_topk or 0),
    "score": lambda c: c.model.moe_router_score_function,
    "balance": lambda c: (c.model.moe_router_load_balancing_type, c.model.moe_router_enable_expert_bias),
    "latent attention": lambda c: (c.model.multi_latent_attention, c.model.q_lora_rank is not None),
    "query heads of a key": heads_for_each_key,
    "norm of queries and keys": lambda c: c.model.qk_layernorm,
    "windows": lambda c: any(windowed_blocks(c.model)),
    "blocks with and without window": lambda c: two_kinds(windowed_blocks(c.model)),
    "a window that hides something": lambda c: (
        c.model.window_size is not None and c.model.window_size[0] < c.dataset.seq_length - 1
    ),
    "sinks": lambda c: c.model.softmax_type,
    "positions": lambda c: (c.model.position_embedding_type, c.model.rope_scaling, c.model.rope_type),
    "feed-forward": lambda c: (c.model.activation_func, c.model.gated_linear_unit, c.model.glu_linear_offset),
    "biases": lambda c: (c.model.add_bias_linear, c.model.add_qkv_bias),
    "norm": lambda c: c.model.normalization,
    "tied embeddings": lambda c: c.model.share_embeddings_and_output_weights,
    "further predictions": lambda c: c.model.mtp_num_layers is not None,
    "recomputation": lambda c: (recomputed(c), c.model.recompute_method),
    "optimizer": lambda c: (c.optimizer.optimizer.removeprefix("dist_"), c.optimizer.use_distributed_optimizer),
    "overlapped gradients": lambda c: (c.ddp.overlap_grad_reduce, c.ddp.overlap_param_gather),
    "clipping": lambda c: c.optimizer.clip_grad,
    "schedule": lambda c: (c.scheduler.lr_decay_style, c.scheduler.lr_warmup_iters > 0),
    "validation": lambda c: c.validation.eval_interval is not None and c.validation.eval_iters > 0,
    "packing": lambda c: (c.dataset.enable_offline_packing, c.dataset.enable_in_batch_packing),
    "loss of each token": lambda c: getattr(c.model, "calculate_per_token_loss", False),
    "adapters": lambda c: c.peft and (c.peft.scheme, c.peft.target_modules, c.peft.alpha / c.peft.dim),
}


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small_and_keeps_what_decides_which_code_runs(name: str) -> None:
    """Every recipe on two ranks; that the shrunk configuration is valid, `shrink` itself has checked."""
    rehearsal = shrunk(name)
    require_small(rehearsal.run)
    full, small = rehearsal.full, rehearsal.run
    lost = {
        feature: (of(full.config), of(small.config))
        for feature, of in FEATURES.items()
        if of(full.config) != of(small.config)
    }
    assert lost == {}
    assert (small.num_microbatches > 1) == (full.num_microbatches > 1)
    kept = grid_of(small)
    assert kept.ranks == small.world_size
    assert kept.kept() <= grid_of(full).kept()
    if kept.tensor > 1:
        assert small.config.model.sequence_parallel == full.config.model.sequence_parallel
    if kept.pipeline > 1:
        layout = "pipeline_model_parallel_layout"
        assert (getattr(small.config.model, layout) is None) == (getattr(full.config.model, layout) is None)
        whole, few = (blocks_per_chunk(run.config.model) for run in (full, small))
        assert len(few) == 2 or (len(set(few)) > 1) == (len(set(whole)) > 1)


@pytest.mark.parametrize(
    ("full", "ranks", "small"),
    [
        # Several dimensions on the same ranks are worth more than one.
        (Grid(pipeline=16, tensor=2, experts=64, data=32), 2, Grid(tensor=2, experts=2)),
        (Grid(pipeline=4, chunks=5, tensor=4, context=2), 2, Grid(pipeline=2, chunks=2)),
        # Of equals the first: pipeline before tensor before context before data.
        (Grid(pipeline=4, tensor=4, context=2, data=8), 2, Grid(pipeline=2)),
        (Grid(tensor=4, context=2, data=8), 2, Grid(tensor=2)),
        (Grid(context=2, data=8), 2, Grid(context=2)),
        (Grid(data=8), 2, Grid(data=2)),
        (Grid(experts=8, data=8), 2, Grid(experts=2, data=2)),
        (Grid(pipeline=4, chunks=2, tensor=4, experts=8, data=8), 4, Grid(2, 2, 2, 2)),
        (Grid(pipeline=16, tensor=8, data=8), 8, Grid(pipeline=2, tensor=2, data=2)),
        (Grid(pipeline=4, tensor=4), 1, Grid()),
        (Grid(pipeline=4, tensor=4), 3, Grid(pipeline=3)),
    ],
)
def test_few_ranks_keep_as_many_dimensions_as_they_can(full: Grid, ranks: int, small: Grid) -> None:
    assert reduced(full, ranks) == small


def test_the_ranks_that_keep_every_dimension_are_named() -> None:
    assert enough_for_all(Grid(pipeline=16, tensor=2, experts=64, data=32)) == 8
    assert enough_for_all(Grid(experts=8, data=8)) == 2
    told = shrunk("deepseek_v3_pretrain_1024gpu_h100_bf16_config").shrunk["more ranks"]
    assert told == "--ranks 8 would keep every dimension of the grid"


@pytest.mark.parametrize(("ranks", "message"), [(7, "1, 2, 4, 8"), (16, "the run itself has 8")])
def test_a_number_of_ranks_that_no_part_of_the_grid_fills_is_refused(ranks: int, message: str) -> None:
    full = resolve(
        Selection(recipe="vanilla_gpt_pretrain_config"),
        ["model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2", "model.context_parallel_size=2"],
        world_size=8,
        device="cpu",
    )
    with pytest.raises(ConfigError, match=message):
        shrink(full, ranks, "folder")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8, 16])
def test_more_ranks_make_valid_runs_too(ranks: int) -> None:
    """Odd numbers included: heads, experts, vocabulary and sequences follow."""
    full = resolved("deepseek_v3_pretrain_1024gpu_h100_bf16_config")
    run = shrink(full, ranks, "folder").run
    assert math.prod(grid_of(run).__dict__[name] for name in ("pipeline", "tensor", "context", "data")) == ranks


def test_what_the_user_typed_and_what_is_no_size_stays() -> None:
    words = ("model.qk_clip=true", "optimizer.optimizer=sgd", "model.rotary_base=1234", "rng.seed=7")
    config = shrunk("llama3_8b_pretrain_config", *words).run.config
    assert config.model.qk_clip is True  # type: ignore[attr-defined]
    assert (config.optimizer.optimizer, config.model.rotary_base, config.rng.seed) == ("sgd", 1234, 7)


def test_sizes_that_the_user_typed_shrink_too() -> None:
    """It is the user's own run that is rehearsed."""
    rehearsal = shrunk("llama3_70b_pretrain_config", "model.num_layers=120", "dataset.seq_length=131072")
    assert rehearsal.shrunk["blocks"].startswith("120 -> 4")
    assert rehearsal.shrunk["sequence"] == "tokens 131072 -> 64"


def test_what_the_user_typed_for_a_gpu_is_named_as_not_checked() -> None:
    rehearsal = shrunk("llama3_8b_pretrain_config", "model.attention_backend=auto", "dataset.num_workers=3")
    assert "your dataset.num_workers=3" in rehearsal.unchecked


@pytest.mark.parametrize("word", ["checkpoint.load=/weights", "checkpoint.pretrained_checkpoint=/weights"])
def test_weights_to_start_from_are_refused_by_name(word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        shrunk("llama3_8b_pretrain_config", word)


def test_nothing_is_written_where_the_run_would_write() -> None:
    paths = {
        "checkpoint.save": "/real/checkpoints",
        "logger.tensorboard_dir": "/real/tb",
        "logger.save_config_filepath": "/real/config.yaml",
        "dataset.path_to_cache": "/real/cache",
    }
    words = [f"{path}={place}" for path, place in paths.items()]
    data = ("dataset.kind=megatron-indexed", "dataset.data_path=/data/a")
    rehearsal = shrunk("llama3_8b_pretrain_config", *words, *data)
    assert "/real" not in rehearsal.run.config.model_dump_json()
    assert any("/real/checkpoints" in text for text in rehearsal.unchecked)


def test_the_users_own_data_is_read_with_its_tokenizer_and_vocabulary() -> None:
    words = ("dataset.kind=megatron-indexed", "dataset.data_path=/data/a", "tokenizer.vocab_size=50000")
    config = shrunk("llama3_8b_pretrain_config", *words).run.config
    assert (config.dataset.data_path, config.tokenizer.vocab_size, config.model.vocab_size) == ("/data/a", 50000, 50000)


def test_a_dataset_that_would_be_downloaded_is_replaced_by_generated_rows() -> None:
    rehearsal = shrunk("llama32_1b_sft_config")
    config = rehearsal.run.config
    assert (config.dataset.kind, config.dataset.dataset_root) == ("local-jsonl", rehearsal.rows)
    assert config.tokenizer.tokenizer_type == "ByteLevelTokenizer"
    assert "the dataset squad, its columns and template (rows are generated)" in rehearsal.unchecked


def test_the_users_own_rows_stay() -> None:
    full = resolve(
        Selection(recipe="vanilla_gpt_sft_config", dataset="local-jsonl"),
        ["dataset.dataset_root=/data/rows"],
        world_size=None,
        device="cuda",
    )
    rehearsal = shrink(full, 1, "folder")
    assert rehearsal.rows is None
    assert rehearsal.run.config.dataset.dataset_root == "/data/rows"
    assert rehearsal.run.config.dataset.preprocessing.unsupervised_rows == "skip"
