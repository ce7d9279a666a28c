"""The training_report.json models, builder and reader."""
