"""A submission from a login node: what sbatch gets, what is recorded, and what is left when it refuses."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.launch.nemo.shell import REFUSING, SBATCH, Shell

NEEDED = ("--nodes=2", "--gpus-per-node=8", "--account=team", "--partition=batch", "--container-image=/x.sqsh")
RECIPE = ("--recipe", "vanilla_gpt_pretrain_config")
SECRET = "s3cr3t'; $x"


def test_a_job_is_submitted_and_the_user_is_told_how_to_go_on(shell: Shell) -> None:
    """Exit code 0 and every command that is needed next; nothing of NeMo-Run's own talk."""
    said = shell.launch(*NEEDED, *RECIPE)
    assert (said.code, said.err) == (0, "")
    directory = _directory(shell)
    log = f"{directory}/log-vanilla_gpt_pretrain_4711_0.out"
    batch = f"{directory}/sbatch_vanilla_gpt_pretrain_4711.out"
    run_dir = next((directory / "runs").iterdir())
    assert said.out.splitlines() == [
        "job 4711 (vanilla_gpt_pretrain) is submitted",
        f"  run directory  {run_dir}",
        f"  log of ranks   {log}",
        f"  log of script  {batch}",
        "  its place      squeue -j 4711",
        "  its history    sacct -j 4711 --format=JobID,State,ExitCode,Elapsed",
        f"  follow it      tail -F {log} {batch}",
        "  end it         scancel 4711",
    ]


def test_sbatch_is_called_once_and_with_a_script_that_stays(shell: Shell) -> None:
    """NeMo-Run's own words; the job may be requeued by Slurm."""
    shell.launch(*NEEDED, *RECIPE)
    *words, script = shell.kept("words").splitlines()
    assert words == ["--requeue", "--parsable"]
    assert Path(script).read_text() == shell.kept("script")


def test_a_dry_run_prints_that_script_and_leaves_nothing(shell: Shell) -> None:
    """But for the time and the token in its names, byte for byte; no program of Slurm's is needed."""
    shell.launch(*NEEDED, *RECIPE)
    submitted = shell.kept("script")
    (shell.place / "bin" / "sbatch").unlink()
    before = shell.tree()
    said = shell.launch(*NEEDED, "--dry-run", *RECIPE)
    assert (said.code, said.err) == (0, "")
    assert shell.tree() == before
    assert _without_token(said.out) == _without_token(submitted + "\n")


def _without_token(script: str) -> str:
    """The script without what differs between two launches."""
    return re.sub(r"\d{8}-\d{6}-[0-9a-f]{4}", "TIME-TOKEN", script)


def test_slurms_refusal_is_one_line_and_leaves_nothing(shell: Shell) -> None:
    """In Slurm's own words, exit code 1."""
    shell.program("sbatch", REFUSING)
    before = shell.tree()
    said = shell.launch(*NEEDED, *RECIPE)
    assert said.code == 1
    assert said.out == ""
    assert said.err == (
        "trainwright: sbatch: error: invalid partition specified: no-such; "
        "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
    )
    assert shell.tree() == before


def test_a_refusal_leaves_an_earlier_runs_record_as_it_was(shell: Shell) -> None:
    """Another submission of the same run directory."""
    run_dir = shell.place / "data" / "run"
    run_dir.mkdir(parents=True)
    (run_dir / "launch.json").write_text("earlier")
    shell.program("sbatch", REFUSING)
    said = shell.launch(*NEEDED, f"--mount={shell.place}/data:/data", "--run-dir=/data/run", *RECIPE)
    assert said.code == 1
    assert [path.name for path in run_dir.iterdir()] == ["launch.json"]
    assert (run_dir / "launch.json").read_text() == "earlier"


def test_the_record_says_what_was_launched(shell: Shell) -> None:
    """Words as typed, every option with its origin, the working directory, and no git where there is none."""
    words = ("a=$x ' é", "b=\udcff")
    shell.launch(*NEEDED[:-1], "--time=10", *RECIPE, *words, CONTAINER_IMAGE="/y.sqsh")
    record = _record(shell)
    assert record["executor"] == "slurm"
    assert record["words"] == [*RECIPE, *words]
    assert record["settings"]["nodes"] == {"value": 2, "origin": "flag --nodes"}
    assert record["settings"]["container_image"] == {"value": "/y.sqsh", "origin": "environment CONTAINER_IMAGE"}
    assert record["settings"]["max_requeues"] == {"value": 0, "origin": "default"}
    assert (record["cwd"], record["git"]) == (str(shell.work), None)
    assert record["launched_at"].startswith("20")
    assert record["launcher"] == "0.1.0"


