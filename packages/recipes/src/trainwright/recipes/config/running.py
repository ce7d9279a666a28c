"""`ddp`, `comm_overlap`, `dist`, `checkpoint`, `logger`, `profiling`: how the run is carried out."""

from typing import Literal

from pydantic import Field

from trainwright.recipes.config.section import Section


class DdpConfig(Section):
    """`ddp`: Megatron Core's `DistributedDataParallelConfig`, the part that runs here."""

    grad_reduce_in_fp32: bool = True
    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False
    """Needs the distributed optimizer."""
    average_in_collective: bool = False
    use_distributed_optimizer: bool = False
    """The same switch as `optimizer.use_distributed_optimizer`; setting one sets the other."""
    bucket_size: int | None = Field(default=None, ge=1)
    """Parameters of one gradient bucket."""
    align_param_gather: bool = False
    """All pipeline stages gather their weights at the same moment."""
    num_distributed_optimizer_instances: int = Field(default=1, ge=1)
    """Groups of data parallel ranks that each hold a whole optimizer state between them."""
    nccl_ub: bool = False
    """Gradient and weight buffers are registered with NCCL."""
    use_megatron_fsdp: bool = False
    """Weights and gradients are split between data parallel ranks too; the fields below are of it alone."""
    data_parallel_sharding_strategy: Literal["no_shard", "optim", "optim_grads", "optim_grads_params"] = "no_shard"
    """What is split."""
    outer_dp_sharding_strategy: Literal["no_shard", "optim"] = "no_shard"
    """What is split between groups of ranks that each hold the whole model."""
    fsdp_double_buffer: bool = False
    fsdp_manual_registration: bool = False
    suggested_communication_unit_size: int | None = Field(default=None, ge=1)
    """Elements of one collective."""


class CommOverlapConfig(Section):
    """`comm_overlap`: which communication hides behind computation. Null: what `ddp` and `model` say of it.

    Null fields are decided by the topology: reductions and gathers overlap where there are several data parallel ranks,
    sends between pipeline stages where the pipeline is interleaved.
    """

    tp_comm_overlap: bool = False
    """Tensor parallel collectives hide behind matrix products, through Transformer Engine's user buffers."""
    tp_comm_overlap_cfg: str | None = None
    """Name of the table that says how, for one model on one kind of GPU."""
    tp_comm_bootstrap_backend: Literal["nccl", "gloo", "mpi"] = "nccl"
    overlap_grad_reduce: bool | None = None
    overlap_param_gather: bool | None = None
    overlap_param_gather_with_optimizer_step: bool | None = None
    align_param_gather: bool | None = None
    defer_embedding_wgrad_compute: bool = False
    """The output layer's gradients are computed while the pipeline drains."""
    wgrad_deferral_limit: int = Field(default=-1, ge=-1)
    """Micro-batches that wait at most; -1 means all."""
    overlap_moe_expert_parallel_comm: bool = False
    """Tokens of one micro-batch travel to experts while those of another are computed."""
    delay_wgrad_compute: bool = False
    """Gradients of weights are computed apart from those of activations, to fill what is left."""


class DistConfig(Section):
    """`dist`: process groups."""

    distributed_backend: Literal["nccl", "gloo"] = "nccl"
    distributed_timeout_minutes: int = Field(default=10, ge=1)


class CheckpointConfig(Section):
    """`checkpoint`: what is saved and what a run starts from."""

    save: str | None = None
    """Folder; null means `checkpoints` in the run directory."""
    load: str | None = None
    """Folder to start from; null means `checkpoint.save`, where a run resumes itself."""
    save_interval: int | None = Field(default=None, ge=1)
    """Updates between two checkpoints; null means one at the end only."""
    most_recent_k: int = Field(default=-1, ge=-1)
    """Complete checkpoints kept; -1 keeps all."""
    async_save: bool = False
    save_optim: bool = True
    save_rng: bool = True
    load_optim: bool = True
    load_rng: bool = True
    ckpt_step: int | None = Field(default=None, ge=1)
    """Load this step and not the latest complete one."""
    ckpt_format: Literal["torch_dist"] = "torch_dist"
    pretrained_checkpoint: str | None = None
    """Weights to start from: a Hugging Face directory or a native checkpoint. Counters and optimizer start at zero."""
    fully_parallel_save: bool = True
    """Data parallel ranks share the writing."""


class LoggerConfig(Section):
    """`logger`: what the run leaves behind and shows."""

    run_dir: str | None = None
    """The run directory; null means `runs/<recipe>-<time>-<id>`."""
    log_interval: int = Field(default=10, ge=1)
    """Updates of one window of the session log."""
    tensorboard_dir: str | None = None
    """Null means `tb_logs` in the run directory."""
    save_config_filepath: str | None = None
    """Null means `configs/ConfigContainer.yaml` in the run directory."""
    wandb_project: str | None = None
    """Set: the run is also logged to Weights & Biases (needs the wandb package)."""
    wandb_entity: str | None = None
    wandb_exp_name: str | None = None


class ProfilingConfig(Section):
    """`profiling`: a PyTorch profiler trace of some updates, on the ranks named."""

    use_pytorch_profiler: bool = False
    profile_step_start: int = Field(default=10, ge=0)
    """Successful updates before the first profiled one."""
    profile_step_end: int = Field(default=12, ge=1)
    """The last profiled update."""
    profile_ranks: list[int] = Field(default_factory=lambda: [0])
