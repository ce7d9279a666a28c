"""The public recipes and models that this library's are compared with.

`data/MANIFEST.md` says where the rows come from. A table here names, for each column, the field that holds its number,
or why there is none.
"""

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def _rows(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


RECIPE_ROWS: dict[str, dict[str, Any]] = _rows("library_recipes.json")
MODEL_ROWS: dict[str, dict[str, Any]] = _rows("models.json")
PARAMETERS: dict[str, int] = _rows("parameters.json")

FIELDS = {
    "tp": "model.tensor_model_parallel_size",
    "pp": "model.pipeline_model_parallel_size",
    "vp": "model.virtual_pipeline_model_parallel_size",
    "cp": "model.context_parallel_size",
    "ep": "model.expert_model_parallel_size",
    "etp": "model.expert_tensor_parallel_size",
    "sequence_parallel": "model.sequence_parallel",
    "pipeline_layout": "model.pipeline_model_parallel_layout",
    "num_layers_in_first_pipeline_stage": "model.num_layers_in_first_pipeline_stage",
    "num_layers_in_last_pipeline_stage": "model.num_layers_in_last_pipeline_stage",
    "micro_batch_size": "train.micro_batch_size",
    "global_batch_size": "train.global_batch_size",
    "seq_length": "model.seq_length",
    "dataset_seq_length": "dataset.seq_length",
    "train_iters": "train.train_iters",
    "validation_eval_iters": "validation.eval_iters",
    "validation_eval_interval": "validation.eval_interval",
    "optimizer": "optimizer.optimizer",
    "opt_lr": "optimizer.lr",
    "opt_min_lr": "optimizer.min_lr",
    "opt_adam_beta1": "optimizer.adam_beta1",
    "opt_adam_beta2": "optimizer.adam_beta2",
    "opt_adam_eps": "optimizer.adam_eps",
    "opt_weight_decay": "optimizer.weight_decay",
    "opt_clip_grad": "optimizer.clip_grad",
    "opt_use_distributed_optimizer": "optimizer.use_distributed_optimizer",
    "opt_use_precision_aware_optimizer": "optimizer.use_precision_aware_optimizer",
    "opt_main_grads_dtype": "optimizer.main_grads_dtype",
    "opt_main_params_dtype": "optimizer.main_params_dtype",
    "opt_exp_avg_dtype": "optimizer.exp_avg_dtype",
    "opt_exp_avg_sq_dtype": "optimizer.exp_avg_sq_dtype",
    "sched_lr_decay_style": "scheduler.lr_decay_style",
    "sched_lr_warmup_iters": "scheduler.lr_warmup_iters",
    "sched_lr_decay_iters": "scheduler.lr_decay_iters",
    "sched_start_weight_decay": "scheduler.start_weight_decay",
    "sched_end_weight_decay": "scheduler.end_weight_decay",
    "mp_fp8": "mixed_precision.fp8",
    "mp_fp8_recipe": "mixed_precision.fp8_recipe",
    # Whatever the ddp section says: the precision sets it when a run starts.
    "mp_grad_reduce_in_fp32": "ddp.grad_reduce_in_fp32",
    "recompute_granularity": "model.recompute_granularity",
    "recompute_method": "model.recompute_method",
    "recompute_num_layers": "model.recompute_num_layers",
    "recompute_modules": "model.recompute_modules",
    "num_moe_experts": "model.num_moe_experts",
    "moe_token_dispatcher_type": "model.moe_token_dispatcher_type",
    "moe_flex_dispatcher_backend": "model.moe_flex_dispatcher_backend",
    "moe_permute_fusion": "model.moe_permute_fusion",
    "moe_grouped_gemm": "model.moe_grouped_gemm",
    "moe_router_fusion": "model.moe_router_fusion",
    "moe_router_dtype": "model.moe_router_dtype",
    "moe_router_load_balancing_type": "model.moe_router_load_balancing_type",
    "moe_aux_loss_coeff": "model.moe_aux_loss_coeff",
    "moe_shared_expert_overlap": "model.moe_shared_expert_overlap",
    "moe_hybridep_num_sms": "model.moe_hybridep_num_sms",
    "mtp_num_layers": "model.mtp_num_layers",
    "calculate_per_token_loss": "model.calculate_per_token_loss",
    "apply_rope_fusion": "model.apply_rope_fusion",
    "cross_entropy_fusion_impl": "model.cross_entropy_fusion_impl",
    "ddp_overlap_grad_reduce": "ddp.overlap_grad_reduce",
    "ddp_overlap_param_gather": "ddp.overlap_param_gather",
    "ddp_average_in_collective": "ddp.average_in_collective",
    "dataset_kind": "dataset.kind",
    "dataset_dataloader_type": "dataset.dataloader_type",
    "dataset_num_workers": "dataset.num_workers",
    "dataset_enable_offline_packing": "dataset.enable_offline_packing",
    "dataset_enable_in_batch_packing": "dataset.enable_in_batch_packing",
    "dataset_hf_validation_proportion": "dataset.hf_dataset.validation_proportion",
    "dataset_seed": "dataset.random_seed",
    "tokenizer_type": "tokenizer.tokenizer_type",
    "tokenizer_model": "tokenizer.tokenizer_model",
    "tokenizer_vocab_size": "tokenizer.vocab_size",
    "ckpt_save_interval": "checkpoint.save_interval",
    "ckpt_ckpt_format": "checkpoint.ckpt_format",
    "ckpt_async_save": "checkpoint.async_save",
    "ckpt_pretrained_checkpoint": "checkpoint.pretrained_checkpoint",
    "peft_class": "peft.scheme",
    "peft_dim": "peft.dim",
    "peft_alpha": "peft.alpha",
    "peft_dropout": "peft.dropout",
    "peft_target_modules": "peft.target_modules",
    "peft_exclude_modules": "peft.exclude_modules",
    "mp_fp8_param_gather": "mixed_precision.fp8_param_gather",
    "mp_first_last_layers_bf16": "mixed_precision.first_last_layers_bf16",
    "mp_fp4": "mixed_precision.fp4",
    "rng_seed": "rng.seed",
    "log_interval": "logger.log_interval",
}
"""Column -> field."""

NAMES = {"aliases", "task", "num_gpus", "hardware", "precision", "variant", "model_stem", "hf_model_id"}
"""Columns of what a recipe is called and was written for."""

NO_FIELD = {
    **dict.fromkeys(
        (
            "family",
            "source_module",
            "obtained",
            "provider_source",
            "model_class",
            "forward_step",
            "accepts",
            "dp_derived",
            "grad_accum_derived",
            "resolved_stage",
            "model_set_basis",
            "dataset_class",
            "mixed_precision_name",
            "use_tokenizer_vocab_size",
        ),
        "how the row was made, or what follows from other columns",
    ),
    **dict.fromkeys(("train_samples", "train_eval_iters"), "null in every row here"),
    **dict.fromkeys(
        (
            "cuda_graph_impl",
            "cuda_graph_scope",
            "cuda_graph_modules",
            "fine_grained_activation_offloading",
            "comm_overlap_set",
            "comm_tp_comm_overlap",
            "comm_tp_comm_overlap_cfg",
            "comm_overlap_moe_expert_parallel_comm",
            "comm_delay_wgrad_compute",
        ),
        "speed only, and not acted on",
    ),
    **dict.fromkeys(
        ("ddp_use_megatron_fsdp", "ddp_data_parallel_sharding_strategy"), "of FSDP, which no recipe here uses"
    ),
    "ddp_grad_reduce_in_fp32": "mp_grad_reduce_in_fp32 is what acts",
    "attention_backend": "null leaves the choice to Transformer Engine, as `auto` does here",
    "dataset_offline_packing_specs": "derived here from the topology",
    "dataset_hf_processor_path": "of multimodal data",
    **dict.fromkeys(
        ("freeze_language_model", "freeze_vision_model", "freeze_vision_projection"),
        "of other kinds of recipe; null in every row here",
    ),
    "model_set_by_recipe": "a table of its own",
    "env_vars": "a table of its own",
}
"""Column -> why no field is compared with it."""

NO_MODEL_FIELD = {
    **dict.fromkeys(
        (
            "transformer_impl",
            "pipeline_dtype",
            "use_te_rng_tracker",
            "_pipeline_model_parallel_layout_builder",
        ),
        "decided by the runner",
    ),
    **dict.fromkeys(
        (
            "cuda_graph_impl",
            "cuda_graph_scope",
            "cuda_graph_warmup_steps",
            "fine_grained_activation_offloading",
            "offload_modules",
            "high_priority_a2a_comm_stream",
            "moe_a2a_overlap",
            "moe_flex_dispatcher_num_sms",
            "moe_deepep_num_sms",
        ),
        "speed only, and not acted on",
    ),
    "pipeline_model_parallel_layout": "in a column of its own, as text",
    "moe_router_force_load_balancing": "false in every row here",
    "attention_backend": "null leaves the choice to Transformer Engine, as `auto` does here",
}
"""Name in `model_set_by_recipe` -> why no field is compared with it."""

DIFFERS = {
    # One tensor parallel rank has nothing to split.
    ("glm45_air_106b_pretrain_32gpu_h100_bf16_config", "model.sequence_parallel"): False,
    # The dataset owns the length, there too once a run starts.
    ("kimi_k2_pretrain_512gpu_h100_bf16_config", "model.seq_length"): 4096,
    # Every rank of a tensor parallel group would send the same tokens to the experts, and there are too few ranks to
    # split an expert between.
    **{
        (f"glm45_355b_{words}_h100_bf16_config", f"model.{name}"): value
        for words in ("sft_128gpu", "peft_16gpu")
        for name, value in (("sequence_parallel", True), ("expert_tensor_parallel_size", 1))
    },
    # No validation is a null interval.
    ("moonlight_16b_sft_8gpu_h100_bf16_8k_config", "validation.eval_interval"): None,
    # Latent attention has no such layer, and a name that matches nothing is refused.
    ("moonlight_16b_peft_2gpu_h100_bf16_config", "peft.target_modules"): ["linear_proj", "linear_fc1", "linear_fc2"],
    # The published weights have as many rows; padding comes on top, and is no part of the vocabulary.
    **{
        (f"moonlight_16b_{words}_config", "model.vocab_size"): 163_840
        for words in (
            *("sft_8gpu_h100_bf16", "sft_8gpu_h100_bf16_8k", "sft_8gpu_h100_bf16_tp1"),
            *("peft_2gpu_h100_bf16", "peft_4gpu_h100_bf16"),
        )
    },
}
"""Recipe and field -> its value here, where it is not the public one."""

FINETUNING_DIFFERS = {
    # A mean over micro-batches would weigh tokens unequally, and Megatron Core divides the sum once.
    "model.calculate_per_token_loss": True,
    "ddp.average_in_collective": False,
}
"""The same of every fine-tuning recipe."""

RENAMED = {"moe_router_padding_for_fp8": "moe_router_padding_for_quantization"}
"""Older name of a field of the model -> the one it has now."""

SPELLED = {"hf:squad": "squad", "hf:openmathinstruct2_thinking": "openmathinstruct2-thinking", "LoRA": "lora"}
"""Public spelling of a value -> ours."""
