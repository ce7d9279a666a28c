"""What `trainwright-checkpoint list` and `inspect` tell of adapters."""

from math import prod
from pathlib import Path

ADAPTER = ".adapter."
"""In the names of adapters' parameters, as `runner.checkpoints.native` has it; that would bring torch."""


def describe_adapter(path: Path, begin: str, *, tensors: bool) -> None:
    """Scheme, rank, layers and base; with `tensors` every parameter, under our names or those of PEFT's file."""
    from trainwright.runner.devices import use_device
    from trainwright.runner.huggingface.peft_settings import is_peft

    if is_peft(path):
        describe_peft(path, begin, tensors=tensors)
        return
    use_device("cpu")
    from trainwright.runner.checkpoints.adapter_conversion import describe, open_native_adapter

    adapter = open_native_adapter(path)
    print(begin + describe(adapter))
    if adapter.base is not None:
        print(f"  base {adapter.base.fingerprint}")
    for name, weight in sorted(adapter.weights.held.items()) if tensors else ():
        print(f"    {name}  {list(weight.shape)}  {str(weight.dtype).removeprefix('torch.')}")


def describe_peft(path: Path, begin: str, *, tensors: bool) -> None:
    """What a directory in PEFT's format says by itself, without its base."""
    from trainwright.runner.huggingface.folder import header_of
    from trainwright.runner.huggingface.peft_settings import ADAPTER_FILE, read_settings

    settings, held = read_settings(path), header_of(path / ADAPTER_FILE)
    elements, types = sum(prod(shape) for _, _, shape in held), ", ".join(sorted({kind for _, kind, _ in held}))
    beside = f", beside {settings.base}" if settings.base else ", beside what it does not say"
    print(
        f"{begin}adapter in PEFT's format, {'DoRA' if settings.dora else 'LoRA'} of rank {settings.rank}, alpha "
        f"{settings.alpha:g}, {len(held)} tensors, {elements:,} parameters, {types}{beside}"
    )
    for name, kind, shape in sorted(held) if tensors else ():
        print(f"    {name}  {list(shape)}  {kind}")


def of_adapters(checkpoint: Path) -> bool:
    """Whether it holds adapters. Names of parameters stand in the metadata as they are, so nothing is loaded."""
    metadata = checkpoint / ".metadata"
    return metadata.is_file() and ADAPTER.encode() in metadata.read_bytes()
