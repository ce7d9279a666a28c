"""`train`, `validation`, `optimizer`, `scheduler`, `rng`, `mixed_precision`: how the model learns."""

from typing import Literal

from pydantic import Field

from trainwright.recipes.config.section import Section


class TrainConfig(Section):
    """`train`: batches and duration."""

    train_iters: int = Field(ge=1)
    """Successful optimizer updates of the whole run."""
    global_batch_size: int = Field(ge=1)
    """Sequences of one update, over all ranks."""
    micro_batch_size: int = Field(ge=1)
    """Sequences of one forward pass on one data parallel rank."""
    exit_signal_handler: bool = True
    """On SIGTERM or SIGUSR1: finish the update, write a checkpoint, exit 75."""
    exit_duration_in_mins: float | None = Field(default=None, gt=0)
    """Stop in good order (checkpoint, exit 75) so as to be done this many minutes after the session began."""
    check_for_nan_in_loss: bool = True
    """A loss that is not finite ends the run before the optimizer step. False: the update is skipped and counted."""
    manual_gc: bool = False
    """Python collects garbage at the same step on every rank, and never in between."""
    manual_gc_interval: int = Field(default=100, ge=1)
    """Steps between two collections."""
    max_consecutive_skipped_updates: int = Field(default=20, ge=1)
    """Skipped updates in a row after which the run ends as failed."""


class ValidationConfig(Section):
    """`validation`: loss on held-out data."""

    eval_interval: int | None = Field(default=None, ge=1)
    """Updates between two validations; null means none during training."""
    eval_iters: int = Field(default=32, ge=0)
    """Global batches of one validation; 0 means none."""


class OptimizerConfig(Section):
    """`optimizer`: Megatron Core's `OptimizerConfig`, the part that runs here."""

    optimizer: Literal["adam", "sgd", "muon", "dist_muon"] = "adam"
    """Muon (arXiv:2502.16982) takes the weight matrices of layers, Adam all else: embedding, output layer, norms,
    biases. `dist_muon` shares the matrices out between data parallel ranks; it needs 16-bit weights."""
    lr: float = Field(gt=0)
    min_lr: float = Field(default=0.0, ge=0)
    weight_decay: float = Field(default=0.1, ge=0)
    adam_beta1: float = Field(default=0.9, ge=0, lt=1)
    adam_beta2: float = Field(default=0.95, ge=0, lt=1)
    adam_eps: float = Field(default=1e-8, gt=0)
    overlap_param_gather_with_optimizer_step: bool = False
    """Gather the first model chunk's weights while the others' are still updated."""
    sgd_momentum: float = Field(default=0.9, ge=0, lt=1)
    muon_momentum: float = Field(default=0.95, ge=0, lt=1)
    muon_nesterov: bool = False
    muon_split_qkv: bool = True
    """Orthogonalize queries, keys and values each on its own, and not the one matrix they are stored in."""
    muon_num_ns_steps: int = Field(default=5, ge=1)
    """Newton-Schulz iterations."""
    muon_coefficient_type: Literal["simple", "quintic", "polar_express", "cans", "aol", "deepseekv4"] = "quintic"
    """Coefficients of those iterations."""
    muon_scale_mode: Literal["shape_scaling", "spectral", "unit_rms_norm"] = "spectral"
    """By what an update is multiplied: sqrt(max(1, rows / columns)), sqrt(max(rows, columns)), sqrt(rows / columns)."""
    muon_extra_scale_factor: float = Field(default=1.0, gt=0)
    """Multiplies it once more; 0.2 with `spectral` gives updates of Adam's size (arXiv:2502.16982)."""
    muon_tp_mode: Literal["blockwise", "duplicated", "distributed"] = "duplicated"
    """How a matrix that is split between tensor parallel ranks is orthogonalized: each part as if it were a matrix, all
    of it on every rank, or together. With `blockwise` the training depends on the tensor parallel size."""
    muon_fp32_matmul_prec: Literal["medium", "high", "highest"] = "medium"
    """`torch.set_float32_matmul_precision` of those iterations."""
    clip_grad: float = Field(default=1.0, ge=0)
    """Largest allowed norm of the whole gradient; 0 means no clipping."""
    use_distributed_optimizer: bool = False
    """Split optimizer state between data parallel ranks."""
    use_precision_aware_optimizer: bool = False
    """Adam's state in types of its own, the four below. Needs Transformer Engine and the distributed optimizer."""
    main_grads_dtype: Literal["float32", "bfloat16"] = "float32"
    """In which gradients are handed to it."""
    main_params_dtype: Literal["float32", "float16"] = "float32"
    """Of the weights that it keeps beside 16-bit ones."""
    exp_avg_dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    exp_avg_sq_dtype: Literal["float32", "float16", "bfloat16"] = "float32"


