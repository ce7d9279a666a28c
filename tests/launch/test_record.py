"""`launch.json`: all or nothing, and taken back without a trace for a run that never began."""

import json
import os
from pathlib import Path

import pytest
from tests.launch.slurm_jobs import NEEDED, settings_of

from trainwright.launch.errors import LaunchError
from trainwright.launch.record import add_to_record, content, remover, write_record


def tree(place: Path) -> list[str]:
    """Everything below `place`."""
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


def test_the_record_is_written_into_a_directory_that_is_made(tmp_path: Path) -> None:
    """With those above it; a byte that is no UTF-8 can be read back."""
    record = {"words": ["é", "\udcff", "\n"]}
    write_record(tmp_path / "a" / "b", record)
    assert tree(tmp_path) == ["a", "a/b", "a/b/launch.json"]
    assert json.loads((tmp_path / "a/b/launch.json").read_bytes()) == record


def test_taken_back_nothing_is_left(tmp_path: Path) -> None:
    """Not even the directories above, nor what was put into the run directory meanwhile."""
    (tmp_path / "there").mkdir()
    take_back = write_record(tmp_path / "there" / "a" / "b", {})
    (tmp_path / "there/a/b/logs").mkdir()
    take_back()
    assert tree(tmp_path) == ["there"]


def test_directories_that_others_use_stay(tmp_path: Path) -> None:
    """Another run came into the same new directory."""
    take_back = write_record(tmp_path / "a" / "b", {})
    (tmp_path / "a" / "other").touch()
    take_back()
    assert tree(tmp_path) == ["a", "a/other"]


def test_a_run_that_began_stays(tmp_path: Path) -> None:
    """Its directory has a run.json; only the record of the refused launch goes."""
    take_back = write_record(tmp_path / "run", {})
    (tmp_path / "run" / "run.json").touch()
    take_back()
    assert tree(tmp_path) == ["run", "run/run.json"]


def test_an_earlier_record_comes_back(tmp_path: Path) -> None:
    """Byte for byte, in a directory that was there."""
    (tmp_path / "launch.json").write_bytes(b"earlier\xff")
    take_back = write_record(tmp_path, {"x": 1})
    assert json.loads((tmp_path / "launch.json").read_bytes()) == {"x": 1}
    take_back()
    assert (tmp_path / "launch.json").read_bytes() == b"earlier\xff"


def test_a_directory_that_cannot_be_made_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    """A file is in the way."""
    (tmp_path / "file").touch()
    with pytest.raises(LaunchError, match=r"file/run: cannot write the run directory: Not a directory"):
        write_record(tmp_path / "file" / "run", {})
    assert tree(tmp_path) == ["file"]


def test_a_record_that_cannot_be_written_leaves_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full, say."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(LaunchError, match=r"a/b: cannot write the run directory: No space left on device"):
        write_record(tmp_path / "a" / "b", {})
    assert tree(tmp_path) == []


def test_keys_are_added_and_nothing_lies_beside(tmp_path: Path) -> None:
    """By replacing the file: a reader sees the one or the other."""
    write_record(tmp_path, {"words": ["x"]})
    before = (tmp_path / "launch.json").stat().st_ino
    add_to_record(tmp_path, {"job": {"id": "7"}})
    assert json.loads((tmp_path / "launch.json").read_bytes()) == {"words": ["x"], "job": {"id": "7"}}
    assert (tmp_path / "launch.json").stat().st_ino != before
    assert os.listdir(tmp_path) == ["launch.json"]


def test_every_option_is_there_with_its_origin_and_no_value_of_a_variable(tmp_path: Path) -> None:
    """A mount as it is typed, parameters as a table, names of variables alone."""
    words = ("--mount=/data:/d:ro", "--env=TOKEN", "--additional-slurm-params=qos=x;exclusive=true", "--wait")
    settings = settings_of(*NEEDED, *words, environment={"TOKEN": "s3cr3t"})
    record = content("slurm", ("a",), cwd=tmp_path, settings=settings)
    assert "s3cr3t" not in json.dumps(record)
    said = record["settings"]
    assert said["mounts"] == {"value": ["/data:/d:ro"], "origin": "flag --mount"}
    assert said["env"] == {"value": ["TOKEN"], "origin": "flag --env"}
    assert said["additional_slurm_params"]["value"] == {"qos": "x", "exclusive": True}
    assert said["wait"] == {"value": True, "origin": "flag --wait"}
    assert said["time"] == {"value": None, "origin": "default"}
    assert "origins" not in said and "notes" not in said


def test_what_is_about_to_be_made_can_be_removed_later(tmp_path: Path) -> None:
    """However much has come into it."""
    remove = remover(tmp_path / "x" / "y" / "z")
    (tmp_path / "x" / "y" / "z" / "deep").mkdir(parents=True)
    remove()
    assert tree(tmp_path) == []
