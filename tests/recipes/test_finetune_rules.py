"""Modes of fine-tuning: which scheme a run has, and what does not go with adapters."""

from typing import Any

import pytest
from recipes_runs import refusal, run, says

from trainwright.recipes import ConfigError, ResolvedRun, Selection, resolve

PEFT, SFT = "llama32_1b_peft_config", "llama32_1b_sft_config"
BENCHMARK = "llama3_70b_peft_8gpu_gb200_bf16_config"
SPLIT_EXPERTS = (
    "model.tensor_model_parallel_size=2",
    "model.sequence_parallel=true",
    "model.expert_model_parallel_size=1",
    "model.expert_tensor_parallel_size=2",
)


def selected(*words: str, mode: str | None = None, recipe: str | None = None, model: str | None = None) -> ResolvedRun:
    return resolve(Selection(recipe=recipe, model=model, mode=mode), words, world_size=None, device="cuda")


@pytest.mark.parametrize(
    ("selection", "words", "scheme"),
    [
        ({"recipe": PEFT}, (), "lora"),
        ({"recipe": PEFT, "mode": "lora"}, (), "lora"),
        ({"recipe": PEFT, "mode": "dora"}, (), "dora"),
        ({"model": "gpt_oss_20b", "mode": "dora"}, (), "dora"),
        ({"recipe": PEFT}, ("peft.scheme=dora",), "dora"),
        ({"recipe": PEFT, "mode": "dora"}, ("peft.scheme=dora",), "dora"),
    ],
)
def test_either_word_chooses_the_scheme(selection: dict[str, str], words: tuple[str, ...], scheme: str) -> None:
    found = selected(*words, **selection)
    assert found.config.peft is not None
    assert (found.mode, found.config.peft.scheme) == (scheme, scheme)
    assert not found.warnings


def test_another_scheme_changes_nothing_else() -> None:
    lora, dora = (selected(recipe=PEFT, mode=mode).config.model_dump() for mode in ("lora", "dora"))
    assert dora.pop("peft") == lora.pop("peft") | {"scheme": "dora"}
    assert lora == dora


