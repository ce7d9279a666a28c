"""What is recorded of the checkout that a run is launched from."""

import subprocess
from pathlib import Path

import pytest

from trainwright.launch.git_state import GitState, git_state


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit of two files, apart from this machine's own settings."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    place = tmp_path / "checkout"
    place.mkdir()
    (place / "one.py").write_text("1\n")
    (place / "two.py").write_text("2\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", ".")
    commit(place)
    return place


def git(place: Path, *words: str) -> str:
    """A git command in `place`."""
    return subprocess.run(["git", "-C", place, *words], check=True, capture_output=True, text=True).stdout.strip()


ME = ("-c", "user.name=n", "-c", "user.email=e@x")


def commit(place: Path) -> None:
    """Commit what is staged."""
    git(place, *ME, "commit", "-q", "-m", "m")


def test_a_clean_checkout_is_its_commit_and_branch(checkout: Path) -> None:
    """Asked from a directory inside it, too."""
    (checkout / "sub").mkdir()
    expected = GitState(commit=git(checkout, "rev-parse", "HEAD"), branch="main", dirty=())
    assert git_state(checkout) == git_state(checkout / "sub") == expected


def test_every_kind_of_change_is_listed_with_its_path(checkout: Path) -> None:
    """Edited, staged, renamed, deleted, new, a new directory once; blanks, line breaks and any byte in names."""
    (checkout / "one.py").write_text("changed\n")
    git(checkout, "mv", "two.py", "three four.py")
    (checkout / "staged.py").touch()
    git(checkout, "add", "staged.py")
    (checkout / "new\nline.py").touch()
    (checkout / "byte\udcff.py").touch()
    (checkout / "folder").mkdir()
    (checkout / "folder" / "a").touch()
    (checkout / "folder" / "b").touch()
    state = git_state(checkout)
    assert state is not None
    assert set(state.dirty) == {
        "one.py",
        "three four.py",
        "staged.py",
        "new\nline.py",
        "byte\udcff.py",
        "folder/",
    }
    assert len(state.dirty) == 6


def test_a_file_that_is_gone_is_a_change(checkout: Path) -> None:
    """It is not in the directory that was launched from."""
    (checkout / "one.py").unlink()
    state = git_state(checkout)
    assert state is not None and state.dirty == ("one.py",)


def test_a_conflict_is_a_change(checkout: Path) -> None:
    """Both sides have touched the file."""
    git(checkout, "checkout", "-q", "-b", "other")
    (checkout / "one.py").write_text("theirs\n")
    git(checkout, "add", "one.py")
    commit(checkout)
    git(checkout, "checkout", "-q", "main")
    (checkout / "one.py").write_text("ours\n")
    git(checkout, "add", "one.py")
    commit(checkout)
    subprocess.run(["git", "-C", checkout, *ME, "merge", "-q", "other"], check=False, capture_output=True)
    state = git_state(checkout)
    assert state is not None and state.dirty == ("one.py",)


def test_what_is_ignored_is_no_change(checkout: Path) -> None:
    """A directory of runs, for one."""
    (checkout / ".gitignore").write_text("runs/\n")
    git(checkout, "add", ".gitignore")
    commit(checkout)
    (checkout / "runs").mkdir()
    (checkout / "runs" / "x").touch()
    state = git_state(checkout)
    assert state is not None and state.dirty == ()


def test_a_detached_head_has_no_branch(checkout: Path) -> None:
    """The commit says enough."""
    git(checkout, "checkout", "-q", "--detach")
    state = git_state(checkout)
    assert state is not None and state.branch is None and state.commit == git(checkout, "rev-parse", "HEAD")


def test_before_the_first_commit_there_is_none(tmp_path: Path) -> None:
    """But the files are there."""
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "x").touch()
    assert git_state(tmp_path) == GitState(commit=None, branch="main", dirty=("x",))


def test_looking_writes_nothing(checkout: Path) -> None:
    """Not even the index, which a plain `git status` refreshes."""
    (checkout / "one.py").write_text("1\n")  # as it was, with another time
    index = (checkout / ".git" / "index").read_bytes()
    git_state(checkout)
    assert (checkout / ".git" / "index").read_bytes() == index


@pytest.mark.parametrize("path", ["/usr/bin", ""], ids=["no repository", "no git"])
def test_no_answer_is_none(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside a repository, and where git is not installed."""
    monkeypatch.setenv("PATH", path or str(tmp_path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) is None
