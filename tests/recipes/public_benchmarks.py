"""The public benchmark recipes that this library's are compared with.

`data/MANIFEST.md` says where the rows come from. The tables here name, for each column, the field that holds its
number, or why there is none. `OF_RECIPE` is compared with what a recipe builds, `OF_RUN` with what `resolve` makes of
it: what follows from the topology is the recipe's own word in the one and a `resolved_` column in the other.
"""

from typing import Any

from public import FIELDS as LIBRARY_FIELDS
from public import _rows

_FILE: dict[str, Any] = _rows("benchmark_recipes.json")

ROWS: dict[str, dict[str, Any]] = {
    name: {**_FILE["same"], **dict(zip(_FILE["columns"], values, strict=True))}
    for name, values in _FILE["rows"].items()
}
NAMES: dict[str, list[str]] = _FILE["names"]
"""Family -> names of every public benchmark, also those of families that are not here."""
FAILS_ITS_OWN_VALIDATION: set[str] = set(_FILE["own_validation_fails"])
EXPERTS_DO_NOT_FIT: set[str] = set(_FILE["ep_times_pp_exceeds_num_gpus"])

_MODEL = (
    *("recompute_granularity", "recompute_method", "recompute_num_layers", "recompute_modules"),
    *("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"),
    *("cp_comm_type", "deterministic_mode", "init_method_std", "make_vocab_size_divisible_by"),
    *("fine_grained_activation_offloading", "offload_modules", "cpu_offloading", "cpu_offloading_num_layers"),
    *("cuda_graph_impl", "cuda_graph_scope", "cuda_graph_modules", "cuda_graph_warmup_steps", "use_te_rng_tracker"),
    *("apply_rope_fusion", "bias_activation_fusion", "bias_dropout_fusion", "gradient_accumulation_fusion"),
    *("cross_entropy_loss_fusion", "cross_entropy_fusion_impl", "use_transformer_engine_op_fuser"),
    *("calculate_per_token_loss", "mtp_num_layers", "mtp_loss_scaling_factor"),
    *("num_moe_experts", "moe_router_topk", "moe_router_dtype", "moe_router_load_balancing_type"),
    *("moe_router_force_load_balancing", "moe_router_padding_for_quantization", "moe_aux_loss_coeff"),
    *("moe_router_enable_expert_bias", "moe_router_bias_update_rate", "moe_router_fusion"),
    *("moe_token_dispatcher_type", "moe_flex_dispatcher_backend", "moe_permute_fusion", "moe_grouped_gemm"),
    *("moe_permute_fusion_into_hybridep", "moe_hybridep_num_sms", "moe_hybridep_num_sms_preprocessing"),
    *("moe_deepep_num_sms", "moe_shared_expert_overlap", "high_priority_a2a_comm_stream", "moe_paged_stash"),
    *("moe_expert_rank_capacity_factor", "moe_mlp_glu_interleave_size", "moe_pad_experts_for_cuda_graph_inference"),
)
_MIXED = (
    *("bf16", "fp16", "fp8", "fp8_recipe", "fp8_margin", "fp8_amax_history_len", "fp8_amax_compute_algo", "fp8_wgrad"),
    *("fp8_dot_product_attention", "fp8_multi_head_attention", "fp8_param_gather"),
    *("reuse_grad_buf_for_mxfp8_param_ag", "fp4", "fp4_recipe", "fp4_param_gather"),
    *("first_last_layers_bf16", "num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16"),
)
_DDP = (
    *("overlap_grad_reduce", "overlap_param_gather", "align_param_gather", "average_in_collective", "bucket_size"),
    *("use_distributed_optimizer", "use_megatron_fsdp", "data_parallel_sharding_strategy", "nccl_ub"),
    *("num_distributed_optimizer_instances", "fsdp_double_buffer", "outer_dp_sharding_strategy"),
    *("fsdp_manual_registration", "suggested_communication_unit_size"),
)
_COMM = (
    *("tp_comm_overlap", "tp_comm_overlap_cfg", "tp_comm_bootstrap_backend", "overlap_grad_reduce"),
    *("overlap_param_gather", "overlap_param_gather_with_optimizer_step", "align_param_gather"),
    *("defer_embedding_wgrad_compute", "wgrad_deferral_limit", "overlap_moe_expert_parallel_comm"),
    "delay_wgrad_compute",
)
_ADAPTERS = ("dim", "alpha", "dropout", "dropout_position", "target_modules", "exclude_modules")

