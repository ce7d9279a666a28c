"""`run-recipe --rehearse`: what it does on this machine, what it says, and what it leaves."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainwright.recipes import from_yaml
from trainwright_trainer.run_recipe import main

LLAMA = ("--rehearse", "--recipe", "llama3_70b_pretrain_config")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory, temporary files in a place of the test's own, the environment put back."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = dict(os.environ)
    for name in before:
        if name.startswith("SLURM_") or name in ("WORLD_SIZE", "RANK"):
            del os.environ[name]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield tmp_path
    for number, handler in handlers.items():
        signal.signal(number, handler)
    os.environ.clear()
    os.environ.update(before)


def left(folder: Path) -> list[str]:
    """What is there beside the places of Python's own multiprocessing, which go with the test process."""
    return [str(path) for path in (*folder.glob("rehearsal-*"), *(folder / "here").iterdir())]


def sections(page: str) -> dict[str, str]:
    """Title -> text of a page."""
    parts = re.split(r"^(ran|shrunk|not checked)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.distributed
@pytest.mark.parametrize(
    ("recipe", "grid"),
    [
        # Interleaved pipeline; grouped queries.
        ("llama3_70b_pretrain_64gpu_h100_bf16_config", "PP 2 x VP 2"),
        # Experts over tensor parallel ranks; latent attention, further predictions, dense blocks first.
        ("deepseek_v3_pretrain_config", "TP 2, CP 1, DP 1, EP 2"),
        # Muon; random routing.
        ("kimi_k2_pretrain_256gpu_b300_bf16_config", "DP 2, EP 2"),
        # Windows, sinks, biases.
        ("gpt_oss_20b_pretrain_8gpu_b300_nvfp4_config", "EP 2"),
        # Adapters; packed rows.
        ("llama3_70b_peft_8gpu_h100_bf16_config", "PP 2 x VP 2"),
        ("llama32_1b_sft_config", ""),
    ],
)
def test_a_recipe_of_each_kind_trains_and_says_what_that_shows(
    recipe: str, grid: str, capsys: pytest.CaptureFixture[str], temporary: Path
) -> None:
    ranks = "1" if recipe.startswith("llama32") else "2"
    assert main(["--rehearse", "--recipe", recipe, "--ranks", ranks]) == 0
    page = sections(capsys.readouterr().out)
    assert "the same losses again (4: " in page["ran"]
    assert "accepted by the audit" in page["ran"]
    assert grid in page["shrunk"]
    assert "memory, speed, several nodes" in page["not checked"]
    assert left(temporary) == []


@pytest.mark.distributed
def test_the_run_directory_that_is_named_stays(capsys: pytest.CaptureFixture[str], temporary: Path) -> None:
    """It is a run's like any other; a second rehearsal does not write over it."""
    assert main([*LLAMA, "--ranks", "1", "--run-dir", "kept"]) == 0
    kept = Path("kept")
    assert f"kept in {kept.absolute()}" in capsys.readouterr().out
    assert from_yaml((kept / "configs" / "ConfigContainer.yaml").read_text()).train.train_iters == 5
    assert (kept / "training_report.json").is_file()
    assert main([*LLAMA, "--ranks", "1", "--run-dir", "kept"]) == 2
    assert "is there already" in capsys.readouterr().err


@pytest.mark.distributed
def test_what_the_run_would_refuse_is_refused_in_its_words(capsys: pytest.CaptureFixture[str], temporary: Path) -> None:
    """The user's own data stays in force, and this one is not there."""
    words = ("--dataset", "megatron-indexed", "dataset.data_path=/nowhere/corpus")
    assert main([*LLAMA, *words, "--ranks", "1"]) == 2
    told = capsys.readouterr()
    assert "/nowhere/corpus" in told.err
    assert told.out == ""
    assert left(temporary) == []


@pytest.mark.distributed
def test_a_run_that_does_not_train_fails(capsys: pytest.CaptureFixture[str], temporary: Path) -> None:
    assert (
        main([*LLAMA, "--ranks", "1", "optimizer.lr=1e30", "optimizer.clip_grad=0", "scheduler.lr_warmup_iters=1"]) == 1
    )
    assert "20 updates in a row were skipped" in capsys.readouterr().err
    assert left(temporary) == []


def test_a_dry_run_of_it_only_says_how_it_would_be_shrunk(capsys: pytest.CaptureFixture[str], temporary: Path) -> None:
    """The configuration goes to stdout, as that of any dry run."""
    assert main([*LLAMA, "--dry-run", "--ranks", "4"]) == 0
    told = capsys.readouterr()
    model = from_yaml(told.out).model
    assert (model.pipeline_model_parallel_size, model.tensor_model_parallel_size) == (2, 2)
    assert "PP 2 x VP 2, TP 2, CP 1, DP 1" in sections(told.err)["shrunk"]
    assert left(temporary) == []


def test_a_recipe_that_cannot_start_says_so_on_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Rehearsing it is allowed, as looking at it is."""
    assert main(["--rehearse", "--recipe", "deepseek_v3_pretrain_64gpu_h100_bf16_config", "--dry-run"]) == 0
    assert "the run itself cannot start: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ranks", "2"], "--ranks 2 belongs to --rehearse"),
        (["--rehearse", "--ranks", "0"], "--ranks 0: it takes a number from 1 to 64"),
        (["--rehearse", "--ranks", "two"], "--ranks two: it takes a number from 1 to 64"),
        (
            ["--rehearse", "--ranks", "7"],
            "--ranks 7: a grid of PP 4 x VP 5, TP 4, CP 2, DP 1 is reduced to 1, 2, 3, 4, 6, ",
        ),
        (["--rehearse", "--ranks", "64"], "--ranks 64: the run itself has 32"),
        (["--rehearse", "checkpoint.load=/weights"], "checkpoint.load=/weights: weights of the whole model do not fit"),
        (["--rehearse", "-tp", "3"], "3"),
    ],
)
def test_bad_words_are_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--recipe", "llama3_70b_pretrain_config", *words]) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.out == ""
    assert told.err.count("\n") == 1


def test_ranks_that_somebody_started_do_not_each_rehearse(capsys: pytest.CaptureFixture[str]) -> None:
    os.environ.update(WORLD_SIZE="2", RANK="0", LOCAL_RANK="0", LOCAL_WORLD_SIZE="2")
    assert main([*LLAMA]) == 2
    assert "--rehearse starts its own ranks" in capsys.readouterr().err


@pytest.mark.distributed
def test_stopping_it_leaves_nothing_and_no_rank(temporary: Path) -> None:
    """SIGTERM in the middle: one line, exit code 1."""
    script = "import sys; from trainwright_trainer.run_recipe import main; sys.exit(main(sys.argv[1:]))"
    environment = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", script, *LLAMA]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while not list(temporary.glob("rehearsal-*")):
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(1)
        process.terminate()
        assert process.stderr is not None
        told = process.stderr.read()
    assert process.returncode == 1, told
    assert told.endswith("run-recipe: stopped by SIGTERM; nothing was written\n")
    assert left(temporary) == []
