"""The script that NeMo-Run writes for a job, byte for byte, and what reaches srun through real bash.

The golden files are written anew by `UPDATE_GOLDEN=1 pytest tests/launch/nemo/test_script.py`.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.launch.slurm_jobs import job_of
from tests.launch.test_batch_script import EVERYTHING, HOSTILE, JOBS

from trainwright.launch.batch_script import rank_command, render_sbatch, srun_options
from trainwright.launch.nemo import SET_BY_THE_SCRIPT, dry_run, job_directory
from trainwright.launch.slurm_job import SlurmJob

GOLDEN = Path(__file__).parent / "golden"
HOME = Path("/home/user/.nemo_run")
SECRETS = {"HF_TOKEN": "hf_secret", "WANDB_API_KEY": "wandb_secret"}
# NeMo-Run writes these five options as two words each.
IN_TWO = ("--output", "--container-image", "--container-mounts", "--container-workdir", "--container-env")

Call = Callable[..., Any]


@pytest.mark.parametrize("name", JOBS)
def test_the_script_is_the_golden_one(name: str, elsewhere: Call) -> None:
    """An upgrade of NeMo-Run that changes any byte of it is noticed here."""
    script = elsewhere(dry_run, job_of(*JOBS[name], environment=SECRETS), HOME)
    file = GOLDEN / f"{name}.sbatch"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(script)
    assert script == file.read_text()


def test_no_golden_file_is_left_over() -> None:
    """One for each job."""
    assert {file.name for file in GOLDEN.iterdir()} == {f"{name}.sbatch" for name in JOBS}


def test_the_script_names_no_value_of_a_variable(elsewhere: Call) -> None:
    """Names alone."""
    script = elsewhere(dry_run, job_of(*EVERYTHING, environment=SECRETS), HOME)
    assert "HF_TOKEN" in script
    assert "secret" not in script


def test_no_directive_is_added_or_lost(elsewhere: Call) -> None:
    """sbatch is told the same by both scripts, but for two: NeMo-Run gives --requeue to sbatch itself, and writes the
    batch log into the job's directory, which our script makes only when it runs."""
    job = job_of(*EVERYTHING, environment=SECRETS)
    directory = job_directory(job, HOME)
    theirs, ours = (_directives(script) for script in (elsewhere(dry_run, job, HOME), render_sbatch(job)))
    assert ours.pop("--requeue") == ""
    output = ours.pop("--output")
    assert theirs.pop("--output") == f"{directory}/{output}"
    assert theirs == ours


@pytest.mark.parametrize("words", [(), EVERYTHING, HOSTILE], ids=["plain", "everything", "hostile"])
def test_srun_is_called_as_by_our_own_script(words: tuple[str, ...], elsewhere: Call, tmp_path: Path) -> None:
    """Word for word; NeMo-Run asks for the first node's address before it, and has another directory for the job."""
    job = job_of(*words, environment=SECRETS)
    theirs = run(elsewhere(dry_run, job, HOME), tmp_path / "theirs")
    ours = run(render_sbatch(job), tmp_path / "ours")
    assert theirs.pop(0) == ["--nodes=1", "--ntasks=1", "-w", "n1", "hostname", "--ip-address"]
    their_directory = str(job_directory(job, HOME))
    our_directory = str(tmp_path / "ours" / "trainwright-jobs" / job.id)
    assert [_in_one(call, their_directory) for call in theirs] == [_in_one(call, our_directory) for call in ours]


def test_hostile_words_and_options_arrive(elsewhere: Call, tmp_path: Path) -> None:
    """Words, image, mounts and srun arguments reach srun as the same bytes, and nothing of them is executed."""
    options = (
        *("--mount=/it's a/(x)", "--mount=/日本;touch pwned:/a&b:ro", "--srun-arg=--comment=$$ $(touch pwned) 'x'"),
        *('--srun-arg=--x=\n"\x01', "--srun-arg=--y=${num_nodes_var}"),
    )
    templates = ("$$", "$$$", "${num_nodes_var}", "$head_node_ip_var", "{{ setup_lines }}", "{% raw %}", "/nemo_run")
    arrive(job_of(*options, *HOSTILE, *templates, image="/it's; touch pwned #.sqsh"), elsewhere, tmp_path)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=30).filter(lambda word: b"\0" not in word), max_size=8))
def test_any_bytes_arrive(elsewhere: Call, tmp_path: Path, words: list[bytes]) -> None:
    """Behind a field's name, so that none of them is an option of the launcher."""
    arrive(job_of(*(f"a.b={os.fsdecode(word)}" for word in words)), elsewhere, tmp_path)


