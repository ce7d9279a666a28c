"""Settings that a user typed and that nothing will read: each is named in a warning."""

from collections.abc import Callable, Iterator

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.model import YARN_FIELDS
from trainwright.recipes.validate.plan import Plan

Condition = Callable[[ConfigContainer], bool]


def _rotary(config: ConfigContainer) -> bool:
    return config.model.position_embedding_type in ("rope", "yarn")


def _plain_rotary(config: ConfigContainer) -> bool:
    return config.model.position_embedding_type == "rope" and not config.model.multi_latent_attention


def _scaled_rotary(config: ConfigContainer) -> bool:
    return _plain_rotary(config) and config.model.rope_scaling


def _yarn(config: ConfigContainer) -> bool:
    return config.model.position_embedding_type == "yarn"


def _latent(config: ConfigContainer) -> bool:
    return config.model.multi_latent_attention


def _latent_yarn(config: ConfigContainer) -> bool:
    return _latent(config) and config.model.rope_type == "yarn"


def _windowed(config: ConfigContainer) -> bool:
    return config.model.window_size is not None


def _experts(config: ConfigContainer) -> bool:
    return config.model.num_moe_experts is not None


def _shared_experts(config: ConfigContainer) -> bool:
    return _experts(config) and config.model.moe_shared_expert_intermediate_size is not None


def _expert_bias(config: ConfigContainer) -> bool:
    return _experts(config) and config.model.moe_router_enable_expert_bias


def _auxiliary_loss(config: ConfigContainer) -> bool:
    return _experts(config) and config.model.moe_router_load_balancing_type != "none"


def _flexible(config: ConfigContainer) -> bool:
    return _experts(config) and config.model.moe_token_dispatcher_type == "flex"


def _predicts_further(config: ConfigContainer) -> bool:
    return config.model.mtp_num_layers is not None


def _learned(config: ConfigContainer) -> bool:
    return config.model.position_embedding_type == "learned_absolute"


def _gated(config: ConfigContainer) -> bool:
    return config.model.gated_linear_unit


def _unbiased(config: ConfigContainer) -> bool:
    return not config.model.add_bias_linear


def _fused_cross_entropy(config: ConfigContainer) -> bool:
    return config.model.cross_entropy_loss_fusion


def _full_recomputation(config: ConfigContainer) -> bool:
    return config.model.recompute_granularity == "full"


def _selective_recomputation(config: ConfigContainer) -> bool:
    return config.model.recompute_granularity == "selective"


def _pipelined(config: ConfigContainer) -> bool:
    return config.model.pipeline_model_parallel_size > 1


def _adam(config: ConfigContainer) -> bool:
    return config.optimizer.optimizer != "sgd"


def _sgd(config: ConfigContainer) -> bool:
    return config.optimizer.optimizer == "sgd"


def _muon(config: ConfigContainer) -> bool:
    return config.optimizer.optimizer in ("muon", "dist_muon")


def _clips_logits(config: ConfigContainer) -> bool:
    return bool((config.model.model_extra or {}).get("qk_clip"))


def _decays(config: ConfigContainer) -> bool:
    return config.scheduler.lr_decay_style != "constant"


def _warms_up(config: ConfigContainer) -> bool:
    return config.scheduler.lr_warmup_iters > 0


def _wsd(config: ConfigContainer) -> bool:
    return config.scheduler.lr_decay_style == "WSD"


def _validates(config: ConfigContainer) -> bool:
    return config.validation.eval_interval is not None


def _has_validation_batches(config: ConfigContainer) -> bool:
    return config.validation.eval_iters > 0


def _validates_in_time(config: ConfigContainer) -> bool:
    return (config.validation.eval_interval or 0) <= config.train.train_iters


def _reads_files(config: ConfigContainer) -> bool:
    return config.dataset.kind != "mock"


def _validates_rows(config: ConfigContainer) -> bool:
    return config.dataset.do_validation


def _packs_offline(config: ConfigContainer) -> bool:
    return config.dataset.enable_offline_packing


def _pads(config: ConfigContainer) -> bool:
    return not (config.dataset.enable_offline_packing or config.dataset.enable_in_batch_packing)


