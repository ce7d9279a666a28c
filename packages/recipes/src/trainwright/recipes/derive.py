"""Fill in what follows from other fields, never over what the user typed."""

from trainwright.recipes.blocks import spelled_out, uneven_layout
from trainwright.recipes.device_layer import DeviceKind
from trainwright.recipes.draft import DERIVED, Draft, show
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.packing import alignment
from trainwright.recipes.presets import ROW_KINDS

BYTE_LEVEL_VOCABULARY = 257
"""256 bytes and the end of a document."""

DETERMINISTIC_ENVIRONMENT = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "NCCL_ALGO": "Ring",
    "NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0",
}
"""What cuBLAS, NCCL and Transformer Engine need to repeat themselves bit by bit."""

DISTRIBUTED_OPTIMIZER = ("optimizer.use_distributed_optimizer", "ddp.use_distributed_optimizer")


def derive(draft: Draft, *, device: DeviceKind, deterministic: bool) -> None:
    """Apply every rule, in an order in which a rule finds its inputs settled. Raises ConfigError for a clash."""
    _sequence_length(draft)
    _sizes(draft)
    _vocabulary(draft)
    _schedule(draft)
    _distributed_optimizer(draft)
    _frozen_weights(draft)
    _optimizer_state(draft)
    _low_precision(draft)
    _sequence_parallelism(draft)
    _chat(draft)
    _per_token_loss(draft)
    _packing(draft)
    _blocks(draft)
    _pipeline_layout(draft)
    _interleaved_pipeline(draft)
    if deterministic:
        draft.derive("model.deterministic_mode", True, "--deterministic")
        draft.put("model.deterministic_mode", True, "flag --deterministic")
    if draft["model.deterministic_mode"]:
        _determinism(draft, device)


def _sequence_length(draft: Draft) -> None:
    length = draft["dataset.seq_length"]
    if draft.typed("model.seq_length") and draft["model.seq_length"] != length:
        raise ConfigError(
            f"model.seq_length={show(draft['model.seq_length'])} differs from dataset.seq_length={length}: "
            f"the dataset owns the sequence length; set dataset.seq_length (-sl)"
        )
    draft.derive("model.seq_length", length, f"dataset.seq_length={length}")
    if draft["model.max_position_embeddings"] is None:
        draft.derive("model.max_position_embeddings", length, f"dataset.seq_length={length}")


