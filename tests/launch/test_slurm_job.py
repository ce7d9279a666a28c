"""A Slurm job is a pure function of settings and words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.launch.slurm_jobs import NEEDED, NOW, RECIPE, RUN_DIR, job_of, settings_of

from trainwright.launch import LaunchError
from trainwright.launch.batch_script import rank_command
from trainwright.launch.slurm_job import SlurmJob, host_of, render_slurm

# Whatever an argument can be; bytes that are no UTF-8 stand as Python has them in sys.argv.
WORDS = st.lists(st.binary(max_size=20).map(lambda word: os.fsdecode(word.replace(b"\0", b""))))


def render(*words: str, options: tuple[str, ...] = ()) -> SlurmJob:
    """A job with exactly these words."""
    return render_slurm(settings_of(*NEEDED, *options, *RECIPE), words, now=NOW, token="7f3a")


def test_the_whole_value() -> None:
    """Nothing in it that was not said, but a name and a run directory of its own."""
    assert job_of("--mount=/data:/d:ro", "-ms", "4") == SlurmJob(
        name="vanilla_gpt_pretrain",
        id="vanilla_gpt_pretrain-20261130-090507-7f3a",
        nodes=2,
        tasks_per_node=8,
        directives={"account": "team", "partition": "batch", "gpus-per-node": "8", "export": "PATH"},
        image="/images/x.sqsh",
        mounts=settings_of(*NEEDED, "--mount=/data:/d:ro").mounts,
        env_names=(),
        srun_args=(),
        words=("-ms", "4", *RECIPE),
        run_dir=RUN_DIR,
        checkpoints=f"{RUN_DIR}/checkpoints",
        command=("run-recipe", "--run-dir", RUN_DIR, "-ms", "4", *RECIPE),
        memory_clock=None,
        max_requeues=0,
        source=None,
        notes=(),
    )


@given(WORDS)
def test_words_arrive_byte_for_byte_in_order(words: list[str]) -> None:
    """Behind the run directory, whatever they hold."""
    words = [word for word in words if not word.lstrip("+").startswith("logger.run_dir=")]
    job = render(*RECIPE, *words)
    assert job.words == (*RECIPE, *words)
    assert job.command[-len(job.words) :] == job.words


@pytest.mark.parametrize(
    ("options", "directives"),
    [
        ((), {"gpus-per-node": "8"}),
        (("--no-gpu-resource-request",), {}),
        (("--gres=gpu:h100:8",), {"gres": "gpu:h100:8"}),
        (("--gres=gpu",), {"gres": "gpu"}),
        (("--gres=nvme:1,gpu:4",), {"gres": "nvme:1,gpu:4"}),
        (("--gres=gres/gpu=4",), {"gres": "gres/gpu=4"}),
        (("--gres=nvme:1",), {"gres": "nvme:1", "gpus-per-node": "8"}),
        (("--time=2-00", "--signal=USR1@120"), {"gpus-per-node": "8", "time": "2-00", "signal": "USR1@120"}),
        (
            ("--additional-slurm-params=mail-type=END;exclusive=true",),
            {"gpus-per-node": "8", "mail-type": "END", "exclusive": True},
        ),
    ],
)
def test_directives_are_what_was_said(options: tuple[str, ...], directives: dict[str, str | bool]) -> None:
    """The request for GPUs once; the tasks of a node stay, however they are requested."""
    job = job_of(*options)
    assert job.directives == {"account": "team", "partition": "batch", "export": "PATH", **directives}
    assert job.tasks_per_node == 8


def test_only_named_variables_are_exported_and_by_name() -> None:
    """PATH, which the batch script needs to find srun, stays outside the container."""
    job = job_of("--env=HF_TOKEN", "--env=NCCL_DEBUG", environment={"HF_TOKEN": "secret", "NCCL_DEBUG": "x", "A": "b"})
    assert job.directives["export"] == "PATH,HF_TOKEN,NCCL_DEBUG"
    assert job.env_names == ("HF_TOKEN", "NCCL_DEBUG")
    assert "secret" not in repr(job)


@pytest.mark.parametrize(
    ("words", "run_dir", "checkpoints", "noted"),
    [
        ((), RUN_DIR, f"{RUN_DIR}/checkpoints", False),
        (("--run-dir", "/runs/a"), "/runs/a", "/runs/a/checkpoints", False),
        (("--run_dir=/runs/a",), "/runs/a", "/runs/a/checkpoints", False),
        (("--run-dir", "/nemo_run/x"), "/nemo_run/x", "/nemo_run/x/checkpoints", False),
        (("--run-dir", "/nowhere/a"), "/nowhere/a", "/nowhere/a/checkpoints", True),
        (("--save_dir", "/runs/c"), RUN_DIR, "/runs/c", False),
        (("--save-dir=/runs/c",), RUN_DIR, "/runs/c", False),
        (("--save_dir", "/runs/c", "checkpoint.save='/runs/d e'"), RUN_DIR, "/runs/d e", False),
        (("++checkpoint.save=/runs/d",), RUN_DIR, "/runs/d", False),
        (("--save_dir", "c"), RUN_DIR, "/nemo_run/code/c", False),
    ],
)
def test_run_directory_and_checkpoints_are_found_in_the_words(
    words: tuple[str, ...], run_dir: str, checkpoints: str, noted: bool
) -> None:
    """Without --run-dir the job's own mount keeps everything; a directory that no mount holds is said."""
    job = render(*RECIPE, *words, options=("--mount=/scratch:/runs",))
    assert (job.run_dir, job.checkpoints) == (run_dir, checkpoints)
    assert bool(job.notes) is noted
    own = ("--run-dir", RUN_DIR) if run_dir == RUN_DIR else ()
    assert job.command[1:] == (*own, *RECIPE, *words)


