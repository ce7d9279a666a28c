"""Text, JSONL or a source tree into the `.bin`/`.idx` pair that `megatron-indexed` reads."""

from trainwright.datasets.prepare.run import Summary, prepare

__all__ = ["Summary", "prepare"]
