"""What the repository says of itself: its members, and the files that git knows."""

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def read_toml(path: Path) -> dict[str, Any]:
    """A parsed TOML file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def root_project() -> dict[str, Any]:
    """The root's pyproject.toml."""
    return read_toml(ROOT / "pyproject.toml")


@pytest.fixture(scope="session")
def projects() -> dict[Path, dict[str, Any]]:
    """Every member's folder and its pyproject.toml."""
    patterns = read_toml(ROOT / "pyproject.toml")["tool"]["uv"]["workspace"]["members"]
    folders = sorted(folder for pattern in patterns for folder in ROOT.glob(pattern) if folder.is_dir())
    return {folder: read_toml(folder / "pyproject.toml") for folder in folders}


@pytest.fixture(scope="session")
def tracked_files() -> list[Path]:
    """Every file that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    return [path for name in listed.split(b"\0") if name and (path := ROOT / name.decode()).is_file()]
