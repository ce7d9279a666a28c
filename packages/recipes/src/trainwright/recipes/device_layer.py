"""What a device needs, laid below everything that a user types."""

from typing import Any, Literal

from trainwright.recipes.carried import RECORDED, off
from trainwright.recipes.config.training import PRECISION_PRESETS
from trainwright.recipes.draft import DEVICE, Draft

DeviceKind = Literal["cpu", "cuda"]

CPU_ONLY_OFF = (
    "model.bias_dropout_fusion",
    "model.masked_softmax_fusion",
    "model.bias_activation_fusion",
    "model.apply_rope_fusion",
    "model.cross_entropy_loss_fusion",
    "model.moe_grouped_gemm",
    "model.moe_permute_fusion",
    "model.moe_router_fusion",
    "model.moe_shared_expert_overlap",
    "optimizer.use_precision_aware_optimizer",
    # gloo has no averaging reduction.
    "ddp.average_in_collective",
)
"""Switches that have no implementation without a GPU."""

CPU_ONLY_OFF_WHERE_SET = (
    "model.moe_permute_fusion_into_hybridep",
    "model.moe_router_padding_for_quantization",
    "model.fp8_output_proj",
    "model.tp_only_amax_red",
    *RECORDED,
)
"""Further ones, which stand in the configuration only where somebody sets them."""

GPU_RECOMPUTATION = frozenset({"layernorm", "moe_act"})
"""Modules that only Transformer Engine's norms and grouped experts recompute."""

LAYERS: dict[DeviceKind, dict[str, Any]] = {
    "cuda": {},
    "cpu": {
        **{f"mixed_precision.{name}": value for name, value in PRECISION_PRESETS["fp32"].items()},
        "dist.distributed_backend": "gloo",
        "dataset.num_workers": 0,
        "model.moe_token_dispatcher_type": "alltoall",
        # "medium" may multiply in 16 bits, also on a CPU that can.
        "optimizer.muon_fp32_matmul_prec": "highest",
        # The runner's CPU device has its own kernel for it, a few percent of a step.
        "model.gradient_accumulation_fusion": True,
        **dict.fromkeys(CPU_ONLY_OFF, False),
    },
}


def apply_device(draft: Draft, device: DeviceKind) -> None:
    """Lay the device's values over recipe and dataset preset."""
    for path, value in LAYERS[device].items():
        draft.put(path, value, DEVICE)
    for path in CPU_ONLY_OFF_WHERE_SET if device == "cpu" else ():
        if path in draft.values and draft[path] != off(path):
            draft.put(path, off(path), DEVICE)
    if device == "cpu" and draft["optimizer.optimizer"] == "dist_muon":
        # Its shards are the masters of 16-bit weights, of which there are none in fp32; muon trains the same.
        draft.put("optimizer.optimizer", "muon", DEVICE)
    modules = draft["model.recompute_modules"] or []
    if device == "cpu" and set(modules) & GPU_RECOMPUTATION:
        rest = [name for name in modules if name not in GPU_RECOMPUTATION]
        draft.put("model.recompute_modules", rest or None, DEVICE)
        if not rest:
            draft.put("model.recompute_granularity", None, DEVICE)
