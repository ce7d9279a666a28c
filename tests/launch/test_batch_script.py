"""The script that runs a job, line by line, and what reaches srun through real bash.

The golden files are written anew by `UPDATE_GOLDEN=1 pytest tests/launch/test_batch_script.py`.
"""

import os
import shlex
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.launch.slurm_jobs import NEEDED, RECIPE, RUN_DIR, job_of, settings_of

from trainwright.launch.batch_script import rank_command, render_sbatch, setup_lines, srun_options
from trainwright.launch.slurm_job import SlurmJob

GOLDEN = Path(__file__).parent / "golden"
EVERYTHING = (
    *("--time=1-12:00", "--gres=nvme:1", '--additional-slurm-params=comment=it\'s "ours";exclusive=true'),
    *("--mount=/data:/data:ro", "--mount=/scratch/with space", "--env=HF_TOKEN", "--env=WANDB_API_KEY"),
    *("--srun-arg=--mpi=pmix", "--srun-arg=--comment=a b", "-lmc", "4752", "--signal=USR1@120", "--max-requeues=3"),
    *("--experiment-name=all.of-it_1", "--source=/data/checkout", "--run-dir", "/scratch/with space/run"),
    *("model.x=[1, 'two']", "dataset.path=/ü", "it's $HOME\n"),
)
JOBS = {
    "plain": (),
    "everything": EVERYTHING,
    "whole-nodes": ("--no-gpu-resource-request",),
}
HOSTILE = (
    *(
        "",
        " ",
        "a b",
        "  two  blanks  ",
        "\ttab",
        "\n",
        "two\nlines\n",
        "\r\n",
        "it's",
        '"dq"',
        "'\"'\"'",
        "\\",
        "a\\nb",
    ),
    *(
        "$HOME",
        "${X}",
        "$(touch pwned)",
        "`touch pwned`",
        "$$",
        "$@",
        "!!",
        "*",
        "?",
        "[a-z]*",
        "{a,b}",
        "~",
        "#c",
        "a #b",
    ),
    *("a;b", "a&", "a&&b", "a|b", "a>b", "(a)", "a\nexit 7", "a\n#SBATCH --hold", "EOF", "%j", "{{ x }}", "{% raw %}"),
    *(
        "é",
        "李",
        "🎉",
        "\u202e",
        "\x01",
        "\x7f",
        "\udcff",
        "-x",
        "--flag=a b",
        "-",
        "/nemo_run",
        "a={'x': \"y\"}",
        "=",
        "\\\n",
    ),
)


def job(name: str) -> SlurmJob:
    """One of the jobs that have a golden file."""
    return job_of(*JOBS[name], environment={"HF_TOKEN": "hf_secret", "WANDB_API_KEY": "wandb_secret"})


@pytest.mark.parametrize("name", JOBS)
def test_the_script_is_the_golden_one(name: str) -> None:
    """Every line of it: nothing is added or lost unnoticed."""
    script = render_sbatch(job(name))
    file = GOLDEN / f"{name}.sbatch"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(script)
    assert script == file.read_text()


def test_no_golden_file_is_left_over() -> None:
    """One for each job."""
    assert {file.name for file in GOLDEN.iterdir()} == {f"{name}.sbatch" for name in JOBS}


@pytest.mark.parametrize(
    "recipe",
    [
        "deepseek_v3_pretrain_256gpu_gb200_fp8mx_config",
        "llama31_405b_pretrain_128gpu_gb300_nvfp4_config",
        "gpt_oss_120b_pretrain_64gpu_b300_bf16_config",
        "kimi_k2_pretrain_1024gpu_h100_fp8sc_config",
    ],
)
def test_nothing_is_inferred_from_the_recipe(recipe: str) -> None:
    """No srun flag, rank prefix, NUMA policy, segment size, offline mode or NCCL setting comes from its name."""
    words = ("--experiment-name=x", "--run-dir", "/nemo_run/r")
    plain, other = job_of(*words), job_of(*words, "--recipe", recipe)
    assert render_sbatch(other).replace(f"--recipe {recipe}", shlex.join(RECIPE)) == render_sbatch(plain)
    assert "recipe name" not in settings_of(*NEEDED, "--experiment-name=x", "--recipe", recipe).origins.values()


