"""The grid of ranks in the configuration, and batches over it."""

from trainwright.recipes.packing import alignment
from trainwright.recipes.presets import ROW_KINDS
from trainwright.recipes.shrink.grid import SPOKEN, enough_for_all
from trainwright.recipes.shrink.smaller import Smaller, round_up

LENGTH, LENGTH_OF_TEXT = 64, 512
"""Tokens of a sequence; of one that is made of somebody's own rows, whose prompts would fill a shorter one."""
SPECS = "dataset.offline_packing_specs"


def topology(smaller: Smaller) -> None:
    """The dimensions that the ranks can hold; the switches of the others are off."""
    model, whole, grid = smaller.full.config.model, smaller.whole, smaller.grid
    for path, size in (
        ("pipeline_model_parallel_size", grid.pipeline),
        ("virtual_pipeline_model_parallel_size", grid.chunks if grid.chunks > 1 else None),
        ("tensor_model_parallel_size", grid.tensor),
        ("context_parallel_size", grid.context),
        ("expert_model_parallel_size", grid.experts),
        ("sequence_parallel", model.sequence_parallel and grid.tensor > 1),
    ):
        smaller.put(f"model.{path}", size)
    if model.num_moe_experts is not None:
        smaller.put("model.expert_tensor_parallel_size", grid.expert_tensor)
    if grid.chunks == 1:
        for name in ("overlap_p2p_comm", "batch_p2p_comm"):
            smaller.draft.remove(f"model.{name}")
    if whole != grid:
        smaller.say("ranks", f"{whole.ranks} ({whole}) -> {grid.ranks} ({grid})")
    lost = whole.kept() - grid.kept()
    smaller.unchecked += [text for name, text in SPOKEN.items() if name in lost]
    if lost:
        smaller.say("more ranks", f"--ranks {enough_for_all(whole)} would keep every dimension of the grid")


def sequence(smaller: Smaller) -> None:
    """Short sequences, which every rank can still have its part of."""
    grid, kind = smaller.grid, smaller["dataset.kind"]
    own_text = kind in ROW_KINDS and smaller["dataset.dataset_root"] != rows_folder(smaller)
    multiple = alignment(grid.tensor, grid.context, bool(smaller["model.sequence_parallel"]), False)
    length = round_up(min(smaller["dataset.seq_length"], LENGTH_OF_TEXT if own_text else LENGTH), multiple)
    smaller.put("dataset.seq_length", length)
    smaller.put("model.seq_length", length)
    if smaller["model.position_embedding_type"] == "learned_absolute":
        smaller.put("model.max_position_embeddings", length)
    size = smaller[f"{SPECS}.packed_sequence_size"]
    if smaller["dataset.enable_offline_packing"] and size is not None:
        times = 1 if size <= smaller.of("dataset.seq_length") else 2
        smaller.put(f"{SPECS}.packed_sequence_size", times * length)
        smaller.put(f"{SPECS}.pad_seq_to_mult", multiple)
    if own_text and smaller["dataset.preprocessing.unsupervised_rows"] == "refuse":
        smaller.put("dataset.preprocessing.unsupervised_rows", "skip")
        smaller.say("rows", "those whose prompt fills the short sequence are left out")
    smaller.say("sequence", smaller.change("dataset.seq_length", of="tokens"))


def rows_folder(smaller: Smaller) -> str:
    """Where generated rows are, for a dataset that has to be downloaded."""
    return f"{smaller.folder}/rows"


def batch(smaller: Smaller) -> None:
    """At most two sequences at a time; micro-batches are still summed up where they were, and fill the pipeline."""
    full, grid = smaller.full, smaller.grid
    smaller.fewer("train.micro_batch_size", 2)
    most = 2 * grid.pipeline if grid.pipeline > 1 else 2
    number = min(full.num_microbatches, most)
    if grid.chunks > 1:
        number = round_up(number, grid.pipeline)
    smaller.put("train.global_batch_size", smaller["train.micro_batch_size"] * grid.data * number)
    smaller.say(
        "batch",
        smaller.change("train.global_batch_size", of="sequences"),
        f"micro-batches of a rank {full.num_microbatches} -> {number}",
        smaller.change("train.micro_batch_size", of="sequences of one"),
    )