def test_paths_of_the_container_are_found_on_the_host() -> None:
    """Under a mount, or in the job's own directory."""
    job = render(*RECIPE, options=("--mount=/scratch:/runs",))
    assert host_of("/runs/a", job, "/jobs/7") == "/scratch/a"
    assert host_of(job.run_dir, job, "/jobs/7") == f"/jobs/7{RUN_DIR.removeprefix('/nemo_run')}"
    assert host_of("/tmp/a", job, "/jobs/7") is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no recipe: give --recipe NAME, or --model STEM with --mode pretrain, sft, lora or dora"),
        (
            ("--recipe", "a", "--model=b"),
            "--recipe and --model are both given: a complete recipe names its model, so give one",
        ),
        (("--recipe",), "--recipe needs a value: --recipe NAME"),
        (("--model=",), "--model needs a value: --model NAME"),
        ((*RECIPE, "--run-dir"), "--run-dir: a path is missing"),
        (
            (*RECIPE, "--run-dir", "runs/a"),
            "--run-dir runs/a: give an absolute path under a --mount, so that another submission finds it again",
        ),
        (
            (*RECIPE, "++logger.run_dir=/a"),
            "++logger.run_dir=/a: the launcher reads the run's status there, so give it as --run-dir PATH",
        ),
        ((*RECIPE, "x" * 140_000), f"the word '{'x' * 40}'... has 140000 bytes; a program can be given at most 131000"),
    ],
)
def test_words_that_cannot_become_a_job_are_refused(words: tuple[str, ...], message: str) -> None:
    """In one line, before anything exists."""
    with pytest.raises(LaunchError) as caught:
        render(*words)
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("options", "clock"), [((), None), (("-lmc", "-1"), None), (("-lmc", "4000"), 4000), (("--peak-mem-clk=1",), 1)]
)
def test_minus_one_leaves_the_clock_alone(options: tuple[str, ...], clock: int | None) -> None:
    """As if nothing had been said."""
    assert job_of(*options).memory_clock == clock


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Something that looks like a checkout, with a blank in its path."""
    root = tmp_path / "a b"
    for folder in ("packages/launch/src", "packages/runner/src", "apps/trainer/src"):
        (root / folder).mkdir(parents=True)
    (root / "packages" / "README").touch()
    package = root / "apps" / "trainer" / "src" / "trainwright_trainer"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("import os, sys\nprint(os.environ['PYTHONPATH'], *sys.argv[1:], sep='\\n')\n")
    return root


@pytest.mark.parametrize("before", [None, "/already/there"])
def test_a_checkout_goes_before_the_image(checkout: Path, before: str | None) -> None:
    """Its packages stand first on PYTHONPATH, and its run-recipe is what runs; words stay untouched."""
    job = render(*RECIPE, "a b", "$x", "", options=(f"--mount={checkout}", f"--source={checkout}"))
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    if before is not None:
        environment["PYTHONPATH"] = before
    done = subprocess.run(rank_command(job), env=environment, capture_output=True, text=True, check=True, timeout=60)
    path, *words = done.stdout.splitlines()
    sources = [checkout / "apps/trainer/src", checkout / "packages/runner/src", checkout / "packages/launch/src"]
    assert path.split(":") == [*map(str, sources), *([] if before is None else [before])]
    assert words == ["--run-dir", RUN_DIR, *RECIPE, "a b", "$x", ""]


def test_a_checkout_that_is_not_there_is_refused_by_the_job(tmp_path: Path) -> None:
    """One line and exit code 2, which no job repeats."""
    job = render(*RECIPE, options=("--mount=/:/host", f"--source=/host{tmp_path}"))
    done = subprocess.run(rank_command(job), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr == f"--source /host{tmp_path}: no checkout of trainwright is there in the container\n"
