"""What the rules look at."""

from dataclasses import dataclass

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.device_layer import DeviceKind
from trainwright.recipes.draft import Draft
from trainwright.recipes.library import Recipe
from trainwright.recipes.packing import alignment
from trainwright.recipes.presets import ROW_KINDS


@dataclass(frozen=True)
class Plan:
    """A complete, typed configuration and the place where it is to run."""

    config: ConfigContainer
    draft: Draft
    """Where each value came from; rules add warnings here."""
    world_size: int
    device: DeviceKind
    recipe: Recipe
    """What was selected."""

    @property
    def model_ranks(self) -> int:
        """Ranks that hold one copy of the model: TP * PP * CP."""
        model = self.config.model
        return model.tensor_model_parallel_size * model.pipeline_model_parallel_size * model.context_parallel_size

    @property
    def data_parallel_size(self) -> int:
        """Copies of the model that share a global batch."""
        return self.world_size // self.model_ranks

    @property
    def chunks(self) -> int:
        """Model chunks on each pipeline rank; 1 is the plain schedule."""
        return self.config.model.virtual_pipeline_model_parallel_size or 1

    @property
    def rows(self) -> bool:
        """Whether the dataset is rows of text, for supervised fine-tuning."""
        return self.config.dataset.kind in ROW_KINDS

    @property
    def alignment(self) -> int:
        """The multiple that every sequence has, in tokens."""
        model = self.config.model
        return alignment(
            model.tensor_model_parallel_size,
            model.context_parallel_size,
            model.sequence_parallel,
            self.config.mixed_precision.fp8 is not None,
        )
