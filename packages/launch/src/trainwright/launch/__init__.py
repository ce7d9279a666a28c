"""Where a run goes: this machine, or a cluster."""
