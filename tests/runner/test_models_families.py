"""Logits of each family's architecture, shrunk, against transformers on the same weights."""

from typing import Any

import pytest
from tests.runner.family_reference import MODELS, further_differences, logits_differences

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

GATE = 1e-5
# Family and what is wrong with our model: each has to show.
CONTROLS: dict[str, tuple[str, dict[str, Any]]] = {
    "another clamp": ("gpt_oss", {"activation_func_clamp_value": 7.0}),
    "no offset": ("gpt_oss", {"glu_linear_offset": 0.0}),
    "a window everywhere": ("gpt_oss", {"window_attn_skip_freq": None}),
    "windows on the other blocks": ("gpt_oss", {"window_attn_skip_freq": [0, 1, 0, 1]}),
    "frequencies that are not stretched": ("gpt_oss", {"yarn_rotary_scaling_factor": 1.0}),
    "a range of whole channels": ("gpt_oss", {"yarn_correction_range_round_to_int": True}),
    "no bias in the choice": ("deepseek_v3", {"moe_router_enable_expert_bias": False}),
    "one group of experts": ("deepseek_v3", {"moe_router_num_groups": None, "moe_router_group_topk": None}),
    "weights that are not scaled": ("glm45", {"moe_router_topk_scaling_factor": None}),
    "logits that are not scaled": ("deepseek_v3", {"mscale_all_dim": 0.0}),
    "plain frequencies": ("deepseek_v3", {"rope_type": "rope"}),
    "all channels turned": ("glm45", {"rotary_percent": 1.0}),
    "softmax before the choice": ("qwen3_moe", {"moe_router_pre_softmax": True}),
}


@pytest.fixture(scope="module")
def differences() -> dict[str, tuple[float, float]]:
    """By case: the largest difference and the largest logit."""
    cases = {family: (family, {}) for family in MODELS} | CONTROLS
    return run_ranks(logits_differences, 1, cases)[0]


@pytest.mark.parametrize("family", MODELS)
def test_logits_equal_those_of_transformers(differences, family):
    difference, largest = differences[family]
    assert largest > 1  # logits near zero would agree by being small
    assert difference < GATE


@pytest.mark.parametrize("control", CONTROLS)
def test_the_gate_notices(differences, control):
    assert differences[control][0] > 100 * GATE


def test_what_predicts_a_further_token_is_that_of_transformers():
    found = run_ranks(further_differences, 1, ["deepseek_v3", "moonlight", "glm45"])[0]
    for difference, largest in found.values():
        assert largest > 1
        assert difference < GATE