_NOT_OF_THESE = {"ckpt_pretrained_checkpoint", "peft_class", "validation_eval_iters"}

OF_RECIPE = {
    **{column: f"ddp.{column.removeprefix('ddp_')}" for column in (f"ddp_{name}" for name in _DDP)},
    **{f"comm_{name}": f"comm_overlap.{name}" for name in _COMM},
    "opt_use_precision_aware_optimizer": "optimizer.use_precision_aware_optimizer",
}
"""Column -> field, as a recipe builds it: what a run makes of it follows from the topology or the device."""

OF_RUN = {
    **{
        name: path for name, path in LIBRARY_FIELDS.items() if not name.startswith("ddp_") and name not in _NOT_OF_THESE
    },
    **{name: f"model.{name}" for name in _MODEL},
    **{f"mp_{name}": f"mixed_precision.{name}" for name in _MIXED},
    **{f"peft_{name}": f"peft.{name}" for name in _ADAPTERS},
    "peft_lora_A_init": "peft.lora_A_init_method",
    "peft_lora_B_init": "peft.lora_B_init_method",
    # It takes the place of `validation_eval_iters` when a run starts.
    "train_eval_iters": "validation.eval_iters",
    "dataset_split": "dataset.split",
    "dataset_random_seed": "dataset.random_seed",
    "validation_eval_interval": "validation.eval_interval",
    "manual_gc": "train.manual_gc",
    "manual_gc_interval": "train.manual_gc_interval",
    "opt_overlap_param_gather_with_optimizer_step": "optimizer.overlap_param_gather_with_optimizer_step",
    "opt_muon_momentum": "optimizer.muon_momentum",
    "opt_muon_scale_mode": "optimizer.muon_scale_mode",
    "opt_muon_num_ns_steps": "optimizer.muon_num_ns_steps",
    "sched_lr_warmup_init": "scheduler.lr_warmup_init",
    "sched_weight_decay_incr_style": "scheduler.weight_decay_incr_style",
    "ddp_average_in_collective": "ddp.average_in_collective",
    "ddp_use_distributed_optimizer": "ddp.use_distributed_optimizer",
    "ckpt_fully_parallel_save": "checkpoint.fully_parallel_save",
    "rng_te_rng_tracker": "rng.te_rng_tracker",
    "resolved_ddp_overlap_grad_reduce": "ddp.overlap_grad_reduce",
    "resolved_ddp_overlap_param_gather": "ddp.overlap_param_gather",
    "resolved_ddp_align_param_gather": "ddp.align_param_gather",
    "resolved_ddp_bucket_size": "ddp.bucket_size",
    "resolved_ddp_grad_reduce_in_fp32": "ddp.grad_reduce_in_fp32",
    "resolved_ddp_use_distributed_optimizer": "ddp.use_distributed_optimizer",
    "resolved_optimizer_overlap_param_gather_with_optimizer_step": (
        "optimizer.overlap_param_gather_with_optimizer_step"
    ),
    "resolved_model_tp_comm_overlap": "comm_overlap.tp_comm_overlap",
    "resolved_model_overlap_p2p_comm": "model.overlap_p2p_comm",
    "resolved_model_batch_p2p_comm": "model.batch_p2p_comm",
    "resolved_model_overlap_moe_expert_parallel_comm": "comm_overlap.overlap_moe_expert_parallel_comm",
    "resolved_model_delay_wgrad_compute": "comm_overlap.delay_wgrad_compute",
    "resolved_model_defer_embedding_wgrad_compute": "comm_overlap.defer_embedding_wgrad_compute",
    "resolved_eval_iters": "validation.eval_iters",
    "resolved_vp": "model.virtual_pipeline_model_parallel_size",
    "resolved_seq_length": "model.seq_length",
    "resolved_lr_decay_iters": "scheduler.lr_decay_iters",
    "resolved_lr_warmup_iters": "scheduler.lr_warmup_iters",
}
"""Column -> field, as `resolve` leaves it on GPUs."""

