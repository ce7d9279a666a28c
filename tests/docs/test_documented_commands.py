"""Every command that the documentation shows works as it stands there.

A block fenced as `bash` is run, from what looks like the root of a fresh clone; the blocks of a page run in order, so
that a later one finds what an earlier one made. A block fenced as `text` is output, or a place we cannot be in.
"""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("packages/*/README.md"), *ROOT.glob("apps/*/README.md")]
)
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
# The test command cannot run inside itself, nor its sessions.
TEST_COMMAND = re.compile(r"^\s*uv run nox\b.*$", re.MULTILINE)
LANGUAGES = {"bash", "text", "python", "json", "yaml", "toml"}


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Line number and text of each fenced block of `language`."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, found.start()) + 2, found[2]) for found in FENCE.finditer(text) if found[1] == language
    ]


def name_of(page: Path) -> str:
    """The page, as seen from the root."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "bash")], ids=name_of)
def test_commands_run(page: Path, shell: Callable[[str], "subprocess.CompletedProcess[str]"]) -> None:
    """Each block ends with exit code 0."""
    for line, script in blocks(page, "bash"):
        done = shell(TEST_COMMAND.sub("", script))
        assert done.returncode == 0, f"{name_of(page)}:{line} ended with {done.returncode}\n{script}\n{done.stdout}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
def test_python_runs(page: Path, shell: Callable[[str], "subprocess.CompletedProcess[str]"], clone: Path) -> None:
    """The Python of a page, read from top to bottom, runs."""
    script = clone / "page.py"
    script.write_text("\n".join(text for _, text in blocks(page, "python")), encoding="utf-8")
    done = shell("python page.py")
    assert done.returncode == 0, f"{name_of(page)}\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    """A block without a language would be run by nobody and look as if it had been."""
    found = [found[1] for found in FENCE.finditer(page.read_text(encoding="utf-8"))]
    assert set(found) <= LANGUAGES


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A relative link names a file that is there."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text):
        assert (page.parent / target).exists(), target
