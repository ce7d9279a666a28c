"""Submitting, and waiting for what was submitted, against the real Slurm."""

import re
import shutil
from pathlib import Path

import pytest
from tests.slurm.images import recording_image
from tests.slurm.login import RECIPE, Login, job_number


@pytest.fixture(scope="module")
def image(login: Login) -> Path:
    """A container whose run ends as /record/then says."""
    (login.home / "record").mkdir()
    return recording_image(login.home / "image")


def test_a_refusal_by_sbatch_is_slurms_words_in_one_line(login: Login, image: Path) -> None:
    """Exit code 1, and nothing is left of a run that there will not be."""
    options = [word for word in login.options(image) if not word.startswith("--partition")]
    before = sorted(login.home.rglob("*"))
    answer = login.launch(*options, "--partition=no-such", "--no-preflight", "--experiment-name=refused", *RECIPE)
    assert answer.returncode == 1
    lines = answer.stderr.splitlines()
    assert [line for line in lines if "invalid partition specified: no-such" in line] == lines[-1:], answer.stderr
    assert "Traceback" not in answer.stderr
    left = [path for path in sorted(login.home.rglob("*")) if path not in before and path.name == "launch.json"]
    assert left == []
    assert login.cluster.run("squeue", "-h", "-n", "refused").stdout == ""


def test_detached_it_says_how_to_go_on(login: Login, image: Path) -> None:
    """The job's number, its logs, and commands that work as printed; what a shell holds for Slurm changes nothing."""
    (login.home / "record" / "then").write_text("echo to the log; exit 5\n")
    inside_a_job = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "3", "SLURM_NTASKS": "9", "SLURM_EXPORT_ENV": "NONE"}
    answer = login.launch(
        *login.options(image, f"{login.home}/record:/record"),
        *("--no-preflight", *RECIPE),
        environment=login.environment(SBATCH_PARTITION="no-such", PYXIS_CONTAINER_IMAGE="/no-such", **inside_a_job),
    )
    assert answer.returncode == 0, answer.stderr
    assert "SBATCH_PARTITION" in answer.stderr
    said = answer.stdout + answer.stderr
    number = job_number(said)
    assert login.cluster.wait(number)["ExitCode"] == "5:0"
    for command in (f"squeue -j {number}", f"sacct -j {number}", f"scancel {number}"):
        assert command in said
    follow = re.search(r"tail -F (.+)", said)
    assert follow is not None, said
    shown = login.cluster.run("sh", "-c", f"tail -n +1 {follow[1]}")
    assert shown.stdout.count("to the log") == 4, shown.stderr


# Accounting as far as the launcher asks for it, out of what the real controller knows, once it has failed a few times.
SACCT = """\
#!/bin/sh
echo called >>{calls}
[ "$(wc -l <{calls})" -gt 3 ] || {{ echo "sacct: error: Problem talking to the database" >&2; exit 1; }}
while [ "$1" != -j ]; do shift; done
shown=$({scontrol} -o show job "$2") || exit 1
field() {{ echo "$shown" | grep -oE " $1=[^ ]*" | head -n 1 | cut -d= -f2-; }}
echo "JobID|State|ExitCode|Reason"
echo "$2|$(field JobState)|$(field ExitCode)|None"
"""
FORGETFUL = """\
#!/bin/sh
[ "$*" = "${*#*show job}" ] || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
exec SCONTROL "$@"
"""


def test_wait_outlives_failures_of_the_accounting(login: Login, image: Path) -> None:
    """The controller has forgotten the job, and sacct fails three times: the job's own exit code all the same."""
    scontrol = shutil.which("scontrol")
    assert scontrol is not None
    programs, calls = login.home / "programs", login.home / "calls"
    programs.mkdir()
    for name, text in {
        "sacct": SACCT.format(calls=calls, scontrol=scontrol),
        "scontrol": FORGETFUL.replace("SCONTROL", scontrol),
    }.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (login.home / "record" / "then").write_text("sleep 2; exit 7\n")
    environment = login.environment()
    answer = login.launch(
        *login.options(image, f"{login.home}/record:/record"),
        *("--no-preflight", "--wait", *RECIPE),
        environment=environment | {"PATH": f"{programs}:{environment['PATH']}"},
    )
    assert answer.returncode == 7, answer.stderr
    assert calls.read_text().count("called") > 3
    assert answer.stderr.count("asking again") == 1
    assert answer.stdout.count("was here") == 4


def test_wait_goes_on_through_a_requeue(login: Login, image: Path) -> None:
    """The logs of both starts, and the status of the last."""
    (login.home / "record" / "then").write_text('[ -n "$SLURM_RESTART_COUNT" ] && exit 9; exit 75\n')
    launcher = login.start(
        *login.options(image, f"{login.home}/record:/record"),
        *("--no-preflight", "--wait", "--max-requeues=1", "--experiment-name=requeued", *RECIPE),
    )
    queued = ("squeue", "-h", "-n", "requeued", "-o", "%i")
    login.cluster.until(lambda: launcher.poll() is not None or login.cluster.run(*queued).stdout, timeout=300)
    login.cluster.start_soon(int(login.cluster.run(*queued).stdout), 1)
    out, err = launcher.communicate(timeout=300)
    assert launcher.returncode == 9, err
    assert out.count("was here") == 8
    assert "requeued 1 time" in err