def test_srun_gets_only_what_was_said() -> None:
    """The container, the two ways to end a step that NeMo-Run writes as well, and the user's own words."""
    assert srun_options(job("plain"), job_dir="/jobs/7") == (
        "--container-image=/images/x.sqsh",
        "--container-mounts=/jobs/7:/nemo_run",
        "--container-workdir=/nemo_run/code",
        "--wait=60",
        "--kill-on-bad-exit=1",
    )
    assert srun_options(job("everything"), job_dir="/jobs/7") == (
        "--container-image=/images/x.sqsh",
        "--container-mounts=/data:/data:ro,/scratch/with space:/scratch/with space,/jobs/7:/nemo_run",
        "--container-workdir=/nemo_run/code",
        "--container-env=HF_TOKEN,WANDB_API_KEY",
        "--wait=60",
        "--kill-on-bad-exit=1",
        "--mpi=pmix",
        "--comment=a b",
    )


def test_no_value_of_a_variable_is_in_the_script() -> None:
    """Names alone."""
    script = render_sbatch(job("everything"))
    assert "secret" not in script
    assert "HF_TOKEN" in script


@pytest.mark.parametrize(
    "words", [(), EVERYTHING, HOSTILE, ("--additional-slurm-params=comment=日本", "a\n#SBATCH --hold")]
)
def test_no_directive_follows_a_command(words: tuple[str, ...]) -> None:
    """Slurm stops reading at the first command, so that a directive below it is lost without a word."""
    environment = {"HF_TOKEN": "x", "WANDB_API_KEY": "x"}
    lines = render_sbatch(job_of(*words, environment=environment)).splitlines()
    first = next(index for index, line in enumerate(lines) if line and not line.startswith("#"))
    assert lines[0] == "#!/bin/bash"
    assert [line for line in lines[first:] if line.lstrip().startswith("#SBATCH")] == []
    assert len([line for line in lines[:first] if line.startswith("#SBATCH --")]) >= 9


def test_directives_can_be_read_back() -> None:
    """Quotes as a shell reads them, which sbatch does too."""
    read = {}
    for line in render_sbatch(job("everything")).splitlines():
        if line.startswith("#SBATCH "):
            (word,) = shlex.split(line.removeprefix("#SBATCH "))
            key, _, value = word.partition("=")
            read[key] = value
    assert read == {
        "--account": "team",
        "--comment": 'it\'s "ours"',
        "--exclusive": "",
        "--export": "PATH,HF_TOKEN,WANDB_API_KEY",
        "--gpus-per-node": "8",
        "--gres": "nvme:1",
        "--job-name": "all.of-it_1",
        "--nodes": "2",
        "--ntasks-per-node": "8",
        "--open-mode": "append",
        "--output": "sbatch_all.of-it_1_%j.out",
        "--partition": "batch",
        "--requeue": "",
        "--signal": "USR1@120",
        "--time": "1-12:00",
    }


