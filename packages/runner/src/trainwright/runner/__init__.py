"""What a run does: model, optimizer, loop, checkpoints, telemetry."""
