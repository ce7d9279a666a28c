"""Rules join and split without loss, take every tensor once, and read no more than they are asked for."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.runner.huggingface_models import MODELS

from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.families import FAMILIES, family_of_model
from trainwright.runner.huggingface.family import differences
from trainwright.runner.huggingface.fields import Fields
from trainwright.runner.huggingface.parts import decoder
from trainwright.runner.huggingface.rules import Rule, Slot, require_exact_cover

SIZES = {"num_layers": 2, "hidden_size": 8, "vocab_size": 11, "normalization": "RMSNorm", "gated_linear_unit": True}


@st.composite
def models(draw: st.DrawFn) -> ModelConfig:
    """Architectures of every shape that rules are made for."""
    groups, queries, flag = draw(st.integers(1, 3)), draw(st.integers(1, 3)), st.booleans()
    experts = draw(st.sampled_from([None, 1, 3]))
    latent = {
        "multi_latent_attention": True,
        "q_lora_rank": draw(st.sampled_from([None, 5])),
        "kv_lora_rank": 3,
        "qk_head_dim": 2,
        "qk_pos_emb_head_dim": 2,
        "v_head_dim": 3,
    }
    return ModelConfig.model_validate({
        **SIZES,
        **(latent if draw(flag) else {}),
        "num_attention_heads": groups * queries,
        "num_query_groups": groups,
        "kv_channels": draw(st.integers(1, 4)),
        "ffn_hidden_size": 5,
        "add_bias_linear": False,
        "add_qkv_bias": draw(flag),
        "qk_layernorm": draw(flag),
        "share_embeddings_and_output_weights": draw(flag),
        "num_moe_experts": experts,
        "moe_ffn_hidden_size": 3,
        "moe_layer_freq": [0, 1],
        "moe_router_enable_expert_bias": draw(flag),
        "moe_shared_expert_intermediate_size": draw(st.sampled_from([None, 6])),
        "mtp_num_layers": draw(st.sampled_from([None, 1])),
    })  # fmt: skip


def numbered(rule: Rule) -> list[torch.Tensor]:
    """Theirs, every element another number."""
    start, found = 0, []
    for slot in rule.theirs:
        count = torch.Size(slot.shape).numel()
        found.append(torch.arange(start, start + count).reshape(slot.shape))
        start += count
    return found


@given(models(), st.data())
def test_joining_and_splitting_undo_each_other(model: ModelConfig, data: st.DataObject) -> None:
    rules = [*decoder(model), *FAMILIES["gpt_oss"].rules(gpt_oss())]
    for rule in rules:
        theirs = numbered(rule)
        ours = rule.join(theirs)
        assert tuple(ours.shape) == rule.ours.shape
        assert torch.equal(ours.flatten().sort().values, torch.arange(ours.numel()))  # each element once
        assert all(torch.equal(*pair) for pair in zip(rule.split(ours), theirs, strict=True))
    rule = data.draw(st.sampled_from(rules))
    ours = rule.join(numbered(rule))
    offsets = [data.draw(st.integers(0, size - 1)) for size in ours.shape]
    sizes = [data.draw(st.integers(1, size - offset)) for size, offset in zip(ours.shape, offsets, strict=True)]
    box = ours[tuple(slice(offset, offset + size) for offset, size in zip(offsets, sizes, strict=True))]
    assert torch.equal(rule.block(numbered(rule), offsets, sizes), box)


@given(models())
def test_no_tensor_is_taken_twice_on_either_side(model: ModelConfig) -> None:
    rules = decoder(model)
    for side in ([rule.ours for rule in rules], [slot for rule in rules for slot in rule.theirs]):
        require_exact_cover(side, {slot.name: slot.whole_shape for slot in side}, where="here")


def gpt_oss() -> ModelConfig:
    """A tiny one."""
    own = {"num_attention_heads": 4, "num_query_groups": 2, "kv_channels": 3, "num_moe_experts": 3}
    return ModelConfig.model_validate({**SIZES, **own, "moe_ffn_hidden_size": 5, "add_bias_linear": True})


def test_a_tensor_that_two_rules_take_is_a_fault_that_is_noticed() -> None:
    twice = [Slot("a", (2,)), Slot("a", (2,))]
    with pytest.raises(ValueError, match="a is not taken exactly once"):
        require_exact_cover(twice, {"a": (2,)}, where="here")
    one_of_two = [Slot("a", (2,), 0, 2)]
    with pytest.raises(ValueError, match="a is not taken exactly once"):
        require_exact_cover(one_of_two, {"a": (2, 2)}, where="here")


def test_many_names_are_cut_short_and_counted() -> None:
    with pytest.raises(RunRefused, match=r"^here lacks a0, a1, a2 and 6 more \(9 in all\)$"):
        require_exact_cover([Slot(f"a{number}", (1,)) for number in range(9)], {}, where="here")


@pytest.mark.parametrize("name", MODELS)
def test_a_config_json_that_is_written_says_the_same_as_the_one_that_was_read(name: str) -> None:
    config = MODELS[name]().config.to_dict()
    family = FAMILIES[config["model_type"]]
    model = family.model_config(Fields(config, name))
    assert family_of_model(model) is family
    again = family.model_config(Fields(family.hf_config(model), name))
    assert differences(model, again) == []
    assert again.vocab_size == model.vocab_size


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("llama", {"hidden_act": "gelu"}, "hidden_act='gelu' is not known here; it can be 'silu'"),
        ("llama", {"attention_bias": True}, "attention_bias=True is not known here; it can be False"),
        ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 8.0}}, "rope_type='linear' is not known here"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic"}}, "rope_type='dynamic'"),
        ("llama", {"rope_parameters": None, "rope_scaling": {"type": "longrope"}}, "rope_type='longrope'"),
        ("llama", {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "the rotary embedding has no low_freq"),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "attention_factor": 2.0}}, "words not known here: attent"),
        ("llama", {"hidden_size": None}, "has no hidden_size"),
        ("llama", {"num_hidden_layers": "four"}, "num_hidden_layers='four'"),
        ("llama", {"rope_parameters": 3}, "rope_parameters=3 is no mapping"),
        ("qwen3", {"use_sliding_window": True}, "use_sliding_window=True"),
        ("gpt_oss", {"swiglu_alpha": 2.0}, "swiglu_alpha=2.0 is not known here; it can be 1.702"),
        ("gpt_oss", {"layer_types": ["full_attention"]}, "layer_types has to say"),
        ("gpt_oss", {"rope_parameters": {"rope_type": "default"}}, "it can be 'yarn'"),
        ("deepseek", {"scoring_func": "softmax"}, "scoring_func='softmax'"),
        ("deepseek", {"norm_topk_prob": False}, "norm_topk_prob=False"),
        ("deepseek", {"topk_group": 1}, "num_experts_per_tok=4 and topk_group=1"),
    ],
)
def test_what_a_config_json_says_and_is_not_known_is_refused_by_name(name: str, change: dict, says: str) -> None:
    config = MODELS[name]().config.to_dict() | change
    with pytest.raises(RunRefused, match=says):
        FAMILIES[config["model_type"]].model_config(Fields(config, "config.json"))


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_theta": 500_000.0},
        {"rope_theta": 500_000.0, "rope_scaling": None},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}},
        {"rope_parameters": {"rope_theta": 500_000.0}, "rope_scaling": None},
    ],
)
def test_both_ways_to_write_a_rotary_embedding_are_read(rope: dict) -> None:
    config = {name: value for name, value in MODELS["llama"]().config.to_dict().items() if "rope" not in name}
    model = FAMILIES["llama"].model_config(Fields(config | rope, "config.json"))
    assert (model.rotary_base, model.rope_scaling) == (500_000.0, False)


def test_words_that_may_mean_something_and_that_nobody_read_are_listed() -> None:
    config = MODELS["llama"]().config.to_dict() | {"logit_scale": 2.0, "other": None, "torch_dtype": "bfloat16"}
    fields = Fields(config, "config.json")
    FAMILIES["llama"].model_config(fields)
    assert fields.unread() == ["logit_scale"]


def test_a_model_that_no_family_has_is_refused_with_what_would_be_lost() -> None:
    own = {"num_attention_heads": 4, "num_query_groups": 4, "kv_channels": 2, "ffn_hidden_size": 16}
    own |= {"max_position_embeddings": 32, "position_embedding_type": "rope", "add_bias_linear": False}
    model = ModelConfig.model_validate({**SIZES, **own, "activation_func": "gelu"})
    with pytest.raises(
        RunRefused, match=r"no family known here has such .*; as llama it would change: act.*gelu -> silu"
    ):
        family_of_model(model)
