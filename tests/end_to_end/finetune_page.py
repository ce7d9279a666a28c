"""The commands of docs/finetune.md, for the tests that run them."""

import re
import shlex
from pathlib import Path

from tests.docs.test_documented_commands import ROOT, blocks

PAGE = ROOT / "docs" / "finetune.md"
PROJECT = "uv run "


def page_blocks() -> list[str]:
    """The page's scripts, in order."""
    return [script for _, script in blocks(PAGE, "bash")]


def commands(program: str) -> list[list[str]]:
    """The words of each command of `program` on the page, without it, and with what the page keeps in a file."""
    text = "\n".join(page_blocks()).replace("\\\n", " ")
    (kept,) = re.findall(r"^echo (.*) > models/smollm2\.words$", text, re.MULTILINE)
    lines = re.findall(rf"^{PROJECT}{program} (.*)$", text, re.MULTILINE)
    return [shlex.split(line.replace("$(cat models/smollm2.words)", kept)) for line in lines]


def rows_of_page(folder: Path) -> None:
    """Make the page's rows, below `folder`."""
    import subprocess

    (script,) = [script for script in page_blocks() if "training.jsonl" in script]
    made = script.partition(f"\n{PROJECT}")[0]
    subprocess.run(["bash", "-euo", "pipefail", "-c", made], cwd=folder, check=True)