def test_the_record_is_there_before_the_job_and_names_it_after(shell: Shell) -> None:
    """A job may start while sbatch answers, and reads it."""
    shell.launch(*NEEDED, *RECIPE)
    before = json.loads(shell.kept("launch.json"))
    after = _record(shell)
    assert "job" not in before
    assert {key: value for key, value in after.items() if key != "job"} == before
    assert after["job"]["id"] == "4711"
    assert after["job"]["directory"] == str(_directory(shell))


def test_the_record_goes_into_a_run_directory_under_a_mount(shell: Shell) -> None:
    """Where the mount is on the login node too."""
    (shell.place / "data").mkdir()
    said = shell.launch(*NEEDED, f"--mount={shell.place}/data:/data:rw", "--run-dir=/data/a/run", *RECIPE)
    assert (said.code, said.err) == (0, "")
    assert json.loads((shell.place / "data/a/run/launch.json").read_text())["job"]["id"] == "4711"


@pytest.mark.parametrize(
    ("mount", "why"),
    [
        ("--mount=/only-on-nodes-7f3a:/data", "what is mounted for /data/run is not on this machine"),
        ("--mount=/other", "no --mount says where /data/run is outside the container"),
    ],
)
def test_the_record_goes_into_the_jobs_directory_where_the_runs_is_out_of_reach(
    shell: Shell, mount: str, why: str
) -> None:
    """And a line says so; nothing is made on the login node in place of what the nodes mount."""
    said = shell.launch(*NEEDED, mount, "--run-dir=/data/run", *RECIPE)
    assert said.code == 0
    assert said.err.splitlines()[-1].endswith(why)
    assert json.loads((_directory(shell) / "launch.json").read_text())["job"]["id"] == "4711"
    assert not Path("/only-on-nodes-7f3a").exists()


def test_no_secret_is_in_any_file_or_word(shell: Shell) -> None:
    """sbatch has it in its environment, and nothing else has it at all."""
    said = shell.launch(*NEEDED, "--env=TOKEN", *RECIPE, TOKEN=SECRET, UNNAMED="s3cr3t-too")
    assert said.code == 0
    assert f"TOKEN={SECRET}\0" in shell.kept("environment")
    files = [path for path in shell.place.rglob("*") if path.is_file() and path.name != "sbatch.environment"]
    assert len(files) > 10
    assert [path for path in files if b"s3cr3t" in path.read_bytes()] == []
    assert "s3cr3t" not in said.out + said.err + shell.kept("words")


def test_sbatch_gets_no_options_from_the_environment(shell: Shell) -> None:
    """They would win over the script's; named in one warning. SLURM_CONF and what is forwarded stay."""
    stray = {"SBATCH_PARTITION": "other", "SBATCH_GRES": "x", "SLURM_JOB_ID": "1", "SLURM_PROCID": "3"}
    said = shell.launch(
        *NEEDED, "--env=SLURM_MINE", *RECIPE, **stray, PYXIS_X="1", SRUN_X="1", SLURM_CONF="/c", SLURM_MINE="2"
    )
    assert said.code == 0
    assert said.err == (
        "trainwright launch: warning: SBATCH_GRES, SBATCH_PARTITION not given to sbatch, which would prefer them to "
        "launch options\n"
    )
    names = {pair.partition("=")[0] for pair in shell.kept("environment").split("\0")}
    assert {name for name in names if name.startswith(("SBATCH_", "SLURM_", "SRUN_", "PYXIS_"))} == {
        "SLURM_CONF",
        "SLURM_MINE",
    }


