"""How many blocks are left, and how pipeline stages share them out."""

from trainwright.recipes.blocks import blocks_per_chunk, expert_blocks, windowed_blocks
from trainwright.recipes.shrink.smaller import Smaller

LAYOUT = "model.pipeline_model_parallel_layout"
FIRST, LAST = (f"model.num_layers_in_{end}_pipeline_stage" for end in ("first", "last"))
EMBEDDING, LOSS = (f"model.account_for_{end}_in_pipeline_split" for end in ("embedding", "loss"))
CHOICES = ("model.moe_layer_freq", "model.window_attn_skip_freq")
"""Fields that say for each block which kind it is."""


def blocks(smaller: Smaller) -> None:
    """One or two blocks a model chunk, so that chunks which differ in their number still do, and each kind of block."""
    model, put = smaller.full.config.model, smaller.put
    further = min(model.mtp_num_layers or 0, 1)
    put("model.mtp_num_layers", further or None)
    if smaller.grid.pipeline == 1:
        for path, nothing in ((LAYOUT, None), (FIRST, None), (LAST, None), (EMBEDDING, False), (LOSS, False)):
            put(path, nothing)
        number = 2
    elif model.pipeline_model_parallel_layout is not None:
        each = _of_chunks(smaller)
        put(LAYOUT, "E" + "|".join("t" * count for count in each) + "m" * further + "L")
        number = sum(each)
    elif smaller.of(EMBEDDING) or smaller.of(LOSS):
        number = 2 * smaller.grid.pipeline * smaller.grid.chunks - smaller.of(EMBEDDING) - smaller.of(LOSS)
    elif smaller.of(FIRST) is not None or smaller.of(LAST) is not None:
        number = _with_uneven_ends(smaller)
    else:
        number = max(2, smaller.grid.pipeline * smaller.grid.chunks)
    put("model.num_layers", number)
    for path in CHOICES:
        _keep_kinds(smaller, path, number)
    if model.recompute_granularity == "full":
        smaller.fewer("model.recompute_num_layers", 1)
    smaller.say(
        "blocks",
        smaller.change("model.num_layers"),
        _kinds(smaller),
        smaller.change("model.mtp_num_layers", of="further predictions"),
        f"layout {smaller[LAYOUT]}" if smaller[LAYOUT] else "",
    )


def _of_chunks(smaller: Smaller) -> list[int]:
    """Blocks of each chunk of a layout: the first, the last and those between as they differ, in small numbers."""
    counts = blocks_per_chunk(smaller.full.config.model)
    middle = max(counts[1:-1], default=counts[0])
    small = _small(counts[0], middle, counts[-1])
    chunks = smaller.grid.pipeline * smaller.grid.chunks
    return [small[counts[0]]] + [small[middle]] * (chunks - 2) + [small[counts[-1]]]


def _with_uneven_ends(smaller: Smaller) -> int:
    """Blocks of stages of which the first or last has a number of its own."""
    full, grid = smaller.full.config.model, smaller.grid
    first, last = full.num_layers_in_first_pipeline_stage, full.num_layers_in_last_pipeline_stage
    ends = [end for end in (first, last) if end is not None]
    between = full.pipeline_model_parallel_size - len(ends)
    middle = (full.num_layers - sum(ends)) // between if between else max(ends)
    small = _small(middle, *ends)
    for path, end in ((FIRST, first), (LAST, last)):
        smaller.put(path, None if end is None else small[end] * grid.chunks)
    return grid.chunks * (sum(small[end] for end in ends) + small[middle] * (grid.pipeline - len(ends)))


def _small(*counts: int) -> dict[int, int]:
    """The numbers -> small ones in the same order: none stays none, the others begin with 1."""
    return {0: 0} | {count: small for small, count in enumerate(sorted(set(counts) - {0}), start=1)}


def _keep_kinds(smaller: Smaller, path: str, number: int) -> None:
    """A choice of blocks for fewer of them, in which each kind is still there."""
    chosen = smaller[path]
    if isinstance(chosen, int):
        smaller.fewer(path, 2)
    elif isinstance(chosen, list):
        picked = [chosen[round(place * (len(chosen) - 1) / max(1, number - 1))] for place in range(number)]
        for kind in set(chosen) - set(picked):
            picked[0 if chosen.index(kind) == 0 else -1] = kind
        smaller.put(path, picked)


def _kinds(smaller: Smaller) -> str:
    """Whether some blocks have experts or windows and some not."""
    model = smaller.full.config.model
    kinds = {"experts": expert_blocks(model), "a window": windowed_blocks(model)}
    mixed = [name for name, chosen in kinds.items() if 0 < sum(chosen) < len(chosen)]
    return f"blocks with and without {' and '.join(mixed)} as before" if mixed else ""
