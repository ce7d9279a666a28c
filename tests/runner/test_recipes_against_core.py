"""What the recipes know of Megatron Core without importing it, held against the installed one."""

from pathlib import Path
from typing import Any

import pytest

from trainwright.recipes import ResolvedRun, Selection, catalogue, estimate, resolve
from trainwright.recipes.catalogue import generate
from trainwright.recipes.parameters import stage_parameters
from trainwright.recipes.validate.extras import HONOURED
from trainwright.runner.testing import run_ranks

UPDATE = "nox -s catalogue"
TINY = (
    "model.num_layers=4",
    "model.hidden_size=32",
    "model.num_attention_heads=4",
    "model.ffn_hidden_size=48",
    "tokenizer.vocab_size=200",
    "dataset.seq_length=32",
    "model.max_position_embeddings=32",
    "train.micro_batch_size=1",
)
UNTIED = "model.share_embeddings_and_output_weights=false"
EXPERTS = (
    UNTIED,
    "model.num_moe_experts=4",
    "model.moe_ffn_hidden_size=24",
    "model.moe_shared_expert_intermediate_size=40",
    "model.moe_shared_expert_gate=true",
)
LATENT = (
    UNTIED,
    "model.num_query_groups=4",
    "model.rope_scaling=false",
    "model.multi_latent_attention=true",
    "model.kv_channels=null",
    "model.qk_layernorm=true",
    "model.q_lora_rank=12",
    "model.kv_lora_rank=10",
    "model.qk_head_dim=8",
    "model.qk_pos_emb_head_dim=4",
    "model.v_head_dim=6",
)
TP2 = ("model.tensor_model_parallel_size=2", "model.sequence_parallel=true")
PP2 = ("model.pipeline_model_parallel_size=2",)
LLAMA, GPT = "llama32_1b_pretrain_config", "vanilla_gpt_pretrain_config"


def tiny(*words: str, recipe: str = GPT, world_size: int = 1) -> ResolvedRun:
    groups = ("model.num_query_groups=2",) if recipe == LLAMA else ()
    return resolve(Selection(recipe=recipe), [*TINY, *groups, *words], world_size=world_size, device="cpu")


def built(resolved: ResolvedRun) -> list[Any]:
    """This rank's part of the model. To be called by `run_ranks`."""
    from trainwright.runner.devices import use_device

    use_device("cpu")
    from tests.runner.small_models import start_groups

    from trainwright.runner.models import build_model

    start_groups(resolved.config)
    assert resolved.config.model.vocab_size is not None
    return build_model(resolved.config, vocab_size=resolved.config.model.vocab_size)


def count(resolved: ResolvedRun) -> int:
    """Parameters on this rank."""
    return sum(parameter.numel() for chunk in built(resolved) for parameter in chunk.parameters())


def logits(resolved: ResolvedRun) -> list[float]:
    """Of one fixed sequence, flat."""
    import torch

    (model,) = built(resolved)
    model.eval()
    tokens = torch.arange(32)[None] * 5 % 200
    with torch.no_grad():
        return model(tokens, torch.arange(32)[None], None).flatten().tolist()


@pytest.mark.distributed
def test_the_catalogue_is_the_installed_class() -> None:
    """A new pin of megatron-core comes with a new catalogue, whose diff somebody reads."""
    committed = Path(catalogue.__file__).with_name("transformer_config.json").read_text(encoding="utf-8")
    (installed,) = run_ranks(generate.text, 1)
    assert installed == committed, f"the catalogue is not of the installed megatron-core; run: {UPDATE}"


