"""What a device needs, laid below everything that a user types."""

from typing import Any, Literal

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

LAYERS: dict[DeviceKind, dict[str, Any]] = {
    "cuda": {},
    "cpu": {
        "mixed_precision.bf16": False,
        "mixed_precision.fp16": False,
        "mixed_precision.fp8": None,
        "mixed_precision.fp8_recipe": None,
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
    if device == "cpu" and draft["optimizer.optimizer"] == "dist_muon":
        # Its shards are the masters of 16-bit weights, of which there are none in fp32; muon trains the same.
        draft.put("optimizer.optimizer", "muon", DEVICE)
