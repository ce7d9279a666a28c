"""What may not stand in a committed file."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Written in pieces so that this file passes its own test.
REGISTRY_HOSTS = re.compile("|".join([r"py" + r"pi\.org", r"pythonhosted\." + r"org", r"npm" + r"js\.org"]))
UNNAMED_IGNORES = re.compile(r"#\s*type:\s*ignore(?!\[)|#\s*no" + r"qa(?!:)")


def texts(files: list[Path], *, suffixes: tuple[str, ...] = ()) -> list[tuple[Path, str]]:
    """The text files among `files`; binary data has no lines to look at."""
    found = []
    for path in files:
        if suffixes and path.suffix not in suffixes:
            continue
        try:
            found.append((path, path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    return found


def test_no_file_names_a_place_of_somebodys_machine(tracked_files: list[Path]) -> None:
    """A clone works anywhere."""
    looked_at = texts(tracked_files)
    assert len(looked_at) > 50
    places = [str(ROOT), str(Path.home()), "/wo" + "rk"]
    here = re.compile("|".join(rf"(?<![\w.$}}~]){re.escape(place)}/\w" for place in places))
    found = [f"{path}: {match[0]}" for path, text in looked_at for match in here.finditer(text)]
    assert not found


def test_no_file_but_the_lock_names_a_registry(tracked_files: list[Path]) -> None:
    """Where packages come from is the installer's setting."""
    looked_at = texts([path for path in tracked_files if path.name != "uv.lock"])
    found = [f"{path}: {match[0]}" for path, text in looked_at for match in REGISTRY_HOSTS.finditer(text)]
    assert not found


def test_every_ignore_names_its_rule(tracked_files: list[Path]) -> None:
    """A bare `type: ignore` or linter exemption hides whatever comes next."""
    looked_at = texts(tracked_files, suffixes=(".py",))
    found = [f"{path}: {match[0]}" for path, text in looked_at for match in UNNAMED_IGNORES.finditer(text)]
    assert not found


def test_there_is_a_changelog_for_the_version(root: Path, projects: dict[Path, dict]) -> None:
    """Users read what changed in the version that they install."""
    version = next(iter(projects.values()))["project"]["version"]
    assert re.search(rf"^## {re.escape(version)}\b", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
