"""`SdpaAttention` against Megatron Core's own `DotProductAttention`, forward and backward."""

import pytest
import torch
from tests.runner.small_models import LLAMA, configuration, start_groups

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

CASES = {
    "one group a head": {"num_query_groups": 8},
    "grouped queries": {"num_query_groups": 2},
    "a single group": {"num_query_groups": 1},
    "sliding window": {"window_size": [5, 0]},
    "window of the whole sequence": {"window_size": [63, 0]},
    "another scale": {"softmax_scale": 0.7},
    "wide heads": {"kv_channels": 16},
    "learnt sinks": {"softmax_type": "learnable", "num_query_groups": 2},
    "learnt sinks in a window": {"softmax_type": "learnable", "window_size": [5, 0]},
    "a sink of zero": {"softmax_type": "off-by-one"},
}


def differences() -> dict[str, tuple[float, float, float]]:
    """By case: largest absolute difference of outputs and of gradients, and the largest output."""
    return {name: _difference(changes) for name, changes in CASES.items()}


def _difference(changes: dict[str, object]) -> tuple[float, float, float]:
    from megatron.core import parallel_state
    from megatron.core.transformer.dot_product_attention import DotProductAttention
    from megatron.core.transformer.enums import AttnMaskType

    from trainwright.runner.models.attention import SdpaAttention
    from trainwright.runner.models.transformer_config import transformer_config

    config = configuration(LLAMA | {"attention_dropout": 0.0} | changes)
    start_groups(config)
    megatron_config = transformer_config(config)
    length, batch = config.dataset.seq_length, 2
    mask = torch.ones(length, length, dtype=torch.bool).triu(1)[None, None]
    results = []
    for module in (SdpaAttention, DotProductAttention):
        torch.manual_seed(0)
        channels = megatron_config.kv_channels
        inputs = [
            torch.randn(length, batch, heads, channels, requires_grad=True)
            for heads in (megatron_config.num_attention_heads, *[megatron_config.num_query_groups] * 2)
        ]
        attention = module(
            config=megatron_config,
            layer_number=1,
            attn_mask_type=AttnMaskType.causal,
            attention_type="self",
            softmax_scale=megatron_config.softmax_scale,
        )
        learnt = list(attention.parameters())
        for sinks in learnt:
            torch.nn.init.normal_(sinks, std=2.0, generator=torch.Generator().manual_seed(1))
        output = attention(*inputs, mask)
        torch.manual_seed(1)
        output.backward(torch.randn_like(output))
        results.append((output.detach(), torch.cat([x.grad.flatten() for x in (*inputs, *learnt)])))
    parallel_state.destroy_model_parallel()
    (ours, our_gradients), (theirs, their_gradients) = results
    return (
        (ours - theirs).abs().max().item(),
        (our_gradients - their_gradients).abs().max().item(),
        theirs.abs().max().item(),
    )


@pytest.fixture(scope="module")
def found() -> dict[str, tuple[float, float, float]]:
    return run_ranks(differences, 1)[0]


@pytest.mark.parametrize("case", CASES)
def test_equals_megatron_attention(found, case):
    output, gradients, largest = found[case]
    assert largest > 1
    assert output < 5e-6
    assert gradients < 2e-5


def refusals() -> list[str]:
    """Messages for what this attention does not do."""
    from megatron.core.transformer.enums import AttnMaskType

    from trainwright.runner.models.attention import SdpaAttention
    from trainwright.runner.models.transformer_config import transformer_config

    config = configuration(LLAMA)
    start_groups(config)
    megatron_config = transformer_config(config)
    messages = []
    with pytest.raises(ValueError) as caught:
        SdpaAttention(megatron_config, 1, AttnMaskType.padding)
    messages.append(str(caught.value))
    attention = SdpaAttention(megatron_config, 1, AttnMaskType.causal)
    x = torch.ones(2, 1, 8, 8)
    with pytest.raises(ValueError) as caught:
        attention(x, x, x, None, attention_bias=x)
    return [*messages, str(caught.value)]


def test_what_it_cannot_do_is_refused():
    padding, biases = run_ranks(refusals, 1)[0]
    assert "causal" in padding and "padding" in padding
    assert "biases" in biases
