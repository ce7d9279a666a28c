"""Every topology of experts, latents, sinks and further predictions gives the loss curve of a single rank."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.runner import faults
from tests.runner.training import corpus, losses, train, train_on

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

GATE = 1e-5
# A token's choice of experts is a jump: where two scores are within rounding, another order of summing takes another
# expert, and from there on it is another curve. Wide scores and few tokens keep choices apart, and an epsilon that is
# not small against gradients keeps Adam from making rounding errors as large as its steps.
STEADY = (
    "model.init_method_std=0.1",
    "optimizer.adam_eps=0.001",
    "optimizer.lr=0.02",
    "dataset.seq_length=32",
    "train.train_iters=6",
)
UNTIED = ("model.share_embeddings_and_output_weights=false", *STEADY)
EXPERTS = (
    *UNTIED,
    "model.num_moe_experts=4",
    "model.moe_ffn_hidden_size=48",
    "model.qk_layernorm=true",
    "model.moe_aux_loss_coeff=0.01",
    "model.moe_z_loss_coeff=0.001",
)
SHARED = (
    *UNTIED,
    "model.num_moe_experts=8",
    "model.moe_router_topk=4",
    "model.moe_ffn_hidden_size=32",
    "model.moe_layer_freq=[0,1,1,1]",
    "model.moe_router_score_function=sigmoid",
    "model.moe_router_enable_expert_bias=true",
    "model.moe_router_bias_update_rate=0.01",
    "model.moe_router_num_groups=4",
    "model.moe_router_group_topk=2",
    "model.moe_router_topk_scaling_factor=2.5",
    "model.moe_router_load_balancing_type=seq_aux_loss",
    "model.moe_aux_loss_coeff=0.01",
    "model.moe_router_dtype=fp32",
    "model.moe_shared_expert_intermediate_size=32",
    "model.moe_shared_expert_gate=true",
)
LATENT = (
    "model.num_query_groups=8",
    "model.kv_channels=null",
    "model.rope_scaling=false",
    "model.multi_latent_attention=true",
    "model.qk_layernorm=true",
    "model.q_lora_rank=24",
    "model.kv_lora_rank=20",
    "model.qk_head_dim=16",
    "model.qk_pos_emb_head_dim=8",
    "model.v_head_dim=12",
    "model.rope_type=yarn",
    "model.rotary_scaling_factor=4",
    "model.original_max_position_embeddings=32",
    "model.mscale_all_dim=0.7",
)
MODELS: dict[str, tuple[str, ...]] = {
    "experts": EXPERTS,
    "latents and shared experts": (*LATENT, *SHARED),
    "sinks and windows": (
        *UNTIED,
        "model.num_moe_experts=4",
        "model.moe_ffn_hidden_size=48",
        "model.add_bias_linear=true",
        "model.activation_func=quick_gelu",
        "model.glu_linear_offset=1",
        "model.activation_func_clamp_value=0.5",
        "model.rope_scaling=false",
        "model.position_embedding_type=yarn",
        "model.yarn_rotary_scaling_factor=4",
        "model.yarn_original_max_position_embeddings=32",
        "model.softmax_type=learnable",
        "model.window_size=[15,0]",
        "model.window_attn_skip_freq=2",
    ),
    "further predictions": (*SHARED, "model.mtp_num_layers=2"),
}
NAMES = list(MODELS)

TP2 = ("model.tensor_model_parallel_size=2", "model.sequence_parallel=true")
PP2 = ("model.pipeline_model_parallel_size=2",)
CP2 = ("model.context_parallel_size=2",)
EP2 = ("model.expert_model_parallel_size=2",)
ETP1 = ("model.expert_tensor_parallel_size=1",)
SHARDED = ("ddp.use_distributed_optimizer=true",)
UNEVEN = "model.pipeline_model_parallel_layout=Et*3|tmmL"
ALL_AGAIN = (
    "model.recompute_granularity=full",
    "model.recompute_method=uniform",
    "model.recompute_num_layers=1",
)
PARTS_AGAIN = (
    "model.recompute_granularity=selective",
    "model.recompute_modules=[core_attn,moe,mlp,mla_up_proj]",
)
TOPOLOGIES: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "latents, all recomputed": (NAMES[1], 1, ALL_AGAIN),
    "latents, parts recomputed": (NAMES[1], 1, PARTS_AGAIN),
    "MTP, all recomputed": (NAMES[3], 1, ALL_AGAIN),
    "EP2": (NAMES[0], 2, EP2),
    "EP2, all-gather": (NAMES[0], 2, (*EP2, "model.moe_token_dispatcher_type=allgather")),
    "EP2 x TP2, experts whole": (NAMES[0], 2, (*EP2, *TP2, *ETP1)),
    "EP2 x TP2, experts split": (NAMES[0], 4, (*EP2, *TP2)),
    "TP2, experts split": (NAMES[0], 2, TP2),
    "EP2 x CP2": (NAMES[0], 2, (*EP2, *CP2)),
    "EP2 x DP2, distributed optimizer": (NAMES[0], 4, (*EP2, *SHARDED)),
    "shared EP2": (NAMES[1], 2, EP2),
    "latent TP2": (NAMES[1], 2, TP2),
    "latent CP2": (NAMES[1], 2, CP2),
    "MTP EP2 x DP2": (NAMES[3], 4, EP2),
    "MTP PP2": (NAMES[3], 2, PP2),
    "MTP PP2, uneven": (NAMES[3], 2, (*PP2, UNEVEN)),
    "MTP PP2 VP2": (NAMES[3], 2, (*PP2, "model.virtual_pipeline_model_parallel_size=2")),
    "MTP EP2 x TP2 x PP2": (NAMES[3], 4, (*EP2, *TP2, *PP2, *ETP1, *SHARDED)),
    "sinks TP2": (NAMES[2], 2, TP2),
    "sinks CP2 x EP2": (NAMES[2], 2, (*CP2, *EP2)),
    "sinks PP2, first stage of 3": (NAMES[2], 2, (*PP2, "model.num_layers_in_first_pipeline_stage=3")),
}
CONTROLS: dict[str, tuple[str, int, tuple[str, ...], Callable[..., Any]]] = {
    "the router's bias stays as it was": (NAMES[1], 2, EP2, faults.train_without_bias_update),
    "another clamp": (NAMES[2], 2, TP2, faults.train_with_another_clamp),
    "the shared key's gradient is one rank's": (NAMES[1], 2, TP2, faults.train_without_shared_key_gradient),
    "sinks of other heads": (NAMES[2], 2, TP2, faults.train_with_sinks_of_the_first_rank),
    "gradients of experts averaged once too often": (NAMES[0], 2, EP2, faults.train_with_scaled_expert_gradients),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """For each model: data, weights that every topology starts from, and the losses of the single rank."""
    folder = tmp_path_factory.mktemp("families")
    data = corpus(folder)
    started = {}
    for number, (name, words) in enumerate(MODELS.items()):
        weights, single = folder / f"weights {number}", folder / f"single {number}"
        once = ("train.train_iters=1", "optimizer.lr=1e-12", "optimizer.min_lr=1e-12")
        run_ranks(train, 1, weights, data, *words, *once)
        begin = (*words, f"checkpoint.pretrained_checkpoint={weights / 'checkpoints'}")
        run_ranks(train, 1, single, data, *begin)
        started[name] = begin, losses(single)
    return folder, data, started


def worst(reference: dict[int, float], other: dict[int, float]) -> float:
    """The largest relative difference over all updates."""
    assert sorted(reference) == sorted(other) == list(range(1, 7))
    return max(abs(other[step] - loss) / loss for step, loss in reference.items())


@pytest.mark.parametrize("model", MODELS)
def test_the_single_rank_really_learns(start, model):
    reference = start[2][model][1]
    assert reference[6] < 0.9 * reference[1]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_topology_reproduces_the_single_rank(start, name):
    folder, data, started = start
    model, ranks, words = TOPOLOGIES[name]
    begin, reference = started[model]
    assert run_ranks(train_on, ranks, ranks, folder / name, data, *begin, *words) == [0] * ranks
    difference = worst(reference, losses(folder / name))
    print(f"{name}: largest relative difference {difference:.1e}")
    assert difference < GATE


@pytest.mark.parametrize("name", CONTROLS)
def test_a_broken_build_does_not_pass_the_gate(start, name):
    folder, data, started = start
    model, ranks, words, fault = CONTROLS[name]
    begin, reference = started[model]
    assert run_ranks(fault, ranks, ranks, folder / name, data, *begin, *words) == [0] * ranks
    difference = worst(reference, losses(folder / name))
    print(f"{name}: largest relative difference {difference:.1e}")
    assert difference > 2 * GATE
