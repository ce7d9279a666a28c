"""docs/container.md and the Dockerfile, as far as they can be tried without docker."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.docs.test_documented_commands import blocks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "container.md"
DOCKERFILE = (ROOT / "apps" / "trainer" / "Dockerfile").read_text(encoding="utf-8")
INSTALL = re.search(r"-m pip (install .*)", DOCKERFILE)
Shell = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def context(clone: Path, shell: Shell) -> Path:
    """What docker is given: a checkout in which the page's commands were run."""
    for _, script in blocks(PAGE, "bash"):
        done = shell(script)
        assert done.returncode == 0, done.stdout
    return clone


def image_with_torch(folder: Path, version: str) -> Path:
    """A Python that believes to have torch, as a base image's has: its metadata is all that pip and we look at."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    metadata = packages / f"torch-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    return folder / "bin" / "python"


def planned(context: Path, python: Path) -> "subprocess.CompletedProcess[str]":
    """What the Dockerfile's pip line would install into an image, by uv, which plans without downloading."""
    dist = context / "dist"
    written = subprocess.run([python, "over_base.py", "versions.txt"], cwd=dist, capture_output=True, text=True)
    assert written.returncode == 0, written.stderr
    (dist / "constraints.txt").write_text(written.stdout)
    words = INSTALL[1].replace("--no-cache-dir ", "").split()
    command = ["uv", "pip", *words, "--dry-run", "--python", python]
    return subprocess.run(command, cwd=dist, capture_output=True, text=True, check=False)


def copy_sources(context: Path) -> None:
    """What the COPY lines do, as far as `planned` needs it."""
    (context / "dist" / "over_base.py").write_bytes((ROOT / "apps" / "trainer" / "over_base.py").read_bytes())


def test_what_the_dockerfile_copies_is_there(context: Path) -> None:
    """The page's commands made it, or git has it."""
    sources = re.findall(r"^COPY (\S+) ", DOCKERFILE, re.MULTILINE)
    assert sources
    assert all((context / source).exists() for source in sources)


def test_every_member_has_its_wheel(context: Path) -> None:
    """pip finds all of ours beside the lines of others, and asks no registry for them."""
    members = [*ROOT.glob("packages/*/pyproject.toml"), *ROOT.glob("apps/*/pyproject.toml")]
    names = {tomllib.loads(path.read_text())["project"]["name"] for path in members}
    wheels = {path.name.split("-")[0].replace("_", "-") for path in (context / "dist").glob("*.whl")}
    assert wheels == names
    assert not re.search(r"^(torch|triton|nvidia-|trainwright)", (context / "dist/versions.txt").read_text(), re.M)


@pytest.mark.parametrize("version", ["2.9.1", "2.10.0a0+vendor.25.11"])
def test_the_base_images_torch_stays(context: Path, tmp_path: Path, version: str) -> None:
    """Also a vendor's, whose version no registry has; everything else comes as the lock file says."""
    copy_sources(context)
    done = planned(context, image_with_torch(tmp_path / "image", version))
    assert done.returncode == 0, done.stderr
    plan = dict(re.findall(r"^ \+ (\S+)==(\S+)", done.stderr, re.MULTILINE))
    assert "trainwright-trainer" in plan
    assert not [name for name in plan if name in ("torch", "triton") or name.startswith("nvidia-")]
    # Of some packages another version is locked for another platform.
    locked = set(re.findall(r"^([\w.-]+)==(\S+)", (context / "dist/versions.txt").read_text(), re.MULTILINE))
    assert {pair for pair in plan.items() if not pair[0].startswith("trainwright")} <= locked


def test_a_torch_that_is_too_old_fails_the_build(context: Path, tmp_path: Path) -> None:
    """It is not quietly replaced."""
    copy_sources(context)
    done = planned(context, image_with_torch(tmp_path / "image", "2.6.0+vendor"))
    assert done.returncode != 0
    assert "torch" in done.stderr


def test_the_last_line_of_the_build_is_a_command_that_works(shell: Shell) -> None:
    """run-recipe resolves without a GPU."""
    command = re.findall(r"^RUN (run-recipe .*)$", DOCKERFILE, re.MULTILINE)[-1]
    done = shell(command)
    assert done.returncode == 0, done.stdout
