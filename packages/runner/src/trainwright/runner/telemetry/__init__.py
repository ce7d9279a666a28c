"""What a run leaves behind and shows while it trains. Importing it costs no torch, tensorboard or rich."""

from trainwright.runner.telemetry.telemetry import Telemetry, tensorboard_dir
from trainwright.runner.telemetry.window import Attempt, Pending, Snapshot, Totals

__all__ = ["Attempt", "Pending", "Snapshot", "Telemetry", "Totals", "tensorboard_dir"]
