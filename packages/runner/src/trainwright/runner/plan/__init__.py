"""What a run would need, known before any GPU is there: the share of single ranks of the whole topology."""

from trainwright.runner.plan.planned import Plan, Stage, plan

__all__ = ["Plan", "Stage", "plan"]
