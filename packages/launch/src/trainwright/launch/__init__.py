"""Where a run goes: this machine, today. Renders a job as a pure value first, then carries it out."""

from trainwright.launch.errors import LaunchError
from trainwright.launch.local import launch_local
from trainwright.launch.local_job import LocalJob, render_local

__all__ = ["LaunchError", "LocalJob", "launch_local", "render_local"]