ON_A_NAME = {"task", "num_gpus", "hardware", "precision", "variant", "model_stem", "hf_model_id", "family"}
"""Columns of what a recipe is called and was written for."""

OF_THE_DATA = {
    *("dataset_kind", "dataset_dataloader_type", "dataset_num_workers", "dataset_seed", "dataset_seq_length"),
    *("dataset_split", "dataset_random_seed"),
    *("dataset_enable_offline_packing", "dataset_enable_in_batch_packing", "dataset_hf_validation_proportion"),
}
"""Columns of the data, which fine-tuning benchmarks do not read: they train on generated documents."""

SIZES = {
    "dp_derived": "data_parallel_size",
    "grad_accum_derived": "num_microbatches",
    "resolved_data_parallel_size": "data_parallel_size",
}
"""Column -> attribute of a resolved run."""

ALWAYS = {
    "mp_params_dtype": ("bfloat16", "follows from mixed_precision.bf16"),
    "mp_pipeline_dtype": ("bfloat16", "follows from mixed_precision.bf16"),
    "ddp_grad_reduce_in_fp32": (False, "as the precision says, which is what acts"),
    "ddp_check_for_nan_in_grad": (False, "the loss is looked at instead (train.check_for_nan_in_loss)"),
    "ddp_fp8_param_gather": (False, "as the precision says, which is what acts"),
    "ddp_keep_fp8_transpose_cache": (False, "Megatron Core's default, of FSDP"),
    "ddp_pad_buckets_for_high_nccl_busbw": (False, "Megatron Core's default"),
    "opt_store_param_remainders": (True, "Megatron Core's default"),
    "opt_optimizer_cpu_offload": (False, "no recipe uses it"),
    "opt_optimizer_offload_fraction": (0.0, "no recipe uses it"),
    "sched_lr_warmup_samples": (0, "schedules count updates"),
    "moe_expert_capacity_factor": (None, "no recipe drops tokens"),
    "moe_pad_expert_input_to_capacity": (False, "no recipe drops tokens"),
    "moe_apply_probs_on_input": (False, "Megatron Core's default"),
    "moe_router_padding_for_fp8": (False, "the older name of moe_router_padding_for_quantization"),
    "transformer_impl": ("transformer_engine", "wherever it is installed"),
    "masked_softmax_fusion": (True, "of a softmax that no attention here calls"),
    "ckpt_save_set": (False, "the run directory"),
    "ckpt_load_set": (False, "the run directory"),
    "dist_use_megatron_fsdp": (False, "of FSDP"),
    "dist_use_tp_pp_dp_mapping": (False, "Megatron Core's order of ranks"),
    "dataset_data_sharding": (True, "every data parallel rank reads its own share"),
    "dataset_pin_memory": (True, "wherever there is a GPU"),
    "peft_a2a_experimental": (False, "no recipe uses it"),
    "peft_class": ("LoRA", "peft.scheme=lora"),
    "train_eval_interval": (None, "validation.eval_interval says it"),
    "use_tokenizer_vocab_size": (False, "the vocabulary is the tokenizer's"),
    "forward_step": ("llm_step", "a registry of its own"),
}
"""Column -> the only value that a row has in it, beside null, and why no field is compared with it."""

