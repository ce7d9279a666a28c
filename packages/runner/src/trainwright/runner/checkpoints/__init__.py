"""Checkpoints: the folder they lie in, and writing and reading them with `torch_dist`."""