def _sizes(draft: Draft) -> None:
    hidden, heads = draft["model.hidden_size"], draft["model.num_attention_heads"]
    # Multi-latent attention has widths of its own.
    if draft["model.kv_channels"] is None and not draft["model.multi_latent_attention"]:
        if heads < 1 or hidden % heads:
            raise ConfigError(
                f"model.hidden_size={hidden} is not a multiple of model.num_attention_heads={heads}; "
                f"change one, or set the width of a head with model.kv_channels"
            )
        draft.derive("model.kv_channels", hidden // heads, "model.hidden_size and model.num_attention_heads")
    if draft["model.num_query_groups"] is None:
        draft.derive("model.num_query_groups", heads, "model.num_attention_heads")
    if draft["model.ffn_hidden_size"] is None:
        draft.derive("model.ffn_hidden_size", 4 * hidden, "model.hidden_size")
    if draft["model.num_moe_experts"] is not None and draft["model.moe_ffn_hidden_size"] is None:
        draft.derive("model.moe_ffn_hidden_size", draft["model.ffn_hidden_size"], "model.ffn_hidden_size")
    if draft["model.num_moe_experts"] is not None and draft["model.expert_tensor_parallel_size"] is None:
        # Megatron Core would add biases of split experts once a rank.
        whole = draft["model.add_bias_linear"]
        size = 1 if whole else draft["model.tensor_model_parallel_size"]
        draft.derive(
            "model.expert_tensor_parallel_size", size, "biases" if whole else "model.tensor_model_parallel_size"
        )


def _blocks(draft: Draft) -> None:
    """A recipe's choice of blocks, made for its own number of them, is cut or goes on as it ends."""
    blocks = draft["model.num_layers"]
    for path in ("model.moe_layer_freq", "model.window_attn_skip_freq"):
        chosen = draft[path]
        if isinstance(chosen, list) and chosen and len(chosen) != blocks and not draft.typed(path):
            draft.derive(path, [*chosen, *chosen[-1:] * blocks][:blocks], f"model.num_layers={blocks}")


LAYOUT = "model.pipeline_model_parallel_layout"
ENDS = tuple(f"model.num_layers_in_{end}_pipeline_stage" for end in ("first", "last"))
COUNTED = tuple(f"model.account_for_{end}_in_pipeline_split" for end in ("embedding", "loss"))
"""Three ways to say how blocks are shared out between pipeline stages."""

STAGES, CHUNKS = "model.pipeline_model_parallel_size", "model.virtual_pipeline_model_parallel_size"
SHAPE_OF_LAYOUT = ("model.num_layers", "model.mtp_num_layers", STAGES, CHUNKS)


def _pipeline_layout(draft: Draft) -> None:
    """How blocks are shared out, where a recipe says it for other ones; and the chunks that a layout has."""
    changed = [path for path in SHAPE_OF_LAYOUT if draft.changed(path)]
    if changed and not any(draft.typed(path) for path in (LAYOUT, *ENDS, *COUNTED)):
        _share_out_anew(draft, f"{changed[0]}={show(draft[changed[0]])}")
    layout, stages = draft[LAYOUT], draft[STAGES]
    if layout is not None and draft[CHUNKS] is None:
        chunks = len(spelled_out(layout).split("|"))
        if chunks > stages and chunks % stages == 0:
            draft.derive(CHUNKS, chunks // stages, f"the {chunks} chunks of {LAYOUT}")


def _share_out_anew(draft: Draft, why: str) -> None:
    """A recipe's own way goes where it is not needed, and an uneven number of blocks becomes a layout.

    Counting embedding and loss as blocks is kept where it comes out even.
    """
    uneven = [path for path in (LAYOUT, *ENDS, *COUNTED) if draft[path]]
    blocks, chunks = draft["model.num_layers"], draft[STAGES] * (draft[CHUNKS] or 1)
    counted = sum(draft[path] for path in COUNTED)
    if counted and chunks > 1 and (blocks + counted) % chunks == 0:
        return
    for path in uneven:
        draft.derive(path, False if path in COUNTED else None, why)
    if uneven and blocks % chunks:
        draft.derive(LAYOUT, uneven_layout(blocks, chunks, draft["model.mtp_num_layers"] or 0), why)


def _vocabulary(draft: Draft) -> None:
    """A tokenizer that knows its size without reading a file decides the vocabulary."""
    kind, size = draft["tokenizer.tokenizer_type"], draft["tokenizer.vocab_size"]
    if kind != "NullTokenizer":
        if draft.typed("tokenizer.vocab_size") and size is not None:
            raise ConfigError(f"tokenizer.vocab_size={size} has no effect: {kind} knows its own size; leave it out")
        draft.derive("tokenizer.vocab_size", None, f"tokenizer.tokenizer_type={kind}")
    elif size is None:
        raise ConfigError("tokenizer.vocab_size is null: NullTokenizer only counts and needs the number of tokens")
    known = {"NullTokenizer": size, "ByteLevelTokenizer": BYTE_LEVEL_VOCABULARY}.get(kind)
    if known is not None and draft["model.vocab_size"] is None:
        draft.derive("model.vocab_size", known, f"tokenizer.tokenizer_type={kind}")
    if known is not None and draft["model.vocab_size"] < known:
        raise ConfigError(
            f"model.vocab_size={draft['model.vocab_size']} is smaller than the tokenizer's {known} tokens; leave it out"
        )


def _schedule(draft: Draft) -> None:
    if draft["scheduler.lr_decay_iters"] is None:
        draft.derive("scheduler.lr_decay_iters", draft["train.train_iters"], "train.train_iters")
    decay = draft["optimizer.weight_decay"]
    for end in ("start", "end"):
        path = f"scheduler.{end}_weight_decay"
        # The scheduler sets the decay of every update, so a decay typed for the optimizer has to arrive there.
        if draft[path] is None or draft.typed("optimizer.weight_decay"):
            draft.derive(path, decay, f"optimizer.weight_decay={show(decay)}, whose place it takes")


def _distributed_optimizer(draft: Draft) -> None:
    """One switch under two names, for Adam only: Megatron Core's distributed optimizer splits no other."""
    typed = [path for path in DISTRIBUTED_OPTIMIZER if draft.typed(path)]
    for path in DISTRIBUTED_OPTIMIZER:
        if typed:
            draft.derive(path, draft[typed[0]], f"{typed[0]}={show(draft[typed[0]])}")
        if draft["optimizer.optimizer"] != "adam":
            draft.derive(path, False, f"optimizer.optimizer={draft['optimizer.optimizer']}")
    for needed in (DISTRIBUTED_OPTIMIZER[0], "ddp.overlap_grad_reduce"):
        if not draft[needed]:
            draft.derive("ddp.overlap_param_gather", False, f"{needed}=false")


def _frozen_weights(draft: Draft) -> None:
    """Adapters leave all else as it is: the bias by which a router balances its experts too."""
    if draft["peft.scheme"] is not None and draft["model.moe_router_enable_expert_bias"]:
        draft.derive("model.moe_router_bias_update_rate", 0.0, "adapters, which train no weight of the model")


PRECISION_AWARE = "optimizer.use_precision_aware_optimizer"
STATE_TYPES = tuple(f"optimizer.{name}_dtype" for name in ("main_grads", "main_params", "exp_avg", "exp_avg_sq"))


def _optimizer_state(draft: Draft) -> None:
    """A recipe's types of the optimizer's state go with the optimizer that has them; typed ones are left to it."""
    if not draft[DISTRIBUTED_OPTIMIZER[0]] and not draft.typed(PRECISION_AWARE):
        draft.derive(PRECISION_AWARE, False, f"{DISTRIBUTED_OPTIMIZER[0]}=false")
    if not draft[PRECISION_AWARE]:
        for path in STATE_TYPES:
            draft.derive(path, "float32", f"{PRECISION_AWARE}=false")


def _low_precision(draft: Draft) -> None:
    """What a recipe brings for products in 8 or 4 bits goes with them."""
    fp8, recipe, fp4 = (draft[f"mixed_precision.{name}"] for name in ("fp8", "fp8_recipe", "fp4"))
    if draft["model.fp8_output_proj"] and recipe != "mxfp8":
        draft.derive("model.fp8_output_proj", False, f"mixed_precision.fp8_recipe={show(recipe)}")
    if draft["model.moe_router_padding_for_quantization"] and fp8 is None and fp4 is None:
        draft.derive("model.moe_router_padding_for_quantization", False, "neither mixed_precision.fp8 nor fp4")


def _sequence_parallelism(draft: Draft) -> None:
    """A recipe's sequence parallelism goes with its tensor parallelism; one that was typed is left to validation."""
    if draft["model.tensor_model_parallel_size"] == 1 and not draft.typed("model.sequence_parallel"):
        draft.derive("model.sequence_parallel", False, "model.tensor_model_parallel_size=1")


def _chat(draft: Draft) -> None:
    """A chat learns its assistant's turns, as a prompt its completion."""
    loss = "dataset.preprocessing.loss"
    if draft["dataset.preprocessing.style"] == "chat" and draft[loss] == "completion" and not draft.typed(loss):
        draft.derive(loss, "assistant", "dataset.preprocessing.style=chat")


def _per_token_loss(draft: Draft) -> None:
    """Where batches hold tokens that are not learnt, the loss is a mean over all that are, on every rank together.

    A mean over micro-batches would weigh a token by how few others its micro-batch has. Megatron Core divides such
    gradients once all are summed, so no collective may average them.
    """
    kind, per_token = draft["dataset.kind"], "model.calculate_per_token_loss"
    if kind in ROW_KINDS:
        draft.derive(per_token, True, f"dataset.kind={kind}")
    elif draft["dataset.eod_mask_loss"]:
        draft.derive(per_token, True, "dataset.eod_mask_loss=true")
    if draft[per_token]:
        draft.derive("ddp.average_in_collective", False, f"{per_token}=true")


def _packing(draft: Draft) -> None:
    """Size of a packed row and the multiple to which its sequences are padded; both follow from the rest."""
    if not draft["dataset.enable_offline_packing"]:
        return
    specs = "dataset.offline_packing_specs"
    if draft[f"{specs}.packed_sequence_size"] is None:
        draft.derive(f"{specs}.packed_sequence_size", draft["dataset.seq_length"], "dataset.seq_length")
    if draft[f"{specs}.pad_seq_to_mult"] is None:
        needed = alignment(
            draft["model.tensor_model_parallel_size"],
            draft["model.context_parallel_size"],
            draft["model.sequence_parallel"],
            draft["mixed_precision.fp8"] is not None,
        )
        draft.derive(f"{specs}.pad_seq_to_mult", needed, "tensor, context and sequence parallelism")


def _interleaved_pipeline(draft: Draft) -> None:
    """The point-to-point flags of the interleaved schedule.

    With two stages the previous and the next rank are one and the same; batched sends and receives then pair up
    wrongly and training diverges without an error. Megatron-LM's argument parser guards this, its core does not.
    """
    chunks, stages = draft["model.virtual_pipeline_model_parallel_size"], draft["model.pipeline_model_parallel_size"]
    if (chunks or 1) > 1 and stages == 2:
        why = "an interleaved pipeline of two stages"
        draft.derive("model.overlap_p2p_comm", True, why)
        draft.derive("model.batch_p2p_comm", False, why)


def _determinism(draft: Draft, device: DeviceKind) -> None:
    """Kernels and libraries whose sums do not depend on timing."""
    draft.derive("model.cross_entropy_loss_fusion", False, "a deterministic run")
    for name, value in DETERMINISTIC_ENVIRONMENT.items() if device == "cuda" else ():
        if not draft.typed(f"env_vars.{name}"):
            draft.put(f"env_vars.{name}", value, DERIVED)
