"""Layer pattern, norm, rotary frequencies, configuration and counts: what needs no ranks."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.runner.small_models import GPT, LLAMA, configuration

from trainwright.recipes import ConfigError, Selection, resolve
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.flops import floating_point_operations
from trainwright.runner.devices import use_device
from trainwright.runner.errors import RunRefused

use_device("cpu")

from trainwright.runner.models import transformer_config  # noqa: E402
from trainwright.runner.models.layer_pattern import layer_pattern  # noqa: E402
from trainwright.runner.models.layer_spec import stack_spec  # noqa: E402
from trainwright.runner.models.norm import Norm  # noqa: E402
from trainwright.runner.models.rope import inverse_frequencies  # noqa: E402


@pytest.mark.parametrize(
    ("layers", "stages", "chunks", "pattern"),
    [
        (2, 1, None, "*-*-"),
        (4, 2, None, "*-*-|*-*-"),
        (4, 2, 1, "*-*-|*-*-"),
        (4, 2, 2, "*-|*-|*-|*-"),
        (6, 3, 2, "*-|*-|*-|*-|*-|*-"),
    ],
)
def test_blocks_become_pattern_layers(layers, stages, chunks, pattern):
    model = {
        "num_layers": layers,
        "pipeline_model_parallel_size": stages,
        "virtual_pipeline_model_parallel_size": chunks,
    }
    assert layer_pattern(ModelConfig.model_validate(LLAMA | model)) == pattern


def test_blocks_that_do_not_fill_the_stages_are_refused():
    model = ModelConfig.model_validate(LLAMA | {"num_layers": 5, "pipeline_model_parallel_size": 2})
    with pytest.raises(ConfigError, match="num_layers=5 is not a multiple of 2 pipeline stages"):
        layer_pattern(model)


def norm(**changes: object) -> Norm:
    config = transformer_config(configuration(LLAMA | changes))
    made = Norm(config, 64, 1e-5)
    torch.manual_seed(0)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


@pytest.mark.parametrize(("kind", "reference"), [("RMSNorm", torch.nn.RMSNorm), ("LayerNorm", torch.nn.LayerNorm)])
def test_norm_equals_torch(kind, reference):
    ours, theirs = norm(normalization=kind), reference(64, eps=1e-5)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(3, 2, 64) * 10
    torch.testing.assert_close(ours(x), theirs(x))


def test_a_zero_centered_norm_starts_as_the_plain_one_and_adds_one():
    config = transformer_config(configuration(LLAMA | {"layernorm_zero_centered_gamma": True}))
    x = torch.randn(3, 64)
    assert torch.equal(
        Norm(config, 64, 1e-5)(x), Norm(dataclasses.replace(config, layernorm_zero_centered_gamma=False), 64, 1e-5)(x)
    )
    assert not Norm(config, 64, 1e-5).weight.any()


def test_norms_say_when_their_gradients_are_partial():
    split = {"tensor_model_parallel_size": 2, "sequence_parallel": True}
    for kind in ("RMSNorm", "LayerNorm"):
        assert all(p.sequence_parallel for p in norm(normalization=kind, **split).parameters())
        assert not any(p.sequence_parallel for p in norm(normalization=kind).parameters())


@given(
    base=st.sampled_from([10_000.0, 500_000.0]),
    channels=st.sampled_from([8, 64, 128]),
    factor=st.floats(1.5, 64),
    low=st.floats(0.5, 2),
    width=st.floats(1, 6),
    original=st.sampled_from([32, 256, 8192]),
)
def test_frequencies_equal_those_of_transformers(base, channels, factor, low, width, original):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    reference, _ = ROPE_INIT_FUNCTIONS["llama3"](
        LlamaConfig(
            head_dim=channels,
            max_position_embeddings=131_072,
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": base,
                "factor": factor,
                "low_freq_factor": low,
                "high_freq_factor": low + width,
                "original_max_position_embeddings": original,
            },
        ),
        torch.device("cpu"),
    )
    model = LLAMA | {
        "kv_channels": channels,
        "rotary_base": base,
        "rope_scaling_factor": factor,
        "rope_scaling_low_freq_factor": low,
        "rope_scaling_high_freq_factor": low + width,
        "rope_scaling_original_max_position_embeddings": original,
    }
    ours = inverse_frequencies(ModelConfig.model_validate(model))
    # Both subtract near one edge of the blend, where the result is 1/64 of what rounding acts on.
    torch.testing.assert_close(ours, reference, rtol=2e-5, atol=0)


def test_a_part_of_the_channels_is_rotated_by_the_frequencies_of_that_part():
    model = LLAMA | {"kv_channels": 8, "rotary_percent": 0.5, "rope_scaling": False, "rotary_base": 10_000.0}
    assert inverse_frequencies(ModelConfig.model_validate(model)).tolist() == pytest.approx([1.0, 0.01])


def test_megatron_gets_layers_and_recomputation_counted_in_its_way():
    changes = {"recompute_granularity": "full", "recompute_method": "block", "recompute_num_layers": 1}
    made = transformer_config(configuration(LLAMA | changes))
    assert (made.num_layers, made.recompute_num_layers, made.is_hybrid_model) == (8, 2, True)


def test_fields_beyond_the_declared_ones_reach_megatron():
    made = transformer_config(configuration(LLAMA | {"window_size": [3, 0], "glu_linear_offset": 1.0}))
    assert (made.window_size, made.glu_linear_offset) == ([3, 0], 1.0)


@pytest.mark.parametrize(
    ("precision", "dtype"), [({}, torch.float32), ({"bf16": True}, torch.bfloat16), ({"fp16": True}, torch.float16)]
)
def test_weights_travel_in_their_own_type(precision, dtype):
    made = transformer_config(configuration(LLAMA, mixed_precision=precision))
    assert made.params_dtype == made.pipeline_dtype == dtype


def test_recomputing_norms_is_refused_where_it_cannot_work():
    changes = {"recompute_granularity": "selective", "recompute_modules": ["layernorm"]}
    with pytest.raises(RunRefused, match="layernorm needs Transformer Engine"):
        stack_spec(configuration(LLAMA | changes).model)


def test_stages_tell_each_other_the_length_of_rows_packed_in_the_batch():
    staged, packs = LLAMA | {"pipeline_model_parallel_size": 2}, {"enable_in_batch_packing": True}
    assert transformer_config(configuration(staged, dataset=packs)).variable_seq_lengths
    assert not transformer_config(configuration(staged)).variable_seq_lengths
    assert not transformer_config(configuration(LLAMA, dataset=packs)).variable_seq_lengths
    with pytest.raises(RunRefused, match="variable_seq_lengths=false"):
        transformer_config(configuration(staged | {"variable_seq_lengths": False}, dataset=packs))


def test_operations_of_a_step_by_hand():
    """One block of hidden 4, 2 heads and 1 group of 2 channels, SwiGLU of 3, vocabulary 8, 5 tokens, 7 sequences."""
    model = {
        "num_layers": 1,
        "hidden_size": 4,
        "num_attention_heads": 2,
        "num_query_groups": 1,
        "kv_channels": 2,
        "ffn_hidden_size": 3,
        "gated_linear_unit": True,
        "vocab_size": 7,
        "make_vocab_size_divisible_by": 8,
        "seq_length": 5,
    }
    qkv, out = 4 * (4 + 2 + 2), 4 * 4
    attention = 4 * 5 / 2 + 4 * 5 / 2  # of one query: half of all scores, half of all weighted values
    feed_forward, logits = 3 * 4 * 3, 4 * 8
    expected = 6 * (qkv + out + attention + feed_forward + logits) * 5 * 7
    assert floating_point_operations(configuration(model)).of(7 * 5, 7 * 5**2) == expected


def test_operations_come_near_six_per_parameter_and_token_for_a_large_model():
    """Kaplan et al. 2020: 6 N a token, where attention over the context is small against the weights."""
    resolved = resolve(
        Selection(recipe="llama32_1b_pretrain_config", mode="pretrain"),
        ["dataset.seq_length=128", "model.vocab_size=128256"],
        world_size=1,
        device="cpu",
    )
    tokens, parameters = 128, 1_235_814_400  # the published count of Llama 3.2 1B
    per_token = floating_point_operations(resolved.config).of(tokens, tokens**2) / tokens
    assert per_token / (6 * parameters) == pytest.approx(1, rel=0.02)


def test_operations_need_a_vocabulary():
    model = {name: value for name, value in GPT.items() if name != "vocab_size"}
    assert math.isfinite(floating_point_operations(configuration(model), vocab_size=10).of(1, 1))
    with pytest.raises(ValueError, match="not resolved"):
        floating_point_operations(configuration(model))


def test_what_only_transformer_engine_does_is_refused_without_it():
    for name in ("moe_grouped_gemm", "moe_permute_fusion", "moe_router_fusion", "moe_shared_expert_overlap"):
        model = ModelConfig.model_validate(LLAMA | {"num_moe_experts": 4, name: True})
        with pytest.raises(RunRefused, match=f"model.{name}=true needs Transformer Engine"):
            stack_spec(model)
