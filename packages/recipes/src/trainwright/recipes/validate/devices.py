"""What a device can do."""

from trainwright.recipes.device_layer import CPU_ONLY_OFF, CPU_ONLY_OFF_WHERE_SET
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan


def backend_fits_device(plan: Plan) -> None:
    """nccl needs GPUs."""
    if plan.device == "cpu" and plan.config.dist.distributed_backend == "nccl":
        raise ConfigError("dist.distributed_backend=nccl needs GPUs; on --device cpu it is gloo")


def precision_fits_device(plan: Plan) -> None:
    """One type at a time, and none that the device lacks."""
    precision = plan.config.mixed_precision
    if precision.bf16 and precision.fp16:
        raise ConfigError("mixed_precision.bf16 and mixed_precision.fp16 exclude each other")
    for field in ("fp8", "fp4"):
        if (value := getattr(precision, field)) is None:
            continue
        if plan.device == "cpu":
            raise ConfigError(f"mixed_precision.{field}={value} needs a GPU; leave it out on --device cpu")
        if not precision.bf16:
            raise ConfigError(f"mixed_precision.{field}={value} needs mixed_precision.bf16=true beside it")
    if plan.device == "cpu" and precision.fp16:
        raise ConfigError("mixed_precision.fp16=true needs a GPU; on --device cpu use fp32 or bf16")
    if plan.device == "cpu" and precision.bf16:
        plan.draft.warn(
            "mixed_precision.bf16=true on a CPU without bf16 instructions is about 20 times slower than fp32"
        )


def switches_fit_device(plan: Plan) -> None:
    """Fused kernels have no CPU implementation."""
    if plan.device != "cpu":
        return
    for path in (*CPU_ONLY_OFF, *CPU_ONLY_OFF_WHERE_SET):
        if plan.draft[path] is True:
            raise ConfigError(f"{path}=true needs a GPU; leave it out on --device cpu")
    if "layernorm" in (plan.draft["model.recompute_modules"] or ()):
        raise ConfigError("model.recompute_modules: layernorm needs a GPU; core_attn and mlp do not")
    if plan.config.model.moe_token_dispatcher_type == "flex":
        raise ConfigError("model.moe_token_dispatcher_type=flex needs GPUs; on --device cpu use alltoall or allgather")
    if plan.config.model.attention_backend not in ("auto", "local"):
        raise ConfigError(
            f"model.attention_backend={plan.config.model.attention_backend} needs a GPU; leave it out on --device cpu"
        )


RULES = (backend_fits_device, precision_fits_device, switches_fit_device)
