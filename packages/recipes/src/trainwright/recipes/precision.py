"""Bytes of a number: of weights, gradients, what the optimizer keeps, and what is kept for the backward pass."""

from dataclasses import dataclass

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.training import MixedPrecisionConfig

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}

QUANTISED = {
    "tensorwise": 1.0,
    "delayed": 1.0,
    "blockwise": 1 + 4 / 128,
    "mxfp8": 1 + 1 / 32,
    "nvfp4": 1 / 2 + 1 / 16,
}
"""Bytes of an element with its share of scaling factors: one for a tensor, 4 bytes for 128 elements, one for 32 (OCP
Microscaling Formats 1.0), one for 16 (NVFP4)."""
OF_TWO_LAYOUTS = ("blockwise", "mxfp8", "nvfp4")
"""Scaled along what a product sums over, which is another dimension backwards: each weight is there twice."""


@dataclass(frozen=True)
class Widths:
    """Bytes of an element."""

    weight: int
    """Of weights that no quantisation touches: embedding, output layer, norms, routers, biases."""
    matrix: float
    """Of weights of linear layers inside blocks, with the quantised copies that are kept of them."""
    gathered: float
    """Of those as data parallel ranks gather them after an update."""
    gradient: int
    """In the buffer in which gradients are summed and reduced."""
    update: int
    """Of a copy of gradients that the optimizer makes for itself at an update, on its share; 0 where it makes none."""
    master: int
    """Of what the optimizer keeps of a weight beside it."""
    activation: int
    product: float
    """Of what a linear layer keeps of its input, for the gradient of its weight."""


def widths(config: ConfigContainer, *, two_layouts: bool = False) -> Widths:
    """What the configuration means in bytes; `two_layouts` as `Gpu` has it.

    What is assumed of quantised training, as Transformer Engine does it: inputs of linear layers are kept quantised;
    weights are quantised once an update and kept so until the next, beside those in 16 bits, or in their place where
    they are gathered so (`fp8_param_gather`, `fp4_param_gather`).
    """
    precision, weight = config.mixed_precision, weight_width(config)
    kind = quantisation(precision)
    one = QUANTISED[kind] if kind else float(weight)
    copies = one * (2 if two_layouts or kind in OF_TWO_LAYOUTS else 1) if kind else 0.0
    in_its_place = precision.fp4_param_gather if kind == "nvfp4" else precision.fp8_param_gather
    matrix = copies if kind and in_its_place else weight + copies
    gradient = 4 if config.ddp.grad_reduce_in_fp32 else weight
    return Widths(
        weight=weight,
        matrix=matrix,
        gathered=one if kind and in_its_place else weight,
        gradient=gradient,
        update=_update(config, gradient),
        master=_master(config, weight, kind),
        activation=weight,
        product=one,
    )


def weight_width(config: ConfigContainer) -> int:
    """Bytes of one weight, or of one activation."""
    return 2 if config.mixed_precision.bf16 or config.mixed_precision.fp16 else 4


def quantisation(precision: MixedPrecisionConfig) -> str | None:
    """How matrix products are quantised, as a name of `QUANTISED`; null where they are not."""
    if precision.fp4 is not None:
        return precision.fp4_recipe or "nvfp4"
    return (precision.fp8_recipe or "delayed") if precision.fp8 is not None else None


def _update(config: ConfigContainer, gradient: int) -> int:
    """The optimizer takes gradients as they are only where they have its own type."""
    optimizer = config.optimizer
    wanted = BYTES[optimizer.main_grads_dtype] if optimizer.use_precision_aware_optimizer else 4
    return 0 if wanted == gradient else wanted


def _master(config: ConfigContainer, weight: int, kind: str | None) -> int:
    """The whole of a weight, or, of a bf16 weight, only the 16 bits that it lacks.

    The latter is Transformer Engine's optimizer with state types of its own (`store_param_remainders`, on in Megatron
    Core 0.19), for weights that are kept in bf16 and a master of 32 bits.
    """
    optimizer = config.optimizer
    if weight == 4:
        return 0
    remainders = optimizer.use_precision_aware_optimizer and config.mixed_precision.bf16
    if remainders and kind in (None, "delayed") and optimizer.main_params_dtype == "float32":
        return 2
    return BYTES[optimizer.main_params_dtype]