def test_what_goes_to_nemo_run_is_ascii() -> None:
    """Its text handling has nothing to get wrong."""
    setup_lines(job("everything"), job_dir="/jobs/é").encode("ascii")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission directory with a blank in its path, and an srun that records its words."""
    folder = tmp_path_factory.mktemp("sub mit")
    srun = folder / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text('#!/bin/sh\nprintf \'%s\\0\' "$@" > "$SLURM_SUBMIT_DIR/argv"\n')
    srun.chmod(srun.stat().st_mode | stat.S_IXUSR)
    return folder


def run_script(script: str, place: Path, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    """Run a rendered script as slurmd would, in a directory of its own."""
    own = {"SLURM_SUBMIT_DIR": str(place), "SLURM_JOB_ID": "7", "PATH": f"{place}/bin:/usr/bin:/bin"}
    return subprocess.run(
        ["bash"],
        input=script.encode(),
        env={**own, **environment},
        cwd=place,
        capture_output=True,
        check=False,
        timeout=60,
    )


def recorded(place: Path) -> list[str]:
    """What srun got."""
    return [os.fsdecode(word) for word in (place / "argv").read_bytes().split(b"\0")[:-1]]


def through_srun(the_job: SlurmJob, place: Path) -> None:
    """Check that srun gets each word of the job as it is."""
    done = run_script(render_sbatch(the_job), place)
    assert done.returncode == 0, done.stderr
    job_dir = place / "trainwright-jobs" / the_job.id
    assert recorded(place) == [
        f"--output={job_dir}/log-{the_job.name}_%j_0.out",
        *srun_options(the_job, job_dir=str(job_dir)),
        *rank_command(the_job),
    ]


def test_hostile_words_arrive(place: Path) -> None:
    """Each as one word of srun, byte for byte, and none of them is executed."""
    through_srun(job_of(*HOSTILE), place)
    assert list(place.rglob("pwned")) == []


def test_hostile_options_arrive(place: Path) -> None:
    """Image, mounts and words for srun are quoted like everything else."""
    mounts = ("--mount=/it's a/(x)", "--mount=/日本;touch pwned:/a&b:ro")
    words = ("--srun-arg=--comment=$(touch pwned) 'x'", '--srun-arg=--x=\n"\x01')
    image = job_of(*mounts, *words, image="/imgs/it's; touch pwned #.sqsh")
    assert image.image == "/imgs/it's; touch pwned #.sqsh"
    through_srun(image, place)
    assert list(place.rglob("pwned")) == []


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=30).filter(lambda word: b"\0" not in word), max_size=8))
def test_any_bytes_arrive(place: Path, words: list[bytes]) -> None:
    """Behind a field's name, so that none of them is an option of the launcher."""
    through_srun(job_of(*(f"a.b={os.fsdecode(word)}" for word in words)), place)


@pytest.mark.parametrize("name", JOBS)
def test_bash_accepts_the_script(name: str, place: Path) -> None:
    """As a whole, with nothing executed."""
    done = subprocess.run(["bash", "-n"], input=render_sbatch(job(name)), text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_for_two_runs_of_one_directory(place: Path) -> None:
    """The job's directory, and so the run's, is fixed in the script: submitted again, it continues."""
    script = render_sbatch(job("plain"))
    runs = []
    for number in ("7", "8"):
        assert run_script(script, place, SLURM_JOB_ID=number, SLURM_RESTART_COUNT="3").returncode == 0
        runs.append(recorded(place))
    assert runs[0] == runs[1]
    assert runs[0][0].endswith("_%j_3.out")
    assert RUN_DIR in runs[0]
    assert (place / "trainwright-jobs" / job("plain").id / "code").is_dir()


@pytest.mark.parametrize("code", [1, 2, 9, 75, 137])
def test_the_scripts_exit_code_is_sruns(place: Path, tmp_path: Path, code: int) -> None:
    """Nothing after srun hides a failure."""
    srun = tmp_path / "srun"
    srun.write_text(f"#!/bin/sh\nexit {code}\n")
    srun.chmod(0o755)
    assert run_script(render_sbatch(job("plain")), place, PATH=f"{tmp_path}:/usr/bin:/bin").returncode == code


def test_a_variable_that_is_not_exported_is_named_by_the_script(place: Path) -> None:
    """A script is submitted later than it was rendered; set but empty is set."""
    script = render_sbatch(job("everything"))
    done = run_script(script, place, HF_TOKEN="")
    assert done.returncode == 2
    assert done.stderr == b"trainwright: WANDB_API_KEY is not set: export it where sbatch is called\n"
    assert run_script(script, place, HF_TOKEN="", WANDB_API_KEY="x").returncode == 0


@pytest.mark.parametrize("name", ["a,b", "a:b", "a%b", "a\\b"])
def test_a_directory_that_cannot_be_mounted_is_named_by_the_script(place: Path, tmp_path: Path, name: str) -> None:
    """Pyxis splits at commas and colons, srun replaces what follows a %."""
    (tmp_path / name).mkdir()
    done = run_script(render_sbatch(job("plain")), place, SLURM_SUBMIT_DIR=str(tmp_path / name))
    assert done.returncode == 2
    assert b"no comma, colon, % or backslash may stand in it" in done.stderr
    assert list((tmp_path / name).iterdir()) == []


def test_the_script_says_that_it_is_for_sbatch(place: Path) -> None:
    """Run by hand it does nothing."""
    done = subprocess.run(
        ["bash"], input=render_sbatch(job("plain")), text=True, capture_output=True, check=False, env={}
    )
    assert done.returncode != 0
    assert "submit this script with sbatch" in done.stderr
