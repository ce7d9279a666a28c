"""`run-recipe --dry-run --plan`: what the ranks of the whole topology would need, as a page on stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from trainwright_trainer.dry_run import described
from trainwright_trainer.sizes import binary

if TYPE_CHECKING:
    from trainwright.recipes import ResolvedRun
    from trainwright.recipes.memory import Memory
    from trainwright.runner.plan import Plan, Stage

MEMORY: dict[str, Callable[[Stage], str]] = {
    "rank": lambda stage: f"{stage.rank:,}",
    "stage": lambda stage: str(stage.memory.stage),
    "blocks": lambda stage: str(stage.memory.blocks),
    "parameters": lambda stage: f"{stage.memory.parameters:,}",
    "weights": lambda stage: binary(stage.memory.weights),
    "gradients": lambda stage: binary(stage.memory.gradients),
    "optimizer": lambda stage: binary(stage.memory.optimizer),
    "activations": lambda stage: binary(stage.memory.activations),
    "total": lambda stage: binary(stage.memory.total),
}
"""Columns of the table of memory."""

NOT_COUNTED = "CUDA, NCCL and other libraries, what lives within one operation, gaps between blocks of memory"


def show(resolved: ResolvedRun) -> None:
    """Print the plan. Raises an error with an `exit_code` where it cannot be made."""
    from trainwright.recipes.sizes import vocabulary_of
    from trainwright.runner.plan import plan

    print(*page(resolved, plan(resolved, vocabulary_of(resolved))), sep="\n")


def page(resolved: ResolvedRun, planned: Plan) -> Iterator[str]:
    """Its lines: the run, the two tables, and what they mean."""
    rows = described(resolved)
    for name in ("recipe", "ranks", "changed", "updates", "operations", "parameters", "trainable"):
        yield f"{name:<12}  {rows[name]}"
    yield "\nmemory of a rank"
    yield from table([list(MEMORY), *([cell(stage) for cell in MEMORY.values()] for stage in planned.stages)])
    yield "\nsent by a rank in one update"
    yield from table(sent(planned.stages))
    yield f"\n{'waiting':<12}  {planned.bubble:.1%} of an update, for other pipeline stages"
    yield from (f"{name:<12}  {text}" for name, text in judged(resolved, planned))


def judged(resolved: ResolvedRun, planned: Plan) -> Iterator[tuple[str, str]]:
    """Whether it fits, and what has to be known to believe that."""
    gpu, fullest, share = planned.gpu, planned.fullest, planned.share
    where = f"stage {fullest.stage}" if resolved.config.model.pipeline_model_parallel_size > 1 else "a rank"
    if gpu is None or share is None:
        yield "memory", f"{where} needs {binary(fullest.total)}"
    else:
        yield "memory", f"{where} needs {binary(fullest.total)}, {share:.0%} of the {binary(gpu.memory)} of {gpu.name}"
        yield "source", gpu.source
    yield "not counted", NOT_COUNTED
    if planned.taken:
        yield "taken", f"as the recipe means them, and not acted on by this version: {', '.join(planned.taken)}"
    if planned.left_out:
        yield "left out", f"of the numbers, and not acted on by this version: {', '.join(planned.left_out)}"
    if resolved.known_invalid:
        yield "warning", f"no rank was built, for the recipe cannot run as it stands: {resolved.known_invalid}"
    if share is not None and (text := too_full(share, fullest)):
        yield "warning", text


def too_full(share: float, fullest: Memory) -> str | None:
    """What to say of a GPU that is filled to this share; null where there is room."""
    from trainwright.runner.plan.planned import TIGHT

    if share > 1:
        most = max(("weights", "gradients", "optimizer", "activations"), key=lambda name: float(getattr(fullest, name)))
        return f"by this arithmetic it does not fit; most of it is {most}"
    return "libraries and gaps may not find room" if share > TIGHT else None


def sent(stages: Sequence[Stage]) -> list[list[str]]:
    """Rows of the table of communication: a kind, its ranks and collectives, and bytes for each stage."""
    kinds = {(one.kind, one.ranks, one.how): one for stage in stages for one in stage.traffic}
    rows = [["kind", "ranks", *(f"stage {stage.memory.stage}" for stage in stages), "by"]]
    for kind, ranks, how in kinds:
        found = [next((one.sent for one in stage.traffic if one.kind == kind), 0.0) for stage in stages]
        rows.append([kind, f"{ranks:,}", *map(binary, found), how])
    return rows if len(rows) > 1 else [["nothing: there is one rank"]]


def table(rows: list[list[str]]) -> Iterator[str]:
    """Rows of words as columns, those of numbers to the right; the first row is their names."""
    columns = list(zip(*rows, strict=True))
    sides = [">" if column[-1][:1].isdigit() else "<" for column in columns]
    widths = [max(map(len, column)) for column in columns]
    for row in rows:
        cells = (f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()
