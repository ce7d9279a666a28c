"""Every benchmark is planned, with ranks of its stages built at their full size; further topologies are measured."""

from itertools import batched

import pytest
from tests.runner.held_memory import KINDS, case, held

from trainwright.recipes import Selection, resolve
from trainwright.recipes.benchmarks import benchmarks
from trainwright.recipes.sizes import vocabulary_of
from trainwright.runner.testing import run_ranks

pytestmark = [pytest.mark.slow, pytest.mark.distributed]

AT_ONCE = 20
NAMES = [recipe.name for recipe in benchmarks() if recipe.known_invalid is None]


def planned(names: list[str]) -> dict[str, int]:
    """Bytes of the fullest rank of each; a rank that is not built as planned raises."""
    from trainwright.runner.plan import plan

    found = {}
    for name in names:
        resolved = resolve(Selection(recipe=name), [], world_size=None, device="cuda")
        found[name] = plan(resolved, vocabulary_of(resolved)).fullest.total
    return found


@pytest.mark.parametrize("names", list(batched(NAMES, AT_ONCE)), ids=lambda names: names[0])
def test_ranks_of_every_benchmark_are_built_as_planned(names):
    (found,) = run_ranks(planned, 1, list(names), timeout=1800)
    assert set(found) == set(names)
    assert all(found.values())


LLAMA, DEEPSEEK = "llama32_1b_pretrain_config", "deepseek_v3_pretrain_config"
PAIRS = {
    "tensor parallel": case(LLAMA, tensor_model_parallel_size=2),
    "pipeline parallel": case(LLAMA, pipeline_model_parallel_size=2),
    "context parallel": case(LLAMA, context_parallel_size=2),
    "latents, experts apart": case(DEEPSEEK, expert_model_parallel_size=2),
    "further predictions on the last stage": case(DEEPSEEK, pipeline_model_parallel_size=2, mtp_num_layers=2),
    "split adapters": case(
        "llama3_70b_peft_8gpu_h100_bf16_config",
        tensor_model_parallel_size=2,
        sequence_parallel="true",
        peft__target_modules="[linear_qkv,linear_proj,linear_fc1,linear_fc2]",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_planned_bytes_are_those_that_two_ranks_hold(name):
    """As tests/runner/test_plan_held.py has it, within a tenth."""
    for there, planned in run_ranks(held, 2, *PAIRS[name], 2, timeout=600):
        for kind in KINDS:
            assert planned[kind] == pytest.approx(there[kind], rel=0.1), kind
