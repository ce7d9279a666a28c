"""`trainwright recipes`: what there is, what one holds, and in what two differ."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trainwright_login.preflight import MissingExtra

if TYPE_CHECKING:
    from trainwright.recipes import ResolvedRun

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    help="List recipes, or show what one holds.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Words = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Overrides, as run-recipe takes them.")]
Device = Annotated[Literal["cpu", "cuda"], typer.Option(help="The device whose layer is laid over the recipe.")]
WorldSize = Annotated[
    int | None, typer.Option("--world-size", "--world_size", metavar="N", help="Ranks; the recipe's own by default.")
]


def run(arguments: Sequence[str]) -> int:
    """Run `trainwright recipes` on the words after it and return the exit code. Raises errors with an `exit_code`."""
    if find_spec("trainwright.recipes") is None:
        raise MissingExtra("recipes needs the extra 'preflight': pip install 'trainwright[preflight]'")
    return int(app(list(arguments), prog_name="trainwright recipes", standalone_mode=False) or 0)


@app.command("list")
def list_recipes(
    family: Annotated[str | None, typer.Option(metavar="NAME", help="Only models of this family.")] = None,
    hardware: Annotated[str | None, typer.Option(metavar="GPU", help="Only recipes for this kind of GPU.")] = None,
    task: Annotated[str | None, typer.Option(metavar="TASK", help="Only pretrain, sft or peft.")] = None,
    gpus: Annotated[str | None, typer.Option(metavar="N", help="Only recipes for so many GPUs.")] = None,
) -> None:
    """Print every recipe, what --model takes for it, and what it was written for."""
    from trainwright.recipes.listing import Listed, listing

    headings = tuple(name.upper() for name in Listed._fields)
    rows = [headings, *listing(family=family, hardware=hardware, task=task, gpus=gpus)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(headings))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    words: Words = None,
    device: Device = "cuda",
    world_size: WorldSize = None,
    yaml: Annotated[bool, typer.Option("--yaml", help="The whole configuration as YAML.")] = False,
    sources: Annotated[
        bool, typer.Option("--sources", help="One field a line, and where its value comes from.")
    ] = False,
) -> None:
    """Print what a recipe is: model, topology, batch, sizes and environment."""
    resolved = _resolve(name, words, device, world_size)
    if yaml and sources:
        raise typer.BadParameter("--yaml and --sources exclude each other: YAML has no place for sources")
    if yaml:
        from trainwright.recipes import to_yaml

        print(to_yaml(resolved.config), end="")
    elif sources:
        from trainwright.recipes.comparison import listed

        for path, value in listed(resolved.config).items():
            print(f"{path}={value}  # {resolved.sources[path]}")
    else:
        from trainwright.recipes.page import page

        said = ""
        for heading, text in page(resolved):
            print(f"{heading if heading != said else '':<13}{text}")
            said = heading


@app.command()
def diff(
    old: Annotated[str, typer.Argument(metavar="NAME")],
    new: Annotated[str, typer.Argument(metavar="NAME|KEY=VALUE", help="Another recipe, or the first override.")],
    words: Words = None,
    device: Device = "cuda",
    world_size: WorldSize = None,
) -> None:
    """Print the size and the fields in which two recipes differ.

    With KEY=VALUE words instead of a second name: what they change in the recipe.
    """
    from trainwright.recipes.comparison import differences

    words = words or []
    if "=" in new:
        new, words = old, [new, *words]
    before, after = _resolve(old, None, device, world_size), _resolve(new, words, device, world_size)
    if before.world_size != after.world_size:
        print(f"world size: {before.world_size} -> {after.world_size}")
    for line in differences(before.config, after.config):
        print(line)


def _resolve(name: str, words: list[str] | None, device: Literal["cpu", "cuda"], world_size: int | None) -> ResolvedRun:
    from trainwright.recipes import Selection, resolve

    return resolve(Selection(recipe=name), words or [], world_size=world_size, device=device)
