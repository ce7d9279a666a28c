"""Adapters of ours and of PEFT become each other: what they add to a weight is the same, and both come back exactly."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runner.test_huggingface_rules import models

from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.checkpoints.adapter import weight_of
from trainwright.runner.checkpoints.adapter_rows import Factors, part_rows
from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.families import FAMILIES
from trainwright.runner.huggingface.family import Family
from trainwright.runner.huggingface.parts import decoder
from trainwright.runner.huggingface.peft_factors import from_peft, own_parts, to_peft
from trainwright.runner.huggingface.peft_layout import Layer, layers
from trainwright.runner.huggingface.rules import Rule

ANY = Family(model_type="any", architecture="Any", rules=decoder)
DIM = 2
GPT_OSS = ModelConfig.model_validate(FAMILIES["gpt_oss"].ours | {
    "num_layers": 2, "hidden_size": 4, "vocab_size": 11, "num_attention_heads": 4, "num_query_groups": 2,
    "kv_channels": 3, "ffn_hidden_size": 4, "moe_ffn_hidden_size": 4, "num_moe_experts": 3, "moe_layer_freq": 1,
})  # fmt: skip
"""Its matrices are square, and turned in published files."""


def families() -> st.SearchStrategy[tuple[Family, ModelConfig]]:
    others = models().map(lambda model: (ANY, model.model_copy(update={"mtp_num_layers": None})))
    return others | st.just((FAMILIES["gpt_oss"], GPT_OSS))


def parts_of(layer: Layer) -> list[tuple[str, ...]]:
    """As a whole, and by its parts, where it has some."""
    return [(layer.linear.name,), *([tuple(part.name for part in layer.linear.fused)] if layer.linear.fused else [])]


def random_parts(layer: Layer, model: ModelConfig, names: tuple[str, ...]) -> dict[str, Factors]:
    stack = () if layer.linear.experts is None else (layer.linear.experts,)
    return {
        name: Factors(
            torch.randn(*stack, DIM, layer.linear.columns, dtype=torch.float64),
            torch.randn(*stack, len(part_rows(layer.linear, name, model)), DIM, dtype=torch.float64),
        )
        for name in names
    }


def what_ours_adds(layer: Layer, model: ModelConfig, parts: dict[str, Factors]) -> torch.Tensor:
    """B A in the rows that each part has."""
    stack = () if layer.linear.experts is None else (layer.linear.experts,)
    added = torch.zeros(*stack, layer.linear.rows, layer.linear.columns, dtype=torch.float64)
    for name, factors in parts.items():
        added[..., part_rows(layer.linear, name, model), :] += factors.b @ factors.a
    return added


def as_theirs(rules: list[Rule], layer: Layer, added: torch.Tensor) -> dict[str, torch.Tensor]:
    """What ours adds, in the tensors that weights are exported as; the way of weights, and not of adapters."""
    own = [rule for rule in rules if rule.ours.name == layer.weight]
    of_each = [added[rule.ours.index] if rule.ours.index is not None else added for rule in own]
    return {
        f"{slot.name}:{slot.index}": piece
        for rule, whole in zip(own, of_each, strict=True)
        for slot, piece in zip(rule.theirs, rule.split(whole.contiguous()), strict=True)
    }


def as_peft_adds(layer: Layer, factors: dict[str, Factors]) -> dict[str, torch.Tensor]:
    """The same as peft computes it: B A of each module or of each stacked expert, named as published files name it."""
    found = {}
    for theirs in layer.theirs:
        one = factors[theirs.name]
        added = one.b @ one.a
        if not theirs.members:
            found[f"{theirs.name}.weight:None"] = added
        elif theirs.members == (theirs.name,):  # GPT-OSS publishes stacks, inputs before outputs
            found |= {f"{theirs.name}:{number}": expert.T for number, expert in enumerate(added)}
        else:
            for number, expert in enumerate(added):
                for member, rows in zip(theirs.members, expert.chunk(len(theirs.members)), strict=True):
                    found[f"{member.replace('experts.0.', f'experts.{number}.')}.weight:None"] = rows
    return found


@given(families(), st.data())
@settings(max_examples=30, deadline=None)
def test_peft_adds_to_every_module_what_ours_adds_to_the_fused_layer(
    of: tuple[Family, ModelConfig], data: st.DataObject
) -> None:
    family, model = of
    rules = family.rules(model)
    for layer in layers(family, model):
        parts = random_parts(layer, model, data.draw(st.sampled_from(parts_of(layer))))
        wanted = as_theirs(rules, layer, what_ours_adds(layer, model, parts))
        found = as_peft_adds(layer, to_peft(layer, model, parts))
        assert found.keys() == wanted.keys()
        assert all(torch.allclose(found[name], wanted[name], atol=1e-12) for name in wanted)


@given(families(), st.data())
@settings(max_examples=30, deadline=None)
def test_an_adapter_comes_back_as_the_parts_it_had(of: tuple[Family, ModelConfig], data: st.DataObject) -> None:
    family, model = of
    for layer in layers(family, model):
        names = data.draw(st.sampled_from(parts_of(layer)))
        parts = random_parts(layer, model, names)
        there = to_peft(layer, model, parts)
        assert own_parts(layer, model, there, DIM) == names
        back = from_peft(layer, model, there, names, DIM)
        assert back.keys() == parts.keys()
        for name in names:
            assert torch.equal(back[name].a, parts[name].a)
            assert torch.equal(back[name].b, parts[name].b)


@given(models())
@settings(max_examples=30, deadline=None)
def test_every_linear_layer_is_a_weight_of_the_model_and_of_its_size(model: ModelConfig) -> None:
    """Those of multi-token prediction too, which transformers does not compute."""
    from trainwright.recipes.adapters import linears

    weights = {rule.ours.name: rule.ours.whole_shape for rule in decoder(model)}
    found = {weight_of(linear): linear for linear in linears(model)}
    assert found.keys() == {name for name in weights if name.rsplit(".", 2)[-2].startswith("linear_")} - {
        name for name in weights if name.endswith(("bias", "layer_norm_weight"))
    }
    for name, linear in found.items():
        stack = () if linear.experts is None else (linear.experts,)
        assert weights[name] == (*stack, linear.rows, linear.columns)


def layer_named(end: str, family: Family = ANY, model: ModelConfig | None = None) -> tuple[Layer, ModelConfig]:
    model = model or ModelConfig(
        num_layers=1, hidden_size=4, num_attention_heads=4, num_query_groups=2, kv_channels=3, ffn_hidden_size=5,
        gated_linear_unit=True, add_bias_linear=False,
    )  # fmt: skip
    return next(layer for layer in layers(family, model) if layer.linear.path.endswith(end)), model


def test_one_a_for_all_cannot_be_had_where_modules_have_their_own() -> None:
    layer, model = layer_named("linear_qkv")
    there = to_peft(layer, model, random_parts(layer, model, ("linear_q", "linear_k", "linear_v")))
    with pytest.raises(RunRefused, match=r"q_proj, .*k_proj, .*v_proj have an A each.*target linear_q, linear_k"):
        from_peft(layer, model, there, ("linear_qkv",), DIM)


def test_parts_that_are_missing_or_left_over_are_named() -> None:
    layer, model = layer_named("linear_qkv")
    there = to_peft(layer, model, random_parts(layer, model, ("linear_q", "linear_v")))
    assert own_parts(layer, model, there, DIM) == ("linear_q", "linear_v")
    with pytest.raises(RunRefused, match=r"it has no adapter of model\.layers\.0\.self_attn\.k_proj"):
        from_peft(layer, model, there, ("linear_q", "linear_k", "linear_v"), DIM)
    with pytest.raises(RunRefused, match=r"it also adapts model\.layers\.0\.self_attn\.v_proj"):
        from_peft(layer, model, there, ("linear_q",), DIM)


def test_another_rank_is_named() -> None:
    layer, model = layer_named("linear_proj")
    there = to_peft(layer, model, random_parts(layer, model, ("linear_proj",)))
    with pytest.raises(RunRefused, match=r"o_proj has rank 2 and not 8"):
        from_peft(layer, model, there, ("linear_proj",), 8)


def test_a_stack_of_a_dense_b_of_twice_the_rank_is_no_adapter_of_its_halves() -> None:
    layer, model = layer_named("experts.linear_fc1", FAMILIES["gpt_oss"], GPT_OSS)
    parts = random_parts(layer, model, ("linear_fc1_gate", "linear_fc1_up"))
    (name, dense), *_ = to_peft(layer, model, parts).items()
    dense.b.add_(1)
    halves = own_parts(layer, model, {name: dense}, DIM)
    with pytest.raises(RunRefused, match=r"gate_up_proj has rank 4 and not 2"):
        from_peft(layer, model, {name: dense}, halves, DIM)


def test_a_stack_of_the_rank_itself_gives_both_halves_the_same_a() -> None:
    layer, model = layer_named("experts.linear_fc1", FAMILIES["gpt_oss"], GPT_OSS)
    whole = random_parts(layer, model, ("linear_fc1",))
    halves = from_peft(layer, model, to_peft(layer, model, whole), ("linear_fc1_gate", "linear_fc1_up"), DIM)
    assert torch.equal(halves["linear_fc1_up"].a, whole["linear_fc1"].a)
    assert torch.allclose(what_ours_adds(layer, model, halves), what_ours_adds(layer, model, whole))
