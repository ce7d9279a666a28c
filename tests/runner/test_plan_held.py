"""What is planned for a rank is what a rank on a CPU holds: shrunk models of each kind, several topologies.

The estimate has to be within a tenth. It leaves statistics out, and takes experts to get equally many tokens.
"""

import pytest
from tests.runner.held_memory import KINDS, case, held, held_of

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

WITHIN = 0.1
LLAMA, QWEN, DEEPSEEK = "llama32_1b_pretrain_config", "qwen3_30b_a3b_pretrain_config", "deepseek_v3_pretrain_config"
LORA = "llama3_70b_peft_8gpu_h100_bf16_config"

CASES = {
    1: {
        "dense": case(LLAMA),
        "experts": case(QWEN),
        "latents, shared experts, a further prediction": case(DEEPSEEK),
        "sinks and windows": case("gpt_oss_20b_pretrain_config"),
        "blocks recomputed": case(
            LLAMA, recompute_granularity="full", recompute_method="uniform", recompute_num_layers=2
        ),
        "experts recomputed": case(QWEN, recompute_granularity="selective", recompute_modules="[moe]"),
        "adapters": case(LORA),
    },
    2: {
        "an interleaved pipeline": case(LLAMA, pipeline_model_parallel_size=2, virtual_pipeline_model_parallel_size=2),
        "split latents, sequence parallel": case(DEEPSEEK, tensor_model_parallel_size=2, sequence_parallel="true"),
        "experts apart, optimizer split": case(
            QWEN, expert_model_parallel_size=2, optimizer__use_distributed_optimizer="true"
        ),
    },
}


@pytest.fixture(scope="module")
def found():
    """By case, for each rank: bytes that are there, and bytes that are planned."""
    (alone,) = run_ranks(held_of, 1, CASES[1])
    # Two ranks meet at one port, and only once.
    together = {name: run_ranks(held, 2, *one, 2) for name, one in CASES[2].items()}
    return {name: [one] for name, one in alone.items()} | together


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for cases in CASES.values() for name in cases])
def test_planned_bytes_are_those_that_a_rank_holds(found, name, kind):
    for there, planned in found[name]:
        assert planned[kind] == pytest.approx(there[kind], rel=WITHIN)


@pytest.mark.parametrize("name", [name for cases in CASES.values() for name in cases])
def test_all_together_are_closer(found, name):
    """Within a twentieth, so that no kind hides behind another."""
    for there, planned in found[name]:
        assert sum(planned.values()) == pytest.approx(sum(there.values()), rel=WITHIN / 2)


def test_recomputation_is_seen_on_both_sides(found):
    """A control: had the plan of a run that recomputes nothing been compared with one that does, it would not pass."""
    (_, kept), (there, planned) = found["dense"][0], found["blocks recomputed"][0]
    assert kept["activations"] > 1.5 * there["activations"]
    assert kept["activations"] > 1.5 * planned["activations"]
