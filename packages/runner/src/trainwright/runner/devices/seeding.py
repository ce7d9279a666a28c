"""Seeding of the generators that every device shares."""

import random


def seed_host(seed: int) -> None:
    """Seed Python's and NumPy's global generators. NumPy takes 32 bits; higher ones are dropped."""
    import numpy

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
