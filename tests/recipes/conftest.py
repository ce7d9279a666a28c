"""What the tests of the recipes share."""

import sys
from pathlib import Path

import pytest

# Helper modules of this folder are imported by their names.
sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the resolved configurations of tests/recipes"
    )