class SchedulerConfig(Section):
    """`scheduler`: learning rate and weight decay over updates."""

    lr_decay_style: Literal["constant", "linear", "cosine", "inverse-square-root", "WSD"] = "cosine"
    lr_warmup_iters: int = Field(default=0, ge=0)
    lr_warmup_init: float = Field(default=0.0, ge=0)
    lr_decay_iters: int | None = Field(default=None, ge=1)
    """Updates until `optimizer.min_lr` is reached; null means `train.train_iters`."""
    lr_wsd_decay_style: Literal["exponential", "linear", "cosine", "minus_sqrt"] = "exponential"
    lr_wsd_decay_iters: int | None = Field(default=None, ge=1)
    start_weight_decay: float | None = Field(default=None, ge=0)
    """Weight decay at the start; null means `optimizer.weight_decay`."""
    end_weight_decay: float | None = Field(default=None, ge=0)
    weight_decay_incr_style: Literal["constant", "linear", "cosine"] = "constant"


class RngConfig(Section):
    """`rng`: random numbers."""

    seed: int = Field(default=1234, ge=1)
    te_rng_tracker: bool = False
    """Transformer Engine's states of random numbers, which a CUDA graph can hold."""


class MixedPrecisionConfig(Section):
    """`mixed_precision`: the type of weights and activations; a name of `PRECISION_PRESETS` sets the whole section.

    fp8 and fp4 are Transformer Engine's, on a GPU that has them; what is not multiplied in them is in `bf16`.
    """

    bf16: bool = False
    fp16: bool = False
    fp8: Literal["e4m3", "hybrid"] | None = None
    """Format of matrix products: `hybrid` is e4m3 forwards and e5m2 for gradients."""
    fp8_recipe: Literal["tensorwise", "delayed", "mxfp8", "blockwise"] | None = None
    """How scaling factors are found: of a tensor as it is, from its past, or of blocks."""
    fp8_margin: int = 0
    """A scaling factor is divided by two this many times."""
    fp8_amax_history_len: int = Field(default=1, ge=1)
    """Steps that `delayed` looks back."""
    fp8_amax_compute_algo: Literal["most_recent", "max"] = "most_recent"
    fp8_wgrad: bool = True
    """Gradients of weights in fp8 too."""
    fp8_dot_product_attention: bool = False
    fp8_multi_head_attention: bool = False
    fp8_param_gather: bool = False
    """Weights are kept and gathered in fp8."""
    reuse_grad_buf_for_mxfp8_param_ag: bool = False
    """Weights are gathered into the memory of gradients."""
    fp4: Literal["e2m1"] | None = None
    fp4_recipe: Literal["nvfp4"] | None = None
    fp4_param_gather: bool = False
    first_last_layers_bf16: bool = False
    """The blocks counted below stay in 16 bits."""
    num_layers_at_start_in_bf16: int = Field(default=0, ge=0)
    num_layers_at_end_in_bf16: int = Field(default=0, ge=0)


def _whole(**fields: object) -> dict[str, object]:
    """A whole section: what is not named is the default."""
    return {name: field.default for name, field in MixedPrecisionConfig.model_fields.items()} | fields


PRECISION_PRESETS: dict[str, dict[str, object]] = {
    "fp32": _whole(),
    "bf16_mixed": _whole(bf16=True),
    "fp16_mixed": _whole(fp16=True),
}
"""What `mixed_precision=NAME` sets."""
