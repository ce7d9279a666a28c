"""The folder of checkpoints: what is complete, what is latest, what goes."""

import pytest

from trainwright.runner.checkpoints.folder import MARKER, CheckpointFolder
from trainwright.runner.errors import RunRefused


def written(folder, step):
    (folder.begin(step) / "data").write_text(str(step))
    folder.commit(step)


def test_a_checkpoint_counts_only_once_it_is_committed(tmp_path):
    folder = CheckpointFolder(tmp_path / "checkpoints")
    (folder.begin(5) / "data").write_text("half")
    assert folder.steps() == [] and folder.latest() is None
    folder.commit(5)
    assert folder.steps() == [5] and folder.latest() == 5
    assert (folder.path / MARKER).read_text() == "5\n"


def test_what_a_crash_left_half_written_is_replaced(tmp_path):
    folder = CheckpointFolder(tmp_path)
    (folder.begin(7) / "stale").write_text("from the crash")
    place = folder.begin(7)
    assert list(place.iterdir()) == []


def test_a_crash_between_name_and_marker_leaves_the_old_checkpoint_latest(tmp_path):
    folder = CheckpointFolder(tmp_path)
    written(folder, 1)
    folder.begin(2)
    folder.partial(2).rename(folder.complete(2))
    assert folder.latest() == 1
    written(folder, 2)
    assert folder.latest() == 2


@pytest.mark.parametrize(("keep", "left"), [(-1, [1, 2, 3]), (1, [3]), (2, [2, 3]), (5, [1, 2, 3]), (0, [3])])
def test_retention_keeps_the_most_recent_and_never_loses_the_latest(tmp_path, keep, left):
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2, 3):
        written(folder, step)
    folder.begin(4)
    folder.prune(keep)
    assert folder.steps() == left
    assert not folder.partial(4).exists()


@pytest.mark.parametrize("text", ["9", "", "release", "-1"])
def test_a_marker_that_names_nothing_is_refused_in_one_line(tmp_path, text):
    folder = CheckpointFolder(tmp_path)
    written(folder, 3)
    (tmp_path / MARKER).write_text(text)
    with pytest.raises(RunRefused, match=r"only \[3\]"):
        folder.latest()


def test_a_step_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    folder = CheckpointFolder(tmp_path)
    written(folder, 3)
    assert folder.find(3) == 3 and folder.find(None) == 3
    with pytest.raises(RunRefused, match=r"checkpoint.ckpt_step=4: .* holds the steps \[3\]"):
        folder.find(4)