def test_ranks_get_no_variable_and_no_terminal_of_nemo_run(elsewhere: Call, tmp_path: Path) -> None:
    """What its script exports is gone before the ranks' srun, but for a count of retries, which sbatch keeps in."""
    job = job_of()
    run(elsewhere(dry_run, job, HOME), tmp_path / "theirs")
    run(render_sbatch(job), tmp_path / "ours")
    theirs, ours = (_environment(tmp_path / place) for place in ("theirs", "ours"))
    assert theirs.pop("TORCHX_MAX_RETRIES") == "0"
    assert {name: value for name, value in theirs.items() if ours.get(name) != value} == {}


def test_the_names_that_the_script_assigns_are_known(elsewhere: Call) -> None:
    """A variable of the user's with one of them would be lost, and is refused."""
    script = elsewhere(dry_run, job_of(), HOME)
    assigned = set()
    for line in script.splitlines():
        name, equals, _ = line.removeprefix("export ").partition("=")
        if equals and name.isidentifier() and not name.startswith("trainwright_"):
            assigned.add(name)
    assert assigned == set(SET_BY_THE_SCRIPT)


@pytest.mark.parametrize("code", [0, 1, 2, 75, 137])
def test_the_scripts_exit_code_is_sruns(code: int, elsewhere: Call, tmp_path: Path) -> None:
    """And the job's own file says so."""
    home = tmp_path / "home"
    job = job_of()
    script = elsewhere(dry_run, job, home)
    job_directory(job, home).mkdir(parents=True)
    run(script, tmp_path / "place", code=code)
    assert (job_directory(job, home) / "exit_status").read_text() == f"7 0 {code}\n"


def arrive(job: SlurmJob, elsewhere: Call, place: Path) -> None:
    """Check that the ranks' srun gets each word of the job as it is."""
    call = run(elsewhere(dry_run, job, HOME), place / "run")[-1]
    directory = str(job_directory(job, HOME))
    assert _in_one(call, "") == [
        f"--output={directory}/log-{job.name}_%j_0.out",
        *srun_options(job, job_dir=directory),
        *rank_command(job),
    ]
    assert list(place.rglob("pwned")) == []


RECORDER = """\
#!/bin/sh
number=$(ls "{place}" | grep -c '^call')
printf '%s\\0' "$@" >"{place}/call$number"
cat /proc/$$/environ >"{place}/environment"
case $1 in --nodes=1) echo 10.0.0.1; exit 0;; esac
case "$*" in *nvidia-smi*) exit 0;; esac
exit {code}
"""


def run(script: str, place: Path, *, code: int = 0) -> list[list[str]]:
    """Run a script as slurmd would, with an srun that ends with `code`; the words of each call of srun."""
    (place / "bin").mkdir(parents=True, exist_ok=True)
    for path in place.glob("call*"):
        path.unlink()
    for name, text in {
        "srun": RECORDER.format(place=place, code=code),
        "scontrol": "#!/bin/sh\necho n1\necho n2\n",
    }.items():
        (place / "bin" / name).write_text(text)
        (place / "bin" / name).chmod(0o755)
    own = {"SLURM_SUBMIT_DIR": str(place), "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"}
    done = subprocess.run(
        ["bash"],
        input=script.encode(),
        env={**own, **SECRETS, "PATH": f"{place}/bin:/usr/bin:/bin"},
        cwd=place,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    calls = sorted(place.glob("call*"), key=lambda path: int(path.name.removeprefix("call")))
    return [[os.fsdecode(word) for word in path.read_bytes().split(b"\0")[:-1]] for path in calls]


def _environment(place: Path) -> dict[str, str]:
    pairs = (place / "environment").read_text().split("\0")[:-1]
    return dict(pair.replace(str(place), "PLACE").split("=", 1) for pair in pairs)


def _in_one(call: list[str], directory: str) -> list[str]:
    """The words with NeMo-Run's pairs joined, and the job's directory by a name of its own."""
    joined: list[str] = []
    remaining = iter(call)
    for word in remaining:
        joined.append(f"{word}={next(remaining)}" if word in IN_TWO else word)
    return [word.replace(directory, "JOB-DIRECTORY") if directory else word for word in joined]


def _directives(script: str) -> dict[str, str]:
    lines = [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH ")]
    return {line.partition("=")[0]: line.partition("=")[2] for line in lines}
