"""The optimizer and the schedule of its learning rate, from Megatron Core."""

from trainwright.runner.optim.optimizer import build_optimizer
from trainwright.runner.optim.scheduler import build_scheduler

__all__ = ["build_optimizer", "build_scheduler"]
