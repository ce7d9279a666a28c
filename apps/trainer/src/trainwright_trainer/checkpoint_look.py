"""`trainwright-checkpoint list` and `inspect`: which checkpoints a run holds, and what is in one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwright.recipes.words import UsageError
from trainwright_trainer.checkpoint_adapters import ADAPTER, describe_adapter, of_adapters
from trainwright_trainer.sizes import binary

if TYPE_CHECKING:
    from trainwright.runner.checkpoints.folder import CheckpointFolder

Place = Annotated[
    Path, typer.Argument(metavar="PATH", help="A run directory, its checkpoint folder, or one checkpoint.")
]


def list_checkpoints(path: Place) -> None:
    """List the checkpoints, oldest first; a resume takes the latest."""
    from trainwright.runner.checkpoints.folder import PARTIAL

    folder, _ = locate(path)
    steps, latest = folder.steps(), folder.latest()
    print(f"{folder.path}: {len(steps)} complete")
    for step in steps:
        files = _files(folder.complete(step))
        size = sum(file.stat().st_size for file in files)
        written = datetime.fromtimestamp(folder.complete(step).stat().st_mtime).isoformat(" ", "seconds")
        mark = ("  adapters" if of_adapters(folder.complete(step)) else "") + ("  latest" if step == latest else "")
        print(f"  step {step:>8}  {binary(size):>10}  {len(files):>4} files  {written}{mark}")
    for place in sorted(folder.path.glob(f"{PARTIAL}*")):
        print(f"  {place.name}: not complete (being written, or left by a crash)")


def inspect(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A run directory, its checkpoint folder, one checkpoint, or a directory of Hugging Face or PEFT.",
        ),
    ],
    step: Annotated[int | None, typer.Option(metavar="N", help="This step and not the latest.")] = None,
    tensors: Annotated[bool, typer.Option("--tensors", help="Also name every tensor.")] = False,
) -> None:
    """Say what a checkpoint is and holds, and where it stands in its run."""
    from trainwright.runner.huggingface.peft_settings import is_peft

    if is_model(path):
        if step is not None:
            raise UsageError(f"--step {step}: {path} is one model and no folder of checkpoints")
        if is_peft(path) or of_adapters(path):
            describe_adapter(path, f"{path}: ", tensors=tensors)
        else:
            describe_model(path, tensors=tensors)
        return
    folder, named = locate(path)
    if named is not None and step not in (None, named):
        raise UsageError(f"--step {step} contradicts {path}, which is the checkpoint of step {named}")
    chosen = folder.find(named if step is None else step)
    if chosen is None:
        raise UsageError(f"{folder.path} holds no complete checkpoint")
    place = folder.complete(chosen)

    own = read_counters(place)
    held = read_tensors(place)
    print(place)
    print("  " + ", ".join(f"{name} {value:,}" for name, value in own["progress"].items() if isinstance(value, int)))
    print("  written at " + ", ".join(f"{name} {value}" for name, value in own["topology"].items()))
    if any(tensor.part == "adapter" for tensor in held):
        describe_adapter(place, "  ", tensors=False)
    for part in ("model", "adapter", "optimizer"):
        members = [tensor for tensor in held if tensor.part == part]
        if not members and part == "adapter":
            continue
        kinds = ", ".join(sorted({tensor.dtype for tensor in members})) or "nothing"
        elements, size = sum(t.elements for t in members), sum(t.size for t in members)
        print(f"  {part:<9}  {len(members):>5} tensors  {elements:>16,} elements  {binary(size):>10}  {kinds}")
    for tensor in held if tensors else ():
        print(f"    {tensor.name}  {list(tensor.shape)}  {tensor.dtype}")


def is_model(path: Path) -> bool:
    """Whether `path` holds weights or an adapter and no run's state: a directory of theirs, or an imported one."""
    from trainwright.runner.checkpoints.folder import COMPLETE
    from trainwright.runner.huggingface.folder import CONFIG
    from trainwright.runner.huggingface.peft_settings import is_peft

    native = (path / ".metadata").is_file()
    return (path / CONFIG).is_file() or is_peft(path) or (native and not path.name.startswith(COMPLETE))


def describe_model(path: Path, *, tensors: bool) -> None:
    """Kind, family, sizes and types; with `tensors` every parameter, under our names."""
    from trainwright.runner.devices import use_device

    use_device("cpu")
    from trainwright.runner.checkpoints.conversion import open_weights
    from trainwright.runner.checkpoints.pretrained import describe
    from trainwright.runner.huggingface.families import family_of_model

    weights = open_weights(path)
    print(describe(weights))
    for remark in weights.remarks:
        print(f"  {remark}")
    if weights.model is None:
        print("  the model is not described: another program wrote it")
    else:
        model = weights.model
        print(
            f"  family {family_of_model(model).model_type}, {model.num_layers} blocks, hidden size {model.hidden_size}"
            f", {model.num_attention_heads} heads, {model.vocab_size} tokens"
        )
    for name, weight in sorted(weights.held.items()) if tensors else ():
        print(f"    {name}  {list(weight.shape)}  {str(weight.dtype).removeprefix('torch.')}")


def read_counters(checkpoint: Path) -> dict[str, dict[str, int]]:
    """`progress` and `topology` of a checkpoint, read as one process and not as a rank of many.

    Raises:
        RunRefused: there is no readable checkpoint of ours.
    """
    from trainwright.runner.devices import use_device

    use_device("cpu")
    from trainwright.runner.checkpoints.loading import read_common

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")
        counters: dict[str, dict[str, int]] = read_common(checkpoint)["trainwright"]
    return counters


@dataclass(frozen=True)
class HeldTensor:
    """One tensor of a checkpoint, whole, however many ranks wrote it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    elements: int
    size: int
    """Bytes."""

    @property
    def part(self) -> str:
        """`optimizer`, `adapter` or `model`."""
        if self.name.startswith(("optimizer.", "chained_")):
            return "optimizer"
        return "adapter" if ADAPTER in self.name else "model"


def read_tensors(checkpoint: Path) -> list[HeldTensor]:
    """All tensors of a `torch_dist` checkpoint, from its metadata alone, in order of name."""
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    entries = FileSystemReader(checkpoint).read_metadata().state_dict_metadata
    return [
        HeldTensor(
            name,
            tuple(entry.size),
            str(entry.properties.dtype).removeprefix("torch."),
            entry.size.numel(),
            entry.size.numel() * entry.properties.dtype.itemsize,
        )
        for name, entry in sorted(entries.items())
        if isinstance(entry, TensorStorageMetadata)
    ]


def locate(path: Path) -> tuple[CheckpointFolder, int | None]:
    """The checkpoint folder that `path` means, and the step where `path` is one checkpoint of it.

    Raises:
        UsageError: `path` is no run directory, no checkpoint folder and no checkpoint.
    """
    from trainwright.runner.checkpoints.folder import COMPLETE, CheckpointFolder

    if not path.is_dir():
        raise UsageError(f"{path} is not a directory; give a run directory, its checkpoint folder, or one checkpoint")
    digits = path.name.removeprefix(COMPLETE)
    if path.name.startswith(COMPLETE) and digits.isdigit():
        return CheckpointFolder(path.parent), int(digits)
    inside = path / "checkpoints"
    if inside.is_dir() or (path / "run.json").is_file():
        return CheckpointFolder(inside), None
    folder = CheckpointFolder(path)
    if not folder.steps():
        raise UsageError(f"{path} is no run directory and holds no checkpoints")
    return folder, None


def _files(path: Path) -> list[Path]:
    return [entry for entry in path.rglob("*") if entry.is_file()]
