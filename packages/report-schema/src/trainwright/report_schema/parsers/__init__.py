"""Building training reports from what a run left behind (extra ``parsers``)."""

from trainwright.report_schema.parsers.build import build_report, write_built_report, write_run_report

__all__ = ["build_report", "write_built_report", "write_run_report"]
