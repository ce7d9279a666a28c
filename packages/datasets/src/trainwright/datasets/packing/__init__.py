"""Several short sequences in one row: ahead of training (offline) or as a batch is collated (in-batch)."""
