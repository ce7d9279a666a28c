"""`trainwright-checkpoint`, on what a real run leaves behind and on what a crash does."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright.runner.checkpoints.folder import CheckpointFolder
from trainwright_trainer.checkpoint import main

RUN = (
    "--recipe vanilla_gpt_pretrain_config --device cpu --warmup_iters 0 -ms 2 -gb 2 -mb 1 -sl 32 --save_interval 1 "
    "model.num_layers=2 model.hidden_size=32 model.num_attention_heads=4 tokenizer.vocab_size=100 "
    "validation.eval_interval=null"
)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two updates with a checkpoint of each."""
    path = tmp_path_factory.mktemp("checkpoints") / "run"
    command = [sys.executable, "-m", "trainwright_trainer", *RUN.split(), "--run-dir", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def copy(run_dir: Path, tmp_path: Path) -> Path:
    """The same run, to be spoilt."""
    return Path(shutil.copytree(run_dir, tmp_path / "copy"))


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    return code, *capsys.readouterr()


def test_list_names_every_checkpoint_and_the_latest(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(capsys, "list", str(run_dir))
    assert (code, err) == (0, "")
    first, *lines = out.splitlines()
    assert first == f"{run_dir}/checkpoints: 2 complete"
    assert [("latest" in line, line.split()[:2]) for line in lines] == [(False, ["step", "1"]), (True, ["step", "2"])]


def test_list_shows_what_a_crash_left_and_does_not_count_it(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CheckpointFolder(copy / "checkpoints").begin(3)
    _, out, _ = told(capsys, "list", str(copy / "checkpoints"))
    assert "2 complete" in out
    assert ".partial_iter_0000003: not complete" in out


def test_inspect_says_where_a_checkpoint_stands_and_what_it_holds(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sizes by hand: embeddings of 128 and 32 rows, two blocks of 12 * 32^2 + 13 * 32, a last norm of 2 * 32."""
    code, out, err = told(capsys, "inspect", str(run_dir), "--step", "1")
    assert (code, err) == (0, "")
    parameters = (128 + 32) * 32 + 2 * (12 * 32**2 + 13 * 32) + 2 * 32
    assert f"{run_dir}/checkpoints/iter_0000001" in out
    assert "step 1, consumed_samples 2," in out
    assert "tokens 64" in out
    assert "tensor_model_parallel_size 1" in out
    model, optimizer = (line.split() for line in out.splitlines()[3:5])
    assert (model[0], model[3]) == ("model", f"{parameters:,}")
    # Adam's two averages, and the weights that the distributed optimizer updates.
    assert (optimizer[0], optimizer[3]) == ("optimizer", f"{3 * parameters:,}")


def test_inspect_takes_the_latest_and_names_every_tensor(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (run_dir, run_dir / "checkpoints", run_dir / "checkpoints" / "iter_0000002"):
        _, out, _ = told(capsys, "inspect", str(path), "--tensors")
        assert "step 2," in out
        assert "embedding.word_embeddings.weight  [128, 32]  float32" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("list nowhere", "nowhere is not a directory"),
        ("inspect nowhere", "nowhere is not a directory"),
        ("list .", "no run directory and holds no checkpoints"),
        ("inspect run --step 7", "the steps [1, 2]"),
        ("inspect run/checkpoints/iter_0000001 --step 2", "contradicts"),
        ("inspect run --stap 2", "--step"),
        ("inspect run --step two", "--step"),
        ("inspect", "PATH"),
        ("show run", "show"),
        ("", "command"),
    ],
)
def test_wrong_words_are_one_line(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, says: str
) -> None:
    monkeypatch.chdir(run_dir.parent)
    code, out, err = told(capsys, *words.split())
    assert (code, out) == (2, "")
    assert err.startswith("trainwright-checkpoint: ")
    assert says in err
    assert err.count("\n") == 1


def test_a_damaged_checkpoint_is_one_line(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "checkpoints" / "iter_0000002" / ".metadata").write_bytes(b"not a pickle")
    code, _, err = told(capsys, "inspect", str(copy))
    assert code == 2
    assert "iter_0000002" in err
    assert err.count("\n") == 1
