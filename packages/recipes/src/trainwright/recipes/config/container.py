"""The configuration of a run as one tree."""

from pydantic import Field

from trainwright.recipes.config.data import DatasetConfig, TokenizerConfig
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.config.peft import PeftConfig
from trainwright.recipes.config.running import (
    CheckpointConfig,
    CommOverlapConfig,
    DdpConfig,
    DistConfig,
    LoggerConfig,
    ProfilingConfig,
)
from trainwright.recipes.config.section import Section
from trainwright.recipes.config.training import (
    MixedPrecisionConfig,
    OptimizerConfig,
    RngConfig,
    SchedulerConfig,
    TrainConfig,
    ValidationConfig,
)


class ConfigContainer(Section):
    """Everything that shapes a run. Section names are Megatron Bridge's."""

    model: ModelConfig
    train: TrainConfig
    validation: ValidationConfig = Field(default_factory=ValidationConfig)
    peft: PeftConfig | None = None
    dataset: DatasetConfig
    optimizer: OptimizerConfig
    scheduler: SchedulerConfig = Field(default_factory=SchedulerConfig)
    ddp: DdpConfig = Field(default_factory=DdpConfig)
    comm_overlap: CommOverlapConfig | None = None
    dist: DistConfig = Field(default_factory=DistConfig)
    checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)
    logger: LoggerConfig = Field(default_factory=LoggerConfig)
    tokenizer: TokenizerConfig = Field(default_factory=TokenizerConfig)
    rng: RngConfig = Field(default_factory=RngConfig)
    mixed_precision: MixedPrecisionConfig = Field(default_factory=MixedPrecisionConfig)
    profiling: ProfilingConfig = Field(default_factory=ProfilingConfig)
    env_vars: dict[str, str] = Field(default_factory=dict)
    """Environment of the training process; a variable that is already set keeps its value."""
