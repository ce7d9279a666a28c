"""The session-log audit as one script: ``python -S path/to/summarize_training_run.py RUN_DIRECTORY [flags]``.

It needs no installed package: the audit's source stands beside it in the checkout.
"""

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "packages" / "metrics-audit" / "src"))

from trainwright.metrics_audit.__main__ import main  # noqa: E402  # only found once the path is set

if __name__ == "__main__":
    sys.exit(main(program="summarize_training_run.py"))
