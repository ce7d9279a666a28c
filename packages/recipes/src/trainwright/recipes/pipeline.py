"""`resolve`: the one place where words become a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainwright.recipes.build import build_config
from trainwright.recipes.canonical import canonical_differences
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.device_layer import DeviceKind, apply_device
from trainwright.recipes.draft import Draft
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.known_invalid import validate_marked
from trainwright.recipes.overrides import apply_flags, apply_words
from trainwright.recipes.ownership import keep_kind, refuse_foreign_fields
from trainwright.recipes.presets import apply_preset
from trainwright.recipes.schemes import settle_scheme
from trainwright.recipes.selection import Selection, select
from trainwright.recipes.settle import settle
from trainwright.recipes.validate.plan import Plan
from trainwright.recipes.weak_scaling import scale


@dataclass(frozen=True)
class ResolvedRun:
    """A run that can start: its configuration and everything that was decided on the way to it."""

    config: ConfigContainer
    recipe: str
    """The recipe's name as selected; for `--model` the name that it stands for."""
    mode: str
    step_func: str
    world_size: int
    """Ranks."""
    device: DeviceKind
    sources: dict[str, str]
    """`section.field` -> `default`, `recipe`, `dataset preset`, `device`, `flag --NAME`, `override`, `derived` or
    `weak scaling`."""
    warnings: tuple[str, ...]
    canonical: bool
    """Nothing that was typed and no device changed the recipe, and it runs at the size it was written for."""
    canonical_differences: tuple[str, ...] = ()
    """In what it is not canonical, a field each: `section.field: recipe's -> this run's (source)`."""
    remarks: tuple[str, ...] = ()
    """What was done on the way that a log should tell, such as weak scaling."""
    benchmark: bool = False
    """Whether the recipe is a benchmark."""
    known_invalid: str | None = None
    """Why the public recipe cannot run as it stands, where no word has mended it; a run of it is refused."""

    @property
    def data_parallel_size(self) -> int:
        """Copies of the model that share a global batch: world size / (TP * PP * CP)."""
        model = self.config.model
        return self.world_size // (
            model.tensor_model_parallel_size * model.pipeline_model_parallel_size * model.context_parallel_size
        )

    @property
    def num_microbatches(self) -> int:
        """Micro-batches of one update on each rank: global batch / (micro batch * data parallel size)."""
        train = self.config.train
        return train.global_batch_size // (train.micro_batch_size * self.data_parallel_size)


def resolve(
    selection: Selection,
    overrides: Sequence[str],
    *,
    world_size: int | None,
    device: DeviceKind,
    flags: Mapping[str, str] | None = None,
    deterministic: bool = False,
) -> ResolvedRun:
    """Turn the words of a command line into a run, or say what is wrong with them.

    Layers, each over the one before: recipe, dataset preset, device, `flags` (field path -> text typed), `overrides`
    (`KEY=VALUE` words). Then the rest is derived and the whole is validated. Pure: reads no file of the user's, no
    environment, no clock. `world_size` None means the size the recipe was written for.

    Raises ConfigError, whose message is one line.
    """
    selected = select(selection)
    if world_size is not None and world_size < 1:
        raise ConfigError(f"world size {world_size}: it has to be at least 1")
    draft = Draft(selected.recipe.build())
    draft.warnings.extend(selected.warnings)
    if selection.dataset is not None:
        apply_preset(draft, selection.dataset, selected.mode)
    kind = draft["dataset.kind"]
    apply_device(draft, device)
    apply_flags(draft, flags or {})
    apply_words(draft, overrides)
    keep_kind(draft, kind, selected.mode)
    mode = settle_scheme(draft, selected.recipe, selected.mode, typed=selection.mode is not None)
    refuse_foreign_fields(draft)
    # Bounds first: the arithmetic of deriving must not meet a zero.
    build_config(draft.tree())
    ranks = world_size or selected.recipe.world_size
    settle(draft, selected.recipe, ranks, device=device, deterministic=deterministic)
    remarks = scale(draft, selected.recipe, ranks)
    config = build_config(draft.tree())
    known_invalid = validate_marked(Plan(config, draft, ranks, device, selected.recipe))
    differences = canonical_differences(selected.recipe, config, ranks, draft.sources)
    return ResolvedRun(
        config=config,
        recipe=selected.name,
        mode=mode,
        step_func=selected.step_func,
        world_size=ranks,
        device=device,
        sources=dict(draft.sources),
        warnings=tuple(draft.warnings),
        canonical=not differences,
        canonical_differences=differences,
        remarks=remarks,
        benchmark=selected.recipe.benchmark,
        known_invalid=known_invalid,
    )