def test_a_job_of_another_cluster_is_asked_for_there(shell: Shell) -> None:
    """sbatch names it behind the number."""
    shell.program("sbatch", SBATCH.format(place=shell.place, answer="12;far"))
    said = shell.launch(*NEEDED, "--additional-slurm-params=clusters=far", *RECIPE)
    assert "job 12 (vanilla_gpt_pretrain) is submitted" in said.out
    for command in ("squeue -M far -j 12", "sacct -M far -j 12", "scancel -M far 12"):
        assert command in said.out


def test_uncommitted_changes_are_recorded_and_told(shell: Shell) -> None:
    """One warning; the files are in the record."""
    subprocess.run(["git", "init", "-q", str(shell.work)], check=True)
    (shell.work / "new.py").touch()
    said = shell.launch(*NEEDED, *RECIPE)
    assert said.err == (
        "trainwright launch: warning: not committed: new.py; launch.json lists what differs from the commit\n"
    )
    assert _record(shell)["git"]["dirty"] == ["new.py"]


@pytest.mark.parametrize(
    ("words", "variables", "error"),
    [
        ((), {"PATH": "/nowhere"}, "sbatch is not on PATH: launch from a login node of the cluster"),
        ((), {"NEMORUN_HOME": "/a b"}, "NEMORUN_HOME /a b: only letters, digits and"),
        ((), {"NEMORUN_HOME": "/a\nb"}, "NEMORUN_HOME /a\\nb: only letters, digits and"),
        ((), {"NEMORUN_HOME": ""}, "NEMORUN_HOME is empty: set it to a directory, or unset it"),
        ((), {"NEMORUN_HOME": "/a,b"}, "NEMORUN_HOME /a,b: only letters"),
        ((), {"NEMORUN_HOME": "/a:b"}, "NEMORUN_HOME /a:b: only letters"),
        ((), {"NEMORUN_HOME": "/a$b"}, "NEMORUN_HOME /a$b: only letters"),
        ((), {"NEMORUN_HOME": "/a%j"}, "NEMORUN_HOME /a%j: only letters"),
        (("--env=nodes",), {"nodes": "3"}, "--env nodes: NeMo-Run's script sets a variable of this name itself"),
        (("--env=PYTHONUNBUFFERED",), {"PYTHONUNBUFFERED": "0"}, "--env PYTHONUNBUFFERED: NeMo-Run's script"),
    ],
)
def test_what_cannot_work_is_refused_before_anything(
    shell: Shell, words: tuple[str, ...], variables: dict[str, str], error: str
) -> None:
    """Exit code 2, one line, nothing made."""
    before = shell.tree()
    said = shell.launch(*NEEDED, *words, *RECIPE, **variables)
    assert said.code == 2
    assert said.err.startswith(f"trainwright: {error}")
    assert said.err.count("\n") == 1
    assert shell.tree() == before


def test_a_variable_that_the_script_sets_alike_is_fine(shell: Shell) -> None:
    """PYTHONUNBUFFERED=1 is what NeMo-Run sets."""
    assert shell.launch(*NEEDED, "--env=PYTHONUNBUFFERED", *RECIPE, PYTHONUNBUFFERED="1").code == 0


def test_jobs_may_live_elsewhere(shell: Shell) -> None:
    """NEMORUN_HOME, relative to the working directory too."""
    said = shell.launch(*NEEDED, *RECIPE, NEMORUN_HOME="own/place")
    assert said.code == 0
    assert f"--output={shell.work}/own/place/experiments/vanilla_gpt_pretrain/" in shell.kept("script")
    assert "experiments" not in shell.kept("home")


def test_nothing_but_the_jobs_own_things_is_written(shell: Shell) -> None:
    """In the home, only NeMo-Run's directory; nothing where the launcher was called, nothing temporary."""
    shell.launch(*NEEDED, *RECIPE)
    tops = {"/".join(path.split("/")[:2]) for path in shell.tree()}
    assert tops == {"home/.nemo_run"}


def _directory(shell: Shell) -> Path:
    """The one job's own directory."""
    (directory,) = (shell.home / ".nemo_run" / "experiments" / "vanilla_gpt_pretrain").glob("*/vanilla_gpt_pretrain")
    return directory


def _record(shell: Shell) -> dict[str, dict[str, object]]:
    (record,) = shell.home.rglob("launch.json")
    content: dict[str, dict[str, object]] = json.loads(record.read_text())
    return content
