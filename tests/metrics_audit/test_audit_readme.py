"""What the README shows is what there is."""

import re
import runpy
import shlex
import sys
from pathlib import Path

from trainwright.metrics_audit.arguments import audit_parser
from trainwright.metrics_audit.audit import summarize
from trainwright.metrics_audit.names import EVENT_KEYS

PACKAGE = Path(__file__).resolve().parents[2] / "packages" / "metrics-audit"
README = (PACKAGE / "README.md").read_text()


def test_the_example_loop_writes_a_log_that_is_accepted(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["any_loop.py", str(tmp_path / "run")])
    runpy.run_path(str(PACKAGE / "examples" / "any_loop.py"))
    assert summarize(tmp_path / "run", expect_step=50)["tokens"] == 50 * 4 * 128 * 2


def test_the_readme_shows_the_example_as_it_is():
    assert f"```python\n{(PACKAGE / 'examples' / 'any_loop.py').read_text()}```" in README


def test_the_workflow_example_is_a_command_that_exists():
    command = re.search(r"- run: python -m trainwright.metrics_audit (.*)", README)
    options = audit_parser("audit").parse_args(shlex.split(command[1]))
    assert (options.expect_step, options.after_step, options.max_loss, options.format) == (2000, 100, 2.5, "github")


def test_the_readme_names_every_key_of_every_event():
    rows = {row[1]: row[2] for row in re.finditer(r"^\| `(\w+)`(?:, a window)? \| (.*) \|$", README, re.MULTILINE)}
    for event, keys in EVENT_KEYS.items():
        assert set(keys) <= set(re.findall(r"`(\w+)`", rows[event]))
