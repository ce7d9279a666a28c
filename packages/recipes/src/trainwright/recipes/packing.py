"""How long a row is, and to which multiple the length of a sequence is padded."""

import math

from trainwright.recipes.config import ConfigContainer

FP8_MULTIPLE = 16
"""Matrices of Transformer Engine's fp8 kernels have sides of this multiple."""


def alignment(tp: int, cp: int, sequence_parallel: bool, fp8: bool) -> int:
    """The multiple that every sequence of a batch or a packed row has to have, in tokens.

    Context parallelism cuts a sequence into two pieces a rank (`2 * cp`), sequence parallelism what a rank holds into
    `tp` more (`cp * tp`), fp8 kernels want 16: the least common multiple of those that are on. The rule is Megatron
    Bridge's.
    """
    return math.lcm(2 * cp if cp > 1 else 1, cp * tp if sequence_parallel and tp > 1 else 1, FP8_MULTIPLE if fp8 else 1)


def row_length(config: ConfigContainer) -> int:
    """Positions of one sample as a run counts them: of a row packed beforehand, else of a sequence."""
    dataset = config.dataset
    packed = dataset.offline_packing_specs.packed_sequence_size if dataset.enable_offline_packing else None
    return packed or dataset.seq_length
