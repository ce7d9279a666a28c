"""Muon and the clipping of attention's logits: what is refused, what is said, and what a device changes."""

import pytest
from recipes_runs import LLAMA, refusal, run

from trainwright.recipes.sizes import estimate

LATENT = (
    "model.multi_latent_attention=true",
    "model.kv_channels=null",
    "model.rope_scaling=false",
    "model.kv_lora_rank=64",
    "model.qk_head_dim=64",
    "model.qk_pos_emb_head_dim=32",
    "model.v_head_dim=64",
)
TP16 = ("model.tensor_model_parallel_size=16", "model.sequence_parallel=true")
CLIP = "model.qk_clip=true"
BF16 = "mixed_precision=bf16_mixed"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["optimizer.optimizer=muon", "mixed_precision=fp16_mixed"], ("muon", "fp16", "bf16_mixed")),
        (["optimizer.optimizer=dist_muon", "mixed_precision=fp32"], ("dist_muon", "bf16_mixed", "optimizer=muon")),
        (
            ["optimizer.optimizer=muon", "optimizer.use_distributed_optimizer=true"],
            ("use_distributed_optimizer=true", "optimizer.optimizer=muon"),
        ),
        (
            ["optimizer.optimizer=muon", BF16, "optimizer.use_precision_aware_optimizer=true"],
            ("use_precision_aware_optimizer=true", "optimizer.optimizer=adam"),
        ),
        (["optimizer.optimizer=adamw"], ("optimizer.optimizer=adamw", "dist_muon", "'adam'")),
        (
            ["optimizer.optimizer=muon", "optimizer.muon_tp_mode=gathered"],
            ("optimizer.muon_tp_mode=gathered", "duplicated"),
        ),
        ([CLIP, "model.qk_clip_threshold=0"], ("model.qk_clip_threshold=0", "above 0")),
        ([CLIP, "model.qk_clip_alpha=1.5"], ("model.qk_clip_alpha=1.5", "from 0 to 1")),
        ([CLIP, "model.qk_layernorm=true"], ("model.qk_clip=true", "qk_layernorm", "log_max_attention_logit")),
        (
            [CLIP, *TP16],
            ("model.qk_clip=true", "num_query_groups=8", "tensor_model_parallel_size=16"),
        ),
    ],
)
def test_what_cannot_be_is_refused(words, parts):
    message = refusal(*words, recipe=LLAMA, world_size=16, device="cuda")
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    "words",
    [
        ["optimizer.optimizer=muon"],
        ["optimizer.optimizer=muon", BF16],
        ["optimizer.optimizer=dist_muon", BF16],
        [CLIP],
        [CLIP, *LATENT, *TP16, "model.num_query_groups=32", "model.qk_layernorm=true"],
        ["model.log_max_attention_logit=true", "model.qk_layernorm=true"],
    ],
)
def test_their_neighbours_pass(words):
    run(*words, recipe=LLAMA, world_size=16, device="cuda")


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (["optimizer.optimizer=muon", "optimizer.muon_tp_mode=blockwise"], "depends on the tensor parallel size"),
        (["optimizer.muon_momentum=0.9"], "optimizer.muon_momentum has no effect without optimizer.optimizer=muon"),
        (["model.qk_clip_threshold=50"], "model.qk_clip_threshold has no effect without model.qk_clip=true"),
        (["optimizer.optimizer=muon", "optimizer.adam_beta1=0.8", "optimizer.muon_momentum=0.9"], None),
    ],
)
def test_what_will_surprise_is_said(words, warning):
    found = run(*words, "model.tensor_model_parallel_size=2", recipe=LLAMA, world_size=2).warnings
    assert any(warning in line for line in found) if warning else not found


def test_a_recipe_that_shares_matrices_out_keeps_them_together_on_a_cpu():
    kimi = "kimi_k2_pretrain_config"
    assert run(recipe=kimi, world_size=512, device="cuda").config.optimizer.optimizer == "dist_muon"
    assert run(recipe=kimi, world_size=512, device="cpu").config.optimizer.optimizer == "muon"
    assert "bf16_mixed" in refusal("optimizer.optimizer=dist_muon", recipe=kimi, world_size=512, device="cpu")


def test_muon_keeps_one_moment_of_a_matrix_and_adam_two_of_a_word():
    untied = ("model.share_embeddings_and_output_weights=false", "model.vocab_size=32000")
    sizes = [estimate(run(*untied, f"optimizer.optimizer={name}", recipe=LLAMA)) for name in ("adam", "muon")]
    words = 2 * 32_000 * 2048
    assert sizes[0].parameters == sizes[1].parameters
    assert sizes[0].memory.optimizer - sizes[1].memory.optimizer == 4 * (sizes[0].parameters - words)


def test_ranks_that_share_matrices_out_share_their_state_out():
    whole, shared = (
        estimate(run(BF16, f"optimizer.optimizer={name}", recipe=LLAMA, world_size=4, device="cuda")).memory.optimizer
        for name in ("muon", "dist_muon")
    )
    assert whole == 4 * shared
