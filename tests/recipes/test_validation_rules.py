"""Every rule refuses what it is there for, and lets its neighbour pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes_runs import LLAMA, refusal, run, says

from trainwright.recipes import ConfigError

TP, PP, CP = (f"model.{name}_parallel_size" for name in ("tensor_model", "pipeline_model", "context"))
VP = "model.virtual_pipeline_model_parallel_size"


def words(line: str) -> list[str]:
    """`tp=2 train.x=3` with short names for the sizes of the grid."""
    short = {"tp": TP, "pp": PP, "cp": CP, "vp": VP, "gb": "train.global_batch_size", "mb": "train.micro_batch_size",
             "sl": "dataset.seq_length", "heads": "model.num_attention_heads", "groups": "model.num_query_groups",
             "layers": "model.num_layers", "hidden": "model.hidden_size", "ffn": "model.ffn_hidden_size"}  # fmt: skip
    return [f"{short.get(key, key)}={text}" for key, _, text in (word.partition("=") for word in line.split())]


@pytest.mark.parametrize(
    ("line", "world_size", "parts"),
    [
        ("tp=8 pp=2", 8, ("world size 8 is not a multiple of 16", "tensor 8 x pipeline 2 x context 1")),
        ("tp=2", 3, ("world size 3 is not a multiple of 2",)),
        ("heads=10 hidden=640 tp=4", 4, ("model.num_attention_heads=10", f"{TP}=4")),
        ("ffn=1001 tp=2", 2, ("model.ffn_hidden_size=1001", f"{TP}=2")),
        ("groups=3 tp=2 heads=12", 2, ("model.num_query_groups=3", "neither a multiple nor a divisor")),
        ("groups=5", 1, ("num_attention_heads=12", "num_query_groups=5")),
        ("heads=7", 1, ("model.hidden_size=768", "num_attention_heads=7", "model.kv_channels")),
        ("layers=6 pp=4", 4, ("model.num_layers=6", "4 pipeline stages")),
        ("layers=6 pp=2 vp=2", 2, ("model.num_layers=6", "the 3 blocks of a pipeline stage", "2 model chunks")),
        ("vp=2", 1, (f"{VP}=2", "-pp")),
        ("pp=2 vp=2 gb=6 mb=2", 2, ("makes 3 micro-batches", "2 stages", "a multiple of 4")),
        ("cp=2 sl=1022", 2, ("dataset.seq_length=1022", "4 = 2 x model.context_parallel_size=2")),
        ("tp=2 model.sequence_parallel=true sl=1023", 2, ("dataset.seq_length=1023", "sequence parallelism")),
        ("model.sequence_parallel=true", 1, ("model.sequence_parallel=true", "-tp")),
        ("model.expert_model_parallel_size=2", 2, ("expert_model_parallel_size=2", "dense")),
        ("model.expert_tensor_parallel_size=2", 2, ("expert_tensor_parallel_size=2", "dense")),
        ("model.overlap_p2p_comm=true pp=2", 2, ("overlap_p2p_comm", "interleaved")),
        ("gb=33", 1, ("train.global_batch_size=33", "multiple of 2", "32 or 34")),
        ("gb=3 mb=4", 1, ("nearest is 4",)),
        ("gb=32 mb=2", 32, ("multiple of 64", "nearest is 64")),
        ("sl=512 model.seq_length=256", 1, ("model.seq_length=256", "dataset.seq_length=512", "-sl")),
        ("model.max_position_embeddings=512", 1, ("max_position_embeddings=512", "dataset.seq_length=1024")),
        ("model.position_embedding_type=rope hidden=84 heads=4", 1, ("model.kv_channels=21", "even")),
        (
            "model.position_embedding_type=rope model.rope_scaling=true model.rope_scaling_high_freq_factor=1",
            1,
            ("rope_scaling_high_freq_factor=1.0", "low_freq_factor=1.0"),
        ),
        ("model.recompute_granularity=full", 1, ("recompute_method", "recompute_num_layers")),
        (
            "model.recompute_granularity=full model.recompute_method=block model.recompute_num_layers=7 pp=2",
            2,
            ("model.recompute_num_layers=7", "6 layers"),
        ),
        ("model.recompute_granularity=selective model.recompute_num_layers=1", 1, ("belongs to", "full")),
        ("model.recompute_granularity=selective model.recompute_modules=[moe]", 1, ("'moe'", "core_attn")),
        ("model.window_size=[4,4]", 1, ("window_size", "[LEFT,0]")),
        ("model.vocab_size=100", 1, ("model.vocab_size=100", "32000")),
        ("tokenizer.vocab_size=null", 1, ("tokenizer.vocab_size is null", "NullTokenizer")),
        ("tokenizer.tokenizer_type=ByteLevelTokenizer tokenizer.vocab_size=9", 1, ("has no effect", "ByteLevel")),
        ("tokenizer.tokenizer_type=HuggingFaceTokenizer", 1, ("needs tokenizer.tokenizer_model=PATH",)),
        ("tokenizer.tokenizer_model=/x", 1, ("tokenizer.tokenizer_model has no effect", "NullTokenizer")),
        ("dataset.data_path=/x", 1, ("no effect on mock data", "megatron-indexed")),
        ("dataset.kind=megatron-indexed", 1, ("needs dataset.data_path=PREFIX", "never falls back to mock")),
        ("dataset.split=a", 1, ("dataset.split='a'", "9999,8,2")),
        ("dataset.split=90,abc5,5", 1, ("'90,abc5,5'",)),
        ("dataset.split=-1,1,0", 1, ("'-1,1,0'",)),
        ("dataset.split=0,1", 1, ("first above zero",)),
        ("dataset.split=1,2,3,4", 1, ("one to three shares",)),
        ("dataset.split=nan", 1, ("'nan'",)),
        ("dataset.split=null", 1, ("dataset.split is null",)),
        ("train.train_iters=10", 1, ("lr_warmup_iters=500", "lr_decay_iters=10", "--warmup_iters")),
        ("scheduler.lr_decay_style=WSD", 1, ("needs scheduler.lr_wsd_decay_iters",)),
        (
            "scheduler.lr_decay_style=WSD scheduler.lr_wsd_decay_iters=299900",
            1,
            ("lr_wsd_decay_iters=299900", "lr_warmup_iters=500", "lr_decay_iters=300000"),
        ),
        ("optimizer.lr=1e-5", 1, ("optimizer.min_lr=3e-05", "optimizer.lr=1e-05", "--min_lr")),
        ("scheduler.lr_warmup_init=1", 1, ("lr_warmup_init=1.0", "optimizer.lr=0.0003")),
        ("scheduler.end_weight_decay=0.1", 1, ("start_weight_decay=0.033", "weight_decay_incr_style")),
        (
            "scheduler.end_weight_decay=0.01 scheduler.weight_decay_incr_style=linear",
            1,
            ("end_weight_decay=0.01", "below"),
        ),
        ("optimizer.use_distributed_optimizer=false ddp.overlap_param_gather=true", 1, ("overlap_param_gather",)),
        ("ddp.overlap_grad_reduce=false ddp.overlap_param_gather=true", 1, ("overlap_param_gather=true",)),
        (
            "profiling.use_pytorch_profiler=true profiling.profile_step_start=5 profiling.profile_step_end=5",
            1,
            ("profile_step_end=5",),
        ),
        ("profiling.use_pytorch_profiler=true profiling.profile_ranks=[1]", 1, ("ranks are 0 to 0",)),
        ("mixed_precision={bf16:true,fp16:true}", 1, ("exclude each other",)),
        ("mixed_precision.fp8=hybrid", 1, ("mixed_precision.fp8=hybrid needs a GPU",)),
        ("mixed_precision=fp16_mixed", 1, ("fp16=true needs a GPU",)),
        ("dist.distributed_backend=nccl", 1, ("nccl needs GPUs", "gloo")),
        ("model.apply_rope_fusion=true", 1, ("model.apply_rope_fusion=true needs a GPU",)),
        ("model.cross_entropy_loss_fusion=true", 1, ("cross_entropy_loss_fusion=true needs a GPU",)),
        ("ddp.average_in_collective=true", 1, ("average_in_collective=true needs a GPU",)),
        (
            "model.recompute_granularity=selective model.recompute_modules=[mlp,layernorm]",
            1,
            ("recompute_modules: layernorm needs a GPU",),
        ),
        ("model.attention_backend=flash", 1, ("attention_backend=flash needs a GPU",)),
        ("optimizer.use_precision_aware_optimizer=true", 1, ("needs a GPU",)),
    ],
)
def test_a_run_that_cannot_work_is_refused(line: str, world_size: int, parts: tuple[str, ...]) -> None:
    """The line names the fields, their values and what is allowed."""
    says(refusal(*words(line), world_size=world_size), *parts)


@pytest.mark.parametrize(
    ("line", "world_size"),
    [
        ("tp=4 pp=2 cp=2 model.sequence_parallel=true", 16),
        ("tp=4 groups=2", 4),
        ("tp=4 groups=1", 4),
        ("pp=2 vp=2 gb=32 mb=2", 2),
        ("pp=2 vp=1", 2),
        ("vp=1", 1),
        ("cp=2 sl=1024", 2),
        ("heads=7 model.kv_channels=64", 1),
        ("model.vocab_size=40000", 1),
        ("dataset.split=1", 1),
        ("dataset.split=98,1.5,.5", 1),
        ("train.train_iters=10 scheduler.lr_warmup_iters=0", 1),
        ("scheduler.lr_decay_style=WSD scheduler.lr_wsd_decay_iters=1000", 1),
        ("scheduler.end_weight_decay=0.1 scheduler.weight_decay_incr_style=linear", 1),
        ("model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1", 1),
        ("model.expert_model_parallel_size=1 model.num_moe_experts=null", 1),
    ],
)
def test_its_neighbour_passes(line: str, world_size: int) -> None:
    assert not run(*words(line), world_size=world_size).warnings


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("", ("needs dataset.data_path=PREFIX", "never falls back to mock")),
        ("dataset.data_path=[]", ("dataset.data_path is empty",)),
        ("dataset.valid_data_path=/v", ("valid_data_path without dataset.train_data_path",)),
        ("dataset.data_path=/d dataset.train_data_path=/t", ("exclude each other",)),
        ("dataset.train_data_path=/t dataset.split=1,1,1", ("dataset.split has no effect",)),
    ],
)
def test_indexed_data_names_its_prefixes_in_one_way(line: str, parts: tuple[str, ...]) -> None:
    says(refusal(*words(line), dataset="megatron-indexed"), *parts)


@pytest.mark.parametrize(
    "line",
    [
        "dataset.data_path=/d",
        "dataset.data_path=[/d/a=b,/d/c#d]",
        "dataset.data_path=[0.3,/a,0.7,/b]",
        "dataset.train_data_path=/t dataset.valid_data_path=[/v]",
        "dataset.train_data_path=/t dataset.split=null",
    ],
)
def test_indexed_data_takes_a_prefix_a_list_weights_and_splits(line: str) -> None:
    assert run(*words(line), dataset="megatron-indexed").config.dataset.kind == "megatron-indexed"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("model.rotary_base=5", "model.rotary_base"),
        ("model.rope_scaling=true", "model.rope_scaling"),
        ("model.glu_linear_offset=1", "model.glu_linear_offset"),
        ("model.add_qkv_bias=true", "model.add_qkv_bias"),
        ("model.cross_entropy_fusion_impl=te", "model.cross_entropy_fusion_impl"),
        ("model.recompute_num_layers=1", "model.recompute_num_layers"),
        ("model.recompute_modules=[mlp]", "model.recompute_modules"),
        ("model.batch_p2p_comm=false", "model.batch_p2p_comm"),
        ("optimizer.sgd_momentum=0.5", "optimizer.sgd_momentum"),
        ("optimizer.optimizer=sgd optimizer.adam_beta1=0.8", "optimizer.adam_beta1"),
        ("scheduler.lr_decay_style=constant optimizer.min_lr=0", "optimizer.min_lr"),
        ("scheduler.lr_warmup_iters=0 scheduler.lr_warmup_init=0", "scheduler.lr_warmup_init"),
        ("scheduler.lr_wsd_decay_iters=5", "scheduler.lr_wsd_decay_iters"),
        ("validation.eval_interval=null validation.eval_iters=3", "validation.eval_iters"),
        ("validation.eval_iters=0 validation.eval_interval=3", "validation.eval_interval"),
        ("validation.eval_interval=400000", "validation.eval_interval"),
        ("dataset.path_to_cache=/x", "dataset.path_to_cache"),
        ("ddp.bucket_size=100", "ddp.bucket_size"),
        ("logger.wandb_entity=x", "logger.wandb_entity"),
        ("profiling.profile_ranks=[0]", "profiling.profile_ranks"),
    ],
)
def test_a_setting_that_nothing_reads_is_named(line: str, named: str) -> None:
    """It is taken, and one warning says that it has no effect and what it would need."""
    warnings = run(*words(line)).warnings
    assert len(warnings) == 1
    says(warnings[0], f"{named} has no effect without ")


def test_sixteen_bits_on_a_cpu_come_with_a_warning() -> None:
    assert "20 times slower" in run("mixed_precision=bf16_mixed").warnings[0]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("model.bias_activation_fusion=true model.activation_func=relu", ("activation_func=relu", "gelu, silu")),
        ("model.bias_activation_fusion=true model.add_bias_linear=false", ("add_bias_linear=true",)),
        (
            "optimizer.use_precision_aware_optimizer=true optimizer.use_distributed_optimizer=false",
            ("needs optimizer.use_distributed_optimizer",),
        ),
    ],
)
def test_what_a_gpu_can_do_has_rules_too(line: str, parts: tuple[str, ...]) -> None:
    says(refusal(*words(line), device="cuda"), *parts)


@pytest.mark.parametrize(
    "word",
    [
        "model.moe_expert_capacity_factor=1.5",
        "model.mtp_use_repeated_layer=true",
        "model.mamba_num_heads=4",
        "model.cuda_graph_impl=local",
        "model.enable_cuda_graph=true",
        "model.cpu_offloading=true",
        "model.tp_comm_overlap_ag=false",
        "comm_overlap.tp_comm_overlap=true",
        "ddp.use_megatron_fsdp=true",
        "model.deallocate_pipeline_outputs=true",
    ],
)
def test_a_field_of_megatron_core_that_does_not_act_here_is_refused(word: str) -> None:
    says(refusal(word, device="cuda"), word.partition("=")[0], "not available yet")


@pytest.mark.parametrize(
    ("word", "owner"),
    [
        ("model.bf16=true", "mixed_precision.bf16"),
        ("model.fp8=null", "mixed_precision.fp8"),
        ("model.fp8_margin=1", "mixed_precision.fp8_margin"),
        ("model.fp4_param=true", "mixed_precision.fp4_param_gather"),
        ("model.tp_comm_overlap=true", "comm_overlap.tp_comm_overlap"),
    ],
)
def test_a_field_of_megatron_core_that_another_section_owns_is_pointed_there(word: str, owner: str) -> None:
    says(refusal(word), f"{word.partition('=')[0]} is set by {owner}")


@given(
    st.sampled_from([1, 2, 3, 4, 6, 8]),
    st.sampled_from([1, 2, 3, 4, 8]),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([1, 2, 3, 4]),
    st.integers(1, 96),
    st.integers(1, 8),
    st.integers(1, 200),
)
def test_an_accepted_grid_divides_everything(
    tp: int, pp: int, vp: int | None, cp: int, world: int, micro: int, batch: int
) -> None:
    """Property: a run that is accepted splits ranks, batch, layers, heads and sequence without a remainder."""
    line = f"tp={tp} pp={pp} cp={cp} vp={'null' if vp is None else vp} mb={micro} gb={batch} sl=96 layers=24"
    try:
        resolved = run(*words(line), world_size=world, recipe=LLAMA)
    except ConfigError as error:
        assert "\n" not in str(error)
        return
    model, data_parallel = resolved.config.model, resolved.data_parallel_size
    assert tp * pp * cp * data_parallel == world
    assert resolved.num_microbatches * micro * data_parallel == batch
    assert model.num_layers % (pp * (vp or 1)) == 0
    assert model.num_attention_heads % tp == 0
    assert cp == 1 or 96 % (2 * cp) == 0
    assert (vp or 1) == 1 or (pp > 1 and resolved.num_microbatches % pp == 0)
