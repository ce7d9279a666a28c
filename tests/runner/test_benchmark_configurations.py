"""What Megatron Core is told of a benchmark on GPUs; nothing here runs on one."""

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from trainwright.recipes import ConfigContainer, Selection, catalogue, resolve
from trainwright.recipes.benchmarks import benchmarks
from trainwright.recipes.carried import RECORDED
from trainwright.runner import preflight
from trainwright.runner.errors import RunRefused

RUNNABLE = [recipe for recipe in benchmarks() if not recipe.known_invalid]
MXFP8 = "llama3_8b_pretrain_8gpu_b200_fp8mx_config"


def on_gpus(name: str, *words: str) -> ConfigContainer:
    return resolve(Selection(recipe=name), words, world_size=None, device="cuda").config


@pytest.fixture
def transformer_config(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The runner's function, in a process that believes Transformer Engine is there. It is in no test environment."""
    warnings.simplefilter("ignore")
    ours = importlib.import_module("trainwright.runner.models.transformer_config")
    monkeypatch.setattr(ours, "uses_transformer_engine", lambda: True)
    core = "megatron.core"
    monkeypatch.setattr(f"{core}.transformer.transformer_config.is_te_min_version", lambda *_, **__: True)
    monkeypatch.setattr(f"{core}.models.common.embeddings.rope_utils.fused_apply_rotary_pos_emb", print)
    for name in ("permute", "permute_with_probs", "unpermute"):
        monkeypatch.setattr(f"{core}.transformer.moe.moe_utils.fused_{name}", print)
    for name in ("sort_chunks_by_index", "sort_chunks_by_index_with_probs"):
        monkeypatch.setattr(f"{core}.transformer.moe.moe_utils.fused_{name}", print)
    return ours.transformer_config


def test_megatron_core_accepts_every_benchmark(transformer_config: Any) -> None:
    """Its own checks of a model's fields against each other; and nothing that is only recorded is among them."""
    recorded = [path.removeprefix("model.") for path in RECORDED if path.startswith("model.")]
    # Megatron Core fills these in where nobody asks for a graph.
    recorded = [name for name in recorded if name not in ("cuda_graph_modules", "cuda_graph_scope")]
    silent = {name: catalogue.default(name) for name in recorded}
    for recipe in RUNNABLE:
        built = transformer_config(on_gpus(recipe.name))
        assert {name: getattr(built, name) for name in recorded} == silent, recipe.name


def test_weights_are_not_gathered_while_others_are_updated() -> None:
    """What that needs of a model's chunks is not here: the recipe's word is recorded only."""
    from trainwright.runner.optim.optimizer import optimizer_config

    config = on_gpus("llama31_405b_pretrain_128gpu_b200_fp8cs_config")
    assert config.optimizer.overlap_param_gather_with_optimizer_step
    assert not optimizer_config(config).overlap_param_gather_with_optimizer_step


@pytest.mark.parametrize("precision", ["fp8cs", "fp8ds", "fp8sc", "fp8mx", "nvfp4"])
def test_low_precision_reaches_megatron_core(transformer_config: Any, precision: str) -> None:
    """Products in 8 or 4 bits; weights stay in 16, as gathering others is recorded only."""
    recipe = next(recipe for recipe in RUNNABLE if recipe.precision == precision)
    config = on_gpus(recipe.name)
    built, section = transformer_config(config), config.mixed_precision
    names = ["fp4", "fp4_recipe"] if precision == "nvfp4" else [name for name in dict(section) if name in _OF_FP8]
    assert {name: getattr(built, name) for name in names} == {name: getattr(section, name) for name in names}
    assert (built.fp8_param, built.fp4_param) == (False, False)


_OF_FP8 = ("fp8", "fp8_recipe", "fp8_margin", "fp8_amax_history_len", "fp8_amax_compute_algo", "fp8_wgrad")


def test_ends_in_16_bits_are_counted_in_layers_of_the_hybrid_model(transformer_config: Any) -> None:
    """A block is two of them, attention and feed-forward."""
    words = ("mixed_precision.first_last_layers_bf16=true", "mixed_precision.num_layers_at_end_in_bf16=3")
    built = transformer_config(on_gpus(MXFP8, *words))
    assert (built.first_last_layers_bf16, built.num_layers_at_end_in_bf16) == (True, 6)


def test_low_precision_without_transformer_engine_is_refused() -> None:
    from trainwright.runner.models.transformer_config import transformer_config

    with pytest.raises(RunRefused, match=r"mixed_precision\.fp8=e4m3 needs Transformer Engine, which is not installed"):
        transformer_config(on_gpus(MXFP8))


def test_a_benchmark_with_megatron_fsdp_is_refused_before_ranks_meet(tmp_path: Path) -> None:
    sharded = [recipe for recipe in RUNNABLE if on_gpus(recipe.name).ddp.use_megatron_fsdp]
    assert len(sharded) == 20
    with pytest.raises(RunRefused, match=r"ddp\.use_megatron_fsdp=true is recorded but not available yet"):
        preflight.check(on_gpus(sharded[0].name), tmp_path / "run")
    assert not (tmp_path / "run").exists()
