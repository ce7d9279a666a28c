"""Adapters that are broken on purpose: the gate of their tests must catch them."""

from pathlib import Path

from tests.runner.adapter_training import train_adapters


def train_without_marks(world_size: int, run_dir: Path, root: Path, *words: str) -> int:
    """Nothing says of which parameters each rank has seen a part of the sequence alone."""
    from trainwright.runner import build

    whole = build.wrap_for_data_parallelism

    def broken(chunks, config):
        for chunk in chunks:
            for name, parameter in chunk.named_parameters():
                if ".adapter." in name:
                    parameter.sequence_parallel = False
        return whole(chunks, config)

    build.wrap_for_data_parallelism = broken
    return train_adapters(world_size, run_dir, root, *words)


def train_with_own_gradients(world_size: int, run_dir: Path, root: Path, *words: str) -> int:
    """What lies between A and B is gathered as if every rank had the gradient of all rows."""
    from trainwright.runner.adapters import ways

    whole = ways.gather_from_sequence_parallel_region

    def broken(x, **options):
        return whole(x, **{**options, "tensor_parallel_output_grad": False})

    ways.gather_from_sequence_parallel_region = broken
    return train_adapters(world_size, run_dir, root, *words)


def train_with_own_expert_gradients(world_size: int, run_dir: Path, root: Path, *words: str) -> int:
    """Matrices of experts that are whole on each rank are not told of the others' gradients."""
    from trainwright.runner.adapters import ways

    ways._shared = lambda matrix, group: matrix
    return train_adapters(world_size, run_dir, root, *words)


def train_with_own_lengths(world_size: int, run_dir: Path, root: Path, *words: str) -> int:
    """Where ranks split columns, each divides by the lengths of the rows that it sees."""
    from dataclasses import replace

    from trainwright.runner.adapters.adapter import Adapter

    whole = Adapter._lengths

    def broken(self, *arguments):
        way, self.way = self.way, replace(self.way, lora_a=None)
        lengths = whole(self, *arguments)
        self.way = way
        return lengths

    Adapter._lengths = broken
    return train_adapters(world_size, run_dir, root, *words)
