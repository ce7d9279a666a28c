"""Fields that a benchmark brings and this version only records."""

from typing import Any

import pytest
from recipes_runs import LLAMA, refusal, run, says, value

from trainwright.recipes.benchmarks import benchmarks
from trainwright.recipes.carried import CARRIED, RECORDED, off
from trainwright.recipes.fields import leaves

BENCHMARK = "qwen3_30b_a3b_pretrain_8gpu_b300_fp8mx_config"
ON_GPUS: dict[str, Any] = {"recipe": BENCHMARK, "world_size": None, "device": "cuda"}


def test_a_run_on_gpus_says_in_one_line_what_it_leaves_out() -> None:
    (warning,) = run(**ON_GPUS).warnings
    says(
        warning,
        "not acted on by this version",
        "model.cuda_graph_impl=full_iteration",
        "model.moe_paged_stash=true",
        "comm_overlap.overlap_moe_expert_parallel_comm=true",
    )
    # Details of a switch that is named already are not.
    assert "cuda_graph_warmup_steps" not in warning


def test_on_the_cpu_all_of_them_are_off() -> None:
    for recipe in benchmarks()[::7]:
        resolved = run(recipe=recipe.name, world_size=None)
        left = {path: value(resolved.config, path) for path in RECORDED if path in resolved.sources}
        assert left == {path: off(path) for path in left}, recipe.name
        assert not [line for line in resolved.warnings if "not acted on" in line]


@pytest.mark.parametrize(
    "word",
    [
        "model.cuda_graph_impl=local",
        "model.cpu_offloading=true",
        "model.moe_expert_rank_capacity_factor=2.0",
        "comm_overlap.tp_comm_overlap=true",
        "comm_overlap.delay_wgrad_compute=true",
        "optimizer.overlap_param_gather_with_optimizer_step=true",
        "mixed_precision.fp4_param_gather=true",
        "rng.te_rng_tracker=true",
        "ddp.nccl_ub=true",
        "ddp.use_megatron_fsdp=true",
        "ddp.suggested_communication_unit_size=1000",
    ],
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_nobody_can_type_another_value(word: str, device: Any) -> None:
    says(refusal(word, recipe=LLAMA, world_size=1, device=device), word.partition("=")[0], "not available yet")


def test_the_recipes_own_value_and_the_one_that_is_off_can_be_typed() -> None:
    kept, off_again = "model.cuda_graph_impl=full_iteration", "model.cuda_graph_impl=none"
    assert "model.cuda_graph_impl" in run(kept, **ON_GPUS).warnings[0]
    assert "model.cuda_graph_impl" not in run(off_again, **ON_GPUS).warnings[0]
    says(refusal(kept, recipe=BENCHMARK, world_size=None), kept, "not available yet")


def test_every_one_of_them_is_some_benchmarks() -> None:
    """A field that no recipe brings is no field to carry."""
    brought = {path for recipe in benchmarks() for path in _brought(recipe.build())}
    of_a_switch = {"comm_overlap.tp_comm_bootstrap_backend", "model.cpu_offloading_weights"}
    assert set(RECORDED) - brought <= of_a_switch
    assert set(CARRIED) <= brought


def _brought(config: Any) -> list[str]:
    held = dict(leaves(config.model_dump()))
    return [path for path in RECORDED if held.get(path) not in (None, off(path))]