NO_FIELD = {
    **dict.fromkeys(
        (
            "dataset_class",
            "source_module",
            "obtained",
            "provider_source",
            "model_class",
            "model_set_basis",
            "resolved_stage",
        ),
        "how the row was made",
    ),
    **dict.fromkeys(("expert_layout_fits_num_gpus", "edp_derived"), "follows from other columns"),
    "persist_layer_norm": "of a norm that nothing here uses",
    "attention_backend": "null leaves the choice to Transformer Engine, as `auto` does here",
    "validation_eval_iters": "train_eval_iters takes its place",
    "moe_a2a_overlap": "the older name of comm_overlap.overlap_moe_expert_parallel_comm, which is what acts",
    **dict.fromkeys(
        ("freeze_language_model", "freeze_vision_model", "freeze_vision_projection"), "of multimodal recipes"
    ),
    **dict.fromkeys(("dataset_do_validation", "dataset_do_test"), "of rows: fine-tuning benchmarks read none here"),
    **dict.fromkeys(
        ("dataset_hf_processor_path", "dataset_pad_to_multiple_of", "dataset_in_batch_packing_pad_to_multiple_of"),
        "null in every row",
    ),
    "dataset_pad_to_max_length": "null in every row",
    "dataset_persistent_workers": "loaders here keep their workers",
    "comm_overlap_set": "whether there is the section: each of its columns says it",
    "ckpt_dist_ckpt_strictness": "how loading treats what a checkpoint has too much; here it names it",
    **dict.fromkeys(
        ("resolved_cuda_graph_impl", "resolved_cuda_graph_scope", "resolved_cuda_graph_modules"),
        "CUDA graphs are recorded, not acted on: nothing is derived from them",
    ),
    "resolved_optimizer_overlap_param_gather": "repeats resolved_ddp_overlap_param_gather for the optimizer",
    "model_set_by_recipe": "a table of its own",
    "env_vars": "a table of its own",
}
"""Column -> why no field is compared with it."""

SET_BY_RECIPE = (
    *("moe_paged_stash_buffer_size_factor_cuda", "moe_paged_stash_buffer_size_factor_cpu"),
    *("cpu_offloading_weights", "disable_parameter_transpose_cache", "external_cuda_graph", "fp8_output_proj"),
    *("fine_grained_offloading_max_inflight_offloads", "fused_single_qkv_rope", "tp_only_amax_red"),
    *("init_model_with_meta_device", "batch_p2p_comm", "overlap_p2p_comm", "position_embedding_type", "qk_clip"),
    *("rotary_base", "rotary_scaling_factor", "moe_paged_stash_page_size"),
    "overlap_dispatch_backward_with_experts_wgrad",
)
"""Further fields of `model` that some recipe sets; in all others they are the default, or part of the architecture."""

NOT_SET_HERE = {
    "_pipeline_model_parallel_layout_builder": "pipeline layouts are made anew where the topology changes",
    "pipeline_dtype": "decided by the runner",
    "should_pad_vocab": "it always is",
    "vocab_size": "follows from the tokenizer",
    "kv_channels": "of heads that multi-latent attention does not have",
    "yarn_original_max_position_embeddings": "of positions that the model does not have",
    "fp8_param": "mixed_precision.fp8_param_gather",
    "fp8_param_gather": "mixed_precision.fp8_param_gather",
}
"""Name in `model_set_by_recipe` -> why no field is compared with it."""


def differs(column: str, row: dict[str, Any]) -> tuple[bool, Any]:
    """Whether a value here is not the public one, and what it is instead; each case for a reason."""
    if column == "moe_router_dtype" and row[column] in ("float32", "bf16"):
        # Megatron Core knows fp32 and fp64; with any other word the router computes in the activations' type.
        return True, None
    if column == "resolved_ddp_overlap_param_gather" and not row["resolved_ddp_overlap_grad_reduce"]:
        # Without buckets there is nothing to gather behind.
        return True, False
    if column == "opt_use_precision_aware_optimizer":
        # Megatron Bridge's runner switches it on for benchmarks in bf16.
        return True, row[column] or (row["precision"] == "bf16" and row["optimizer"] == "adam")
    if column == "sequence_parallel" and row["tp"] == 1:
        # One tensor parallel rank has nothing to split.
        return True, False
    if column == "dataset_seq_length" and row[column] != row["seq_length"]:
        # The public rows say two lengths, which are one here: that of the model.
        return True, row["seq_length"]
    if column == "tokenizer_vocab_size" and row["tokenizer_type"] != "NullTokenizer":
        # Such a tokenizer knows its own size.
        return True, None
    if column == "resolved_eval_iters" and row["resolved_stage"] != "validated":
        # Its own validation had not come to it.
        return True, 0
    return False, None