@pytest.mark.distributed
@pytest.mark.parametrize(
    ("recipe", "world_size", "words"),
    [
        (GPT, 1, ()),
        (GPT, 1, ("model.share_embeddings_and_output_weights=false", "model.qk_layernorm=true")),
        (GPT, 1, ("model.add_bias_linear=false", "model.add_qkv_bias=true", "model.make_vocab_size_divisible_by=1")),
        (GPT, 4, ("model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2")),
        (LLAMA, 1, ()),
        (LLAMA, 2, ("model.tensor_model_parallel_size=2", "model.qk_layernorm=true", "model.num_query_groups=1")),
        (
            LLAMA,
            2,
            (
                "model.pipeline_model_parallel_size=2",
                "model.virtual_pipeline_model_parallel_size=2",
                "model.share_embeddings_and_output_weights=false",
            ),
        ),
        (LLAMA, 1, (*EXPERTS, "model.softmax_type=learnable")),
        (LLAMA, 1, (*LATENT, *EXPERTS, "model.moe_layer_freq=[0,1,1,0]", "model.mtp_num_layers=2")),
        (LLAMA, 1, (*LATENT, "model.q_lora_rank=null", "model.qk_layernorm=false", "model.mtp_num_layers=1")),
        (LLAMA, 4, (*EXPERTS, *TP2, "model.expert_model_parallel_size=2", "model.expert_tensor_parallel_size=1")),
        (LLAMA, 4, (*LATENT, *EXPERTS, *TP2, *PP2, "model.mtp_num_layers=1")),
        (GPT, 2, (*PP2, "model.num_layers_in_first_pipeline_stage=1")),
        (GPT, 2, (*PP2, "model.pipeline_model_parallel_layout=E|t*3|t|L")),
    ],
)
def test_estimated_parameters_are_those_of_the_model(recipe: str, world_size: int, words: tuple[str, ...]) -> None:
    """Exactly: on one rank the whole model, on several the fullest rank's part."""
    resolved = tiny(*words, recipe=recipe, world_size=world_size)
    counts = run_ranks(count, world_size, resolved)
    model = resolved.config.model
    assert max(stage.total for stage in stage_parameters(model, model.vocab_size)) == max(counts)
    if world_size == 1:
        assert estimate(resolved).parameters == counts[0]


# Fields that act where there is no GPU, each with a value that has to change what the model computes: those that the
# model section declares, and others of Megatron Core.
DECLARED_ACTS = {
    "activation_func_clamp_value": "0.001",
    "glu_linear_offset": "1",
    "num_moe_experts": "4",
    "softmax_type": "off-by-one",
    "window_size": "[2,0]",
}
OTHERS_ACT = {
    "embedding_init_method_std": "0.5",
    "layernorm_zero_centered_gamma": "true",
    "softmax_scale": "3",
}
ACTS = DECLARED_ACTS | OTHERS_ACT
# These change how fast the model is, not what it computes, or exist on a GPU only; the loss, and routing by chance
# (moe_router_force_load_balancing), have tests of their own.
ACTS_ELSEWHERE = {
    "apply_rope_fusion",
    "batch_p2p_comm",
    "batch_p2p_sync",
    "bias_activation_fusion",
    "bias_dropout_fusion",
    "calculate_per_token_loss",
    "cp_comm_type",
    "cross_entropy_fusion_impl",
    "disable_parameter_transpose_cache",
    "fp8_output_proj",
    "gradient_accumulation_fusion",
    "log_max_attention_logit",
    "moe_deepep_num_sms",
    "moe_hybridep_num_sms",
    "moe_hybridep_num_sms_preprocessing",
    "moe_permute_fusion_into_hybridep",
    "moe_router_force_load_balancing",
    "moe_router_padding_for_quantization",
    "overlap_p2p_comm",
    "qk_clip",
    "qk_clip_alpha",
    "qk_clip_threshold",
    "recompute_modules",
    "tp_only_amax_red",
}


def test_every_honoured_field_is_accounted_for() -> None:
    assert set(OTHERS_ACT) | ACTS_ELSEWHERE == HONOURED


@pytest.mark.distributed
@pytest.mark.parametrize("field", ACTS)
def test_a_field_that_is_accepted_acts(field: str) -> None:
    """The recipes refuse every field of Megatron Core that has no effect here, so these must have one."""
    word = f"model.{field}={ACTS[field]}"
    # A layer's own weights start at the same values, so what differs is the field's doing.
    (plain,), (changed,) = (run_ranks(logits, 1, tiny(*words, recipe=LLAMA)) for words in ((), (word,)))
    if field == "layernorm_zero_centered_gamma":
        # Weights start at zero and count from one: another parameter, the same function.
        assert changed == pytest.approx(plain, abs=1e-6)
        (changed,) = run_ranks(norm_weights, 1, tiny(word, recipe=LLAMA))
        assert set(changed) == {0.0}
        return
    assert max(abs(a - b) for a, b in zip(plain, changed, strict=True)) > 1e-4


def norm_weights(resolved: ResolvedRun) -> list[float]:
    """The weights of every norm, flat."""
    (model,) = built(resolved)
    named = {name: parameter for name, parameter in model.named_parameters() if "norm" in name}
    assert named
    return [value for parameter in named.values() for value in parameter.flatten().tolist()]
