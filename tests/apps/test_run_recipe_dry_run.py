"""`run-recipe --dry-run` and `--dump-env`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from trainwright.recipes import FLAGS, Selection, from_yaml, resolve
from trainwright_trainer.run_recipe import main

WORDS = ("--recipe", "llama32_1b_pretrain_config", "--device", "cpu", "--dry-run")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory, and an environment that is put back."""
    monkeypatch.chdir(tmp_path)
    before = dict(os.environ)
    for name in before:
        if name.startswith("SLURM_") or name in ("WORLD_SIZE", "RANK"):
            del os.environ[name]
    yield tmp_path
    os.environ.clear()
    os.environ.update(before)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_stdout_is_the_configuration_that_would_be_run(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    assert main([*WORDS, "-gb", "64", "train.micro_batch_size=2"]) == 0
    expected = resolve(
        Selection(recipe="llama32_1b_pretrain_config"),
        ["train.micro_batch_size=2"],
        world_size=1,
        device="cpu",
        flags={"train.global_batch_size": "64"},
    )
    assert from_yaml(capsys.readouterr().out) == expected.config
    assert files(here) == []


def test_stderr_says_how_large_the_run_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Llama 3.2 1B with the recipe's vocabulary of 32,000 instead of 128,256: 1,235,814,400 - 96,256 * 2048."""
    os.environ["WORLD_SIZE"] = "8"
    assert main([*WORDS, "-tp", "2", "-gb", "64", "-ms", "3000", "-sl", "4096"]) == 0
    told = capsys.readouterr().err
    assert "TP 2, PP 1, CP 1, DP 4" in told
    assert f"parameters  {1_235_814_400 - 96_256 * 2048:,}" in told
    assert f"samples     {64 * 3000:,}" in told
    assert f"tokens      {64 * 3000 * 4096:,}" in told
    assert "16 micro-batches of 1 on each rank" in told
    assert "activations; libraries come on top" in told
    assert "train.train_iters (flag --max_steps)" in told


def test_the_configuration_is_written_where_it_is_asked_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parents are made, and a second dry run replaces the file of the first."""
    for steps in ("3000", "4000"):
        assert main([*WORDS, "-ms", steps, "logger.save_config_filepath=new/folder/config.yaml"]) == 0
    assert files(here) == ["new/folder/config.yaml"]
    written = from_yaml((here / "new/folder/config.yaml").read_text())
    assert written.train.train_iters == 4000
    assert capsys.readouterr().out.endswith((here / "new/folder/config.yaml").read_text())


def test_it_needs_no_torch() -> None:
    """A mistake is found in a second, also where torch takes ten to import."""
    script = (
        "import sys; from trainwright_trainer.run_recipe import main; code = main(sys.argv[1:]); "
        "sys.exit('torch was imported' if 'torch' in sys.modules else code)"
    )
    done = subprocess.run([sys.executable, "-c", script, *WORDS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_tokenizer_that_cannot_be_fetched_here_is_no_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    """The machines that train may have it; a file that is named and is not there is one."""
    os.environ.update(HF_HUB_OFFLINE="1", HF_HOME="no-cache")
    words = ["--recipe", "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config", "--device", "cuda", "--dry-run"]
    with patch("huggingface_hub.snapshot_download", side_effect=OSError("no way to the hub")):
        assert main(words) == 0
        assert main([*words, "tokenizer.tokenizer_model=/no/such/folder"]) == 2
    told = capsys.readouterr().err
    assert "warning: the data was not checked: tokenizer.tokenizer_model: Qwen/Qwen3-30B-A3B is no local folder" in told
    assert "parameters  30,532,122,624" in told


def test_only_rank_zero_prints_and_writes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.environ.update(WORLD_SIZE="2", RANK="1", LOCAL_RANK="1")
    assert main([*WORDS, "logger.save_config_filepath=config.yaml"]) == 0
    assert capsys.readouterr() == ("", "")
    assert files(here) == []


def test_a_dry_run_is_checked_at_the_size_that_slurm_has_promised(capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["SLURM_NTASKS"] = "6"
    assert main([*WORDS, "-tp", "4"]) == 2
    assert "world size 6 is not a multiple of 4" in capsys.readouterr().err


def test_the_environment_is_printed_without_its_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    """It is the environment that training would see: the recipe's variables are in it."""
    os.environ.update(HF_TOKEN="hf_abcdefghijklmnopqrstuvwxyz", PLAIN="seen")
    assert main([*WORDS, "--dump-env"]) == 0
    told = capsys.readouterr().err
    assert "hf_abcdefghijklmnopqrstuvwxyz" not in told
    assert "HF_TOKEN=<redacted>  # shell\n" in told
    assert "PLAIN=seen  # shell\n" in told


def test_the_environment_says_where_each_variable_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    """Shell, Slurm, torchrun, the recipe, a word, and what a flag brought along."""
    os.environ.update(NCCL_NVLS_ENABLE="1", SLURM_JOB_ID="7", RANK="0", WORLD_SIZE="1", TORCHELASTIC_RUN_ID="none")
    for name in ("TORCH_NCCL_HIGH_PRIORITY", "NCCL_DEBUG", "NCCL_ALGO"):
        os.environ.pop(name, None)
    cuda = [word.replace("cpu", "cuda") for word in WORDS]
    assert main([*cuda, "--dump-env", "--deterministic", "env_vars.NCCL_DEBUG=INFO"]) == 0
    told = capsys.readouterr().err
    for line in (
        "NCCL_NVLS_ENABLE=1  # shell",
        "SLURM_JOB_ID=7  # slurm",
        "RANK=0  # torchrun",
        "TORCH_NCCL_HIGH_PRIORITY=1  # recipe",
        "NCCL_DEBUG=INFO  # override",
        "NCCL_ALGO=Ring  # run-recipe",
    ):
        assert f"{line}\n" in told


def test_a_variable_that_is_set_keeps_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["NCCL_NVLS_ENABLE"] = "1"
    os.environ.pop("NCCL_GRAPH_REGISTER", None)
    assert main([*WORDS]) == 0
    assert (os.environ["NCCL_NVLS_ENABLE"], os.environ["NCCL_GRAPH_REGISTER"]) == ("1", "0")
    assert "warning" not in capsys.readouterr().err, "nobody typed the recipe's value"


def test_a_typed_variable_that_does_not_win_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The shell's wins over what was typed too, and nothing that was typed is silently ignored."""
    os.environ["NCCL_DEBUG"] = "WARN"
    assert main([*WORDS, "env_vars.NCCL_DEBUG=INFO"]) == 0
    assert "warning: env_vars.NCCL_DEBUG=INFO has no effect: NCCL_DEBUG=WARN is set already" in capsys.readouterr().err


def test_a_recipe_that_cannot_run_is_looked_at_and_not_started(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    """A dry run says why; with as many ranks as its name says, a run is refused for the same reason."""
    words = ["--recipe", "deepseek_v3_pretrain_64gpu_h100_bf16_config", "--device", "cuda"]
    reason = "expert times pipeline parallelism does not divide its GPUs"
    assert main([*words, "--dry-run"]) == 0
    assert f"no run of it starts: {reason}" in capsys.readouterr().err
    os.environ.update(WORLD_SIZE="64", RANK="0", LOCAL_RANK="0")
    assert main(words) == 2
    assert capsys.readouterr().err.endswith(f"config is known to be invalid as it stands: {reason}\n")
    assert files(here) == []


def test_one_rank_of_a_recipe_for_many_is_told_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A laptop cannot hold a copy of the model: smaller sizes, or a rehearsal."""
    assert main(["--recipe", "llama3_70b_pretrain_64gpu_h100_bf16_config", "--device", "cpu"]) == 2
    told = capsys.readouterr().err
    assert "world size 1 is not a multiple of 32 = tensor 4 x pipeline 4 x context 2" in told
    assert "choose smaller sizes (-tp, -pp, -cp, -ep), or let run-recipe --rehearse shrink the recipe" in told


def test_help_shows_every_flag_with_the_field_it_sets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for flag in FLAGS:
        assert any(flag.field in line and all(name in line for name in flag.names) for line in lines)
    assert max(map(len, lines)) <= 120
