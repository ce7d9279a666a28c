"""`environment.json`: on what a session ran."""

import json
import platform
import shutil
import socket
import subprocess

import pytest
from tests.runner.telemetry_run import Meter, applied, resolved, session

from trainwright.runner.telemetry import environment


@pytest.fixture
def ranks(monkeypatch):
    """As torchrun starts rank 0 of two on one machine."""
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2}.items():
        monkeypatch.setenv(name, str(value))


def written(run_dir):
    return json.loads((run_dir / "environment.json").read_text())


def test_it_says_what_ran_where_and_as_what(ranks, tmp_path):
    with session(tmp_path) as telemetry:
        telemetry.attempt(applied(1.0))
    said = written(tmp_path)
    manifest = json.loads((tmp_path / "run.json").read_text())
    assert (said["run_id"], said["session_id"]) == ("run-1", manifest["sessions"][0]["session_id"])
    assert (said["recipe"], said["mode"], said["canonical"]) == ("vanilla_gpt_pretrain_config", "pretrain", False)
    differences = said["canonical_differences"]
    assert "train.global_batch_size: 32 -> 4 (override)" in differences
    assert manifest["sessions"][0]["recipe"]["canonical_differences"] == differences
    assert said["host"]["name"] == socket.gethostname()
    assert said["device"]["kind"] == "cpu" and said["device"]["name"] and said["device"]["memory_bytes"] > 1 << 30
    topology = said["topology"]
    assert (topology["world_size"], topology["num_nodes"], topology["ranks_per_node"]) == (2, 1, 2)
    assert (topology["data_parallel_size"], topology["tensor_model_parallel_size"]) == (2, 1)
    assert said["launch"] is None
    assert manifest["sessions"][0]["hardware"]["nodes"] == 1
    assert manifest["sessions"][0]["hardware"]["name"] == said["device"]["name"]


def test_it_has_the_versions_that_are_installed(tmp_path):
    versions = environment.versions()
    assert versions["python"] == platform.python_version()
    for name in ("torch", "numpy", "megatron-core", "tensorboard", "trainwright-runner", "trainwright-recipes"):
        assert versions[name][0].isdigit()
    assert "no-such-distribution" not in versions


def test_a_later_session_replaces_it_and_leaves_nothing_beside_it(tmp_path):
    for _ in range(2):
        with session(tmp_path):
            pass
    assert written(tmp_path)["session_id"].startswith("0002-")
    assert [path.name for path in tmp_path.iterdir() if "environment" in path.name] == ["environment.json"]


def test_only_known_families_and_the_configurations_own_variables_are_kept_without_secrets():
    kept = environment.relevant(
        {
            "NCCL_DEBUG": "INFO",
            "SLURM_JOB_ID": "7",
            "SLURM_JWT": "eyJ",
            "HF_TOKEN": "abc",
            "HF_HOME": "/cache",
            "MASTER_ADDR": "node1",
            "RANK": "0",
            "WANDB_BASE_URL": "https://user:pass@wandb.example",
            "AWS_SECRET_ACCESS_KEY": "abc",
            "HOME": "/root",
            "MY_SWITCH": "1",
        },
        {"MY_SWITCH": "1"},
    )
    assert kept == {
        "HF_HOME": "/cache",
        "HF_TOKEN": "<redacted>",
        "MASTER_ADDR": "node1",
        "MY_SWITCH": "1",
        "NCCL_DEBUG": "INFO",
        "RANK": "0",
        "SLURM_JOB_ID": "7",
        "SLURM_JWT": "<redacted>",
        "WANDB_BASE_URL": "https://<redacted>@wandb.example",
    }


def test_what_the_launcher_said_is_merged_without_its_secrets(tmp_path):
    said = {"executor": "local", "argv": ["run-recipe", "--token", "abc"], "env": {"HF_TOKEN": "abc", "A": "b"}}
    (tmp_path / "launch.json").write_text(json.dumps(said))
    with session(tmp_path):
        pass
    launch = written(tmp_path)["launch"]
    assert launch == {
        "executor": "local",
        "argv": ["run-recipe", "--token", "<redacted>"],
        "env": {"HF_TOKEN": "<redacted>", "A": "b"},
    }


@pytest.mark.parametrize("content", [b"{", b"\xff", b'{"x": NaN'])
def test_a_broken_launch_file_is_noted_and_stops_nothing(tmp_path, content):
    (tmp_path / "launch.json").write_bytes(content)
    with session(tmp_path):
        pass
    assert "unreadable" in written(tmp_path)["launch"]


def test_numbers_that_json_does_not_have_become_text(tmp_path):
    (tmp_path / "launch.json").write_text('{"limit": Infinity}')
    assert environment.launch(tmp_path) == {"limit": "Infinity"}


@pytest.fixture
def repository(tmp_path):
    """A checkout with one committed file."""

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "code.py").write_text("1")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    return tmp_path, git("rev-parse", "HEAD")


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_a_checkout_is_named_by_its_commit_and_by_whether_it_was_changed(repository):
    folder, commit = repository
    environment.checkout.cache_clear()
    assert environment.checkout(folder / "module") == {"commit": commit, "dirty": False}
    (folder / "module" / "code.py").write_text("2")
    environment.checkout.cache_clear()
    assert environment.checkout(folder / "module") == {"commit": commit, "dirty": True}


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_an_installation_inside_somebody_elses_checkout_has_no_commit(repository):
    folder, _ = repository
    (folder / "site-packages").mkdir()
    (folder / "site-packages" / "code.py").write_text("1")
    assert environment.checkout(folder / "site-packages") is None


def test_a_machine_without_git_has_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment.checkout(tmp_path) is None


def test_the_nodes_are_what_the_launcher_says(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "SLURM_STEP_ID", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    assert environment.num_nodes(1) == 1
    for name, value in {"RANK": 3, "WORLD_SIZE": 16, "LOCAL_RANK": 3, "LOCAL_WORLD_SIZE": 8}.items():
        monkeypatch.setenv(name, str(value))
    assert environment.num_nodes(16) == 2


def test_the_description_is_strict_json(ranks, tmp_path):
    described = environment.describe_device(Meter())
    said = environment.describe(resolved(), described, tmp_path, run_id="r", session_id="s")
    json.dumps(said, allow_nan=False)
