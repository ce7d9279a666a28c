"""Real ranks for tests."""

from trainwright.runner.local_ranks import RankFailed, free_port, run_ranks

__all__ = ["RankFailed", "free_port", "run_ranks"]