def _completes(config: ConfigContainer) -> bool:
    return config.dataset.preprocessing.style == "prompt-completion"


def _chats(config: ConfigContainer) -> bool:
    return config.dataset.preprocessing.style == "chat"


def _overlaps_reduction(config: ConfigContainer) -> bool:
    return config.ddp.overlap_grad_reduce


def _logs_to_wandb(config: ConfigContainer) -> bool:
    return config.logger.wandb_project is not None


def _profiles(config: ConfigContainer) -> bool:
    return config.profiling.use_pytorch_profiler


# Fields, when somebody reads them, and what to say where nobody does.
TABLE: tuple[tuple[tuple[str, ...], Condition, str], ...] = (
    (
        ("model.rotary_base", "model.rotary_percent"),
        _rotary,
        "model.position_embedding_type=rope",
    ),
    (("model.rope_scaling",), _plain_rotary, "model.position_embedding_type=rope and heads of the plain kind"),
    (
        tuple(f"model.{name}" for name in YARN_FIELDS),
        _yarn,
        "model.position_embedding_type=yarn",
    ),
    (
        tuple(
            f"model.{name}"
            for name in (
                "q_lora_rank",
                "kv_lora_rank",
                "qk_head_dim",
                "qk_pos_emb_head_dim",
                "v_head_dim",
                "rope_type",
            )
        ),
        _latent,
        "model.multi_latent_attention=true",
    ),
    (
        tuple(
            f"model.{name}"
            for name in (
                "rotary_scaling_factor",
                "original_max_position_embeddings",
                "beta_fast",
                "beta_slow",
                "mscale",
                "mscale_all_dim",
            )
        ),
        _latent_yarn,
        "model.multi_latent_attention=true and model.rope_type=yarn",
    ),
    (("model.window_attn_skip_freq",), _windowed, "model.window_size"),
    (
        tuple(
            f"model.moe_{name}"
            for name in (
                "layer_freq",
                "ffn_hidden_size",
                "shared_expert_intermediate_size",
                "router_topk",
                "router_score_function",
                "router_pre_softmax",
                "router_num_groups",
                "router_group_topk",
                "router_topk_scaling_factor",
                "router_enable_expert_bias",
                "router_dtype",
                "router_load_balancing_type",
                "z_loss_coeff",
                "grouped_gemm",
                "permute_fusion",
                "router_fusion",
                "token_dispatcher_type",
            )
        ),
        _experts,
        "model.num_moe_experts",
    ),
    (
        ("model.moe_shared_expert_gate", "model.moe_shared_expert_overlap"),
        _shared_experts,
        "model.moe_shared_expert_intermediate_size",
    ),
    (("model.moe_router_bias_update_rate",), _expert_bias, "model.moe_router_enable_expert_bias=true"),
    (("model.moe_aux_loss_coeff",), _auxiliary_loss, "experts and a model.moe_router_load_balancing_type"),
    (
        ("model.moe_flex_dispatcher_backend", "model.moe_hybridep_num_sms"),
        _flexible,
        "model.moe_token_dispatcher_type=flex",
    ),
    (("model.mtp_loss_scaling_factor",), _predicts_further, "model.mtp_num_layers"),
    (
        (
            "model.num_layers_in_first_pipeline_stage",
            "model.num_layers_in_last_pipeline_stage",
            "model.account_for_embedding_in_pipeline_split",
            "model.account_for_loss_in_pipeline_split",
        ),
        _pipelined,
        "model.pipeline_model_parallel_size of 2 or more",
    ),
    (
        (
            "model.rope_scaling_factor",
            "model.rope_scaling_low_freq_factor",
            "model.rope_scaling_high_freq_factor",
            "model.rope_scaling_original_max_position_embeddings",
        ),
        _scaled_rotary,
        "model.rope_scaling=true",
    ),
    (("model.max_position_embeddings",), _learned, "model.position_embedding_type=learned_absolute"),
    (("model.glu_linear_offset", "model.activation_func_clamp_value"), _gated, "model.gated_linear_unit=true"),
    (("model.add_qkv_bias",), _unbiased, "model.add_bias_linear=false"),
    (("model.cross_entropy_fusion_impl",), _fused_cross_entropy, "model.cross_entropy_loss_fusion=true"),
    (
        ("model.recompute_method", "model.recompute_num_layers"),
        _full_recomputation,
        "model.recompute_granularity=full",
    ),
    (("model.recompute_modules",), _selective_recomputation, "model.recompute_granularity=selective"),
    (("model.batch_p2p_comm", "model.batch_p2p_sync"), _pipelined, "model.pipeline_model_parallel_size of 2 or more"),
    (
        ("optimizer.adam_beta1", "optimizer.adam_beta2", "optimizer.adam_eps"),
        _adam,
        "optimizer.optimizer=adam or muon",
    ),
    (("optimizer.sgd_momentum",), _sgd, "optimizer.optimizer=sgd"),
    (
        tuple(
            f"optimizer.muon_{name}"
            for name in (
                "momentum",
                "nesterov",
                "split_qkv",
                "num_ns_steps",
                "coefficient_type",
                "scale_mode",
                "extra_scale_factor",
                "tp_mode",
                "fp32_matmul_prec",
            )
        ),
        _muon,
        "optimizer.optimizer=muon",
    ),
    (("model.qk_clip_threshold", "model.qk_clip_alpha"), _clips_logits, "model.qk_clip=true"),
    (("optimizer.min_lr",), _decays, "a scheduler.lr_decay_style that decays"),
    (("scheduler.lr_warmup_init",), _warms_up, "scheduler.lr_warmup_iters above 0"),
    (("scheduler.lr_wsd_decay_iters", "scheduler.lr_wsd_decay_style"), _wsd, "scheduler.lr_decay_style=WSD"),
    (("validation.eval_iters",), _validates, "validation.eval_interval"),
    (("validation.eval_interval",), _has_validation_batches, "validation.eval_iters above 0"),
    (("validation.eval_interval",), _validates_in_time, "train.train_iters of at least as many updates"),
    (("validation.eval_interval", "validation.eval_iters"), _validates_rows, "dataset.do_validation=true"),
    (("dataset.path_to_cache", "dataset.mmap_bin_files"), _reads_files, "a dataset that is read from files"),
    # Rotary positions enter as differences, which a new count does not change within a document.
    (("dataset.reset_position_ids",), _learned, "model.position_embedding_type=learned_absolute"),
    (
        tuple(
            f"dataset.preprocessing.{name}"
            for name in ("prompt_column", "completion_column", "separator", "add_bos", "add_eos")
        ),
        _completes,
        "dataset.preprocessing.style=prompt-completion",
    ),
    (
        tuple(f"dataset.preprocessing.{name}" for name in ("messages_column", "tools_column", "chat_template")),
        _chats,
        "dataset.preprocessing.style=chat",
    ),
    (
        tuple(
            f"dataset.offline_packing_specs.{name}" for name in ("packed_sequence_size", "pad_seq_to_mult", "algorithm")
        ),
        _packs_offline,
        "dataset.enable_offline_packing=true",
    ),
    (("dataset.dataset_kwargs.pad_to_max_length",), _pads, "unpacked sequences"),
    (("ddp.bucket_size",), _overlaps_reduction, "ddp.overlap_grad_reduce=true"),
    (("logger.wandb_entity", "logger.wandb_exp_name"), _logs_to_wandb, "logger.wandb_project"),
    (
        ("profiling.profile_step_start", "profiling.profile_step_end", "profiling.profile_ranks"),
        _profiles,
        "profiling.use_pytorch_profiler=true",
    ),
)


def idle_settings_are_named(plan: Plan) -> None:
    """Warn of each typed field that nothing reads."""
    for path, needs in _idle(plan):
        plan.draft.warn(f"{path} has no effect without {needs}")


def _idle(plan: Plan) -> Iterator[tuple[str, str]]:
    for paths, is_read, needs in TABLE:
        if not is_read(plan.config):
            yield from ((path, needs) for path in paths if plan.draft.typed(path))


RULES = (idle_settings_are_named,)