@pytest.mark.parametrize(
    ("selection", "words", "parts"),
    [
        ({"recipe": PEFT, "mode": "lora"}, ("peft.scheme=dora",), ("peft.scheme=dora contradicts --mode lora",)),
        ({"recipe": PEFT, "mode": "sft"}, (), ("--mode sft contradicts", "which is for lora")),
        ({"recipe": SFT, "mode": "dora"}, (), ("--mode dora contradicts", "which is for sft")),
        ({"recipe": PEFT}, ("peft=null",), ("peft=null leaves nothing to train", f"--recipe {SFT} trains all weights")),
        ({"recipe": SFT}, ("peft.dim=8",), ("peft.dim=8: --mode sft", f"--recipe {PEFT} does")),
        ({"recipe": "llama32_1b_pretrain_config"}, ("peft={alpha:8}",), ("peft.alpha=8", "--mode pretrain")),
        ({"recipe": "kimi_k2_pretrain_config"}, ("peft.dim=8",), ("--mode pretrain trains all weights",)),
        ({"model": "kimi_k2", "mode": "lora"}, (), ("no kimi_k2_peft_config", "kimi_k2 has pretrain")),
        ({"recipe": BENCHMARK}, ("peft.scheme=dora",), ("fixed LoRA", "--recipe llama3_70b_peft_config takes either")),
        ({"recipe": BENCHMARK, "mode": "dora"}, (), ("fixed LoRA", "--recipe llama3_70b_peft_config --mode dora")),
        ({"recipe": PEFT}, ("peft.scheme=dorra",), ("it takes lora or dora", "'dora'")),
        ({"recipe": PEFT}, ("peft.dim=0",), ("peft.dim=0", "at least 1")),
        ({"recipe": PEFT}, ("peft.alpha=0",), ("peft.alpha=0", "above 0")),
        ({"recipe": PEFT}, ("peft.dropout=1.0",), ("peft.dropout=1.0", "below 1")),
        ({"recipe": PEFT}, ("peft.dropout_position=middle",), ("pre or post",)),
        ({"recipe": PEFT}, ("peft.lora_A_init_method=uniform",), ("it takes xavier, kaiming, normal",)),
        ({"recipe": PEFT}, ("peft.targets=[linear_qkv]",), ("peft has no field 'targets'",)),
        ({"recipe": PEFT}, ("optimizer.optimizer=dist_muon",), ("whole weight matrices", "optimizer.optimizer=adam")),
        ({"recipe": PEFT}, ("model.qk_clip=true",), ("model.qk_clip=true scales weights",)),
        (
            {"recipe": "qwen3_30b_a3b_peft_config"},
            ("peft.target_modules=[linear_fc1]", "peft.dropout=0.1", *SPLIT_EXPERTS),
            ("decoder.layers.0.mlp.experts.linear_fc1", "model.expert_tensor_parallel_size=1"),
        ),
        (
            {"recipe": "moonlight_16b_peft_config"},
            ("model.moe_router_bias_update_rate=0.1",),
            ("does not go with adapters", "has to be 0.0"),
        ),
    ],
)
def test_words_that_do_not_go_together_are_refused(
    selection: dict[str, Any], words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as caught:
        selected(*words, **selection)
    assert "\n" not in str(caught.value)
    says(str(caught.value), *parts)


def test_parts_of_attention_are_not_cut_within_a_head() -> None:
    """More ranks than key/value heads take the fused layer only."""
    words = ("model.tensor_model_parallel_size=8", "train.global_batch_size=32")
    ranks = {"recipe": "qwen3_30b_a3b_peft_config", "world_size": 8, "device": "cuda"}
    message = refusal(*words, "peft.target_modules=[linear_v,linear_proj]", **ranks)
    says(message, "linear_v needs a key/value head on every rank, and 4 of them are on", "size=8", "target linear_qkv")
    assert run(*words, **ranks).mode == "lora"


def test_a_run_of_adapters_keeps_the_bias_that_balances_experts() -> None:
    """It is a weight of the model, though no gradient reaches it."""
    assert selected(model="moonlight_16b", mode="sft").config.model.moe_router_bias_update_rate == 1e-3
    assert selected(model="moonlight_16b", mode="lora").config.model.moe_router_bias_update_rate == 0.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("peft.dropout_position=post",), "peft.dropout_position has no effect without peft.dropout above 0"),
        (
            ("peft.initial_adapter=/a", "peft.lora_A_init_method=normal"),
            "peft.lora_A_init_method has no effect with peft.initial_adapter, which brings its own A",
        ),
    ],
)
def test_a_typed_field_that_nothing_reads_is_named(words: tuple[str, ...], said: str) -> None:
    assert run(*words, recipe=PEFT).warnings == (said,)


@pytest.mark.parametrize("word", ["dataset.enable_offline_packing=true", "dataset.enable_in_batch_packing=true"])
@pytest.mark.parametrize("task", ["sft", "peft"])
def test_a_model_with_further_predictions_refuses_packing_by_name(word: str, task: str) -> None:
    """And says how it can be had."""
    recipe = f"glm45_air_106b_{task}_config"
    message = refusal(word, recipe=recipe, world_size=None, device="cuda")
    says(message, word, "glm45_air_106b predicts further tokens (model.mtp_num_layers=1)", "model.mtp_num_layers=null")
    others = () if "offline" in word else ("train.micro_batch_size=2", "dataset.dataloader_type=single")
    assert run(word, "model.mtp_num_layers=null", *others, recipe=recipe, world_size=None, device="cuda")


def test_experts_with_biases_are_not_split() -> None:
    """A recipe's tensor parallel ranks leave each expert whole; to type another split is refused by name."""
    ranks = ("model.tensor_model_parallel_size=2", "model.sequence_parallel=true")
    ranks = (*ranks, "model.expert_model_parallel_size=4")
    assert selected(*ranks, model="gpt_oss_20b", mode="sft").config.model.expert_tensor_parallel_size == 1
    with pytest.raises(ConfigError, match=r"experts with biases .* model.expert_tensor_parallel_size=2 has to be 1"):
        selected(*ranks, "model.expert_tensor_parallel_size=2", model="gpt_oss_20b", mode="sft")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("model.cp_comm_type=a2b",), ("p2p, all_gather, a2a, a2a+p2p",)),
        (("model.num_query_groups=4",), ("model.cp_comm_type=a2a shares out heads", "the 4 key/value heads")),
    ],
)
def test_ranks_that_share_out_heads_have_as_many_each(words: tuple[str, ...], parts: tuple[str, ...]) -> None:
    says(refusal(*words, recipe="qwen3_600m_sft_128k_config", world_size=None, device="cuda"), *parts)
