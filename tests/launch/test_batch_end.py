"""How a batch script ends: its status on disk, and whether the job goes back into the queue.

Real bash runs the script that `render_sbatch` writes, and the same lines in a shell that is set as NeMo-Run's script
sets it. `srun` and `scontrol` are small programs that record how they were called; tests/slurm does the same on Slurm.
"""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.launch.slurm_jobs import RUN_DIR, job_of

from trainwright.launch.batch_script import render_sbatch, setup_lines
from trainwright.launch.slurm_job import SlurmJob

MARKER = "latest_checkpointed_iteration.txt"
SRUN = """#!/bin/sh
echo "$@" >> "$PLACE/srun"
case $* in *nvidia-smi*) . "$PLACE/clock"; exit ;; esac
. "$PLACE/does"
"""
SCONTROL = """#!/bin/sh
echo "$@" >> "$PLACE/scontrol"
[ ! -e "$PLACE/scontrol-fails" ] || { echo "slurm_requeue error" >&2; exit 1; }
"""
AS_NEMO_RUN = """\
set -evx
set +e
{setup}
srun --output x training
exitcode=$?
set -e
echo "job exited with code $exitcode"
if [ $exitcode -ne 0 ]; then
    if [ "0" -gt "${{SLURM_RESTART_COUNT:-0}}" ]; then
        scontrol requeue "$SLURM_JOB_ID"
    fi
    exit $exitcode
fi
"""


@dataclass
class Node:
    """Where batch scripts run: with a job directory, and programs that do as they are told."""

    place: Path
    in_nemo_run: bool
    words: tuple[str, ...] = ()

    @property
    def job_dir(self) -> Path:
        """The job's own directory on the host."""
        return self.place / "trainwright-jobs" / self.job.id

    @property
    def job(self) -> SlurmJob:
        """The job of the words."""
        return job_of(*self.words)

    def start(self, *, restarts: int | None = None, job_id: int = 7) -> "subprocess.Popen[str]":
        """The script, as slurmd starts it; a first start has no restart count."""
        environment = {
            "PATH": f"{self.place / 'bin'}:/usr/bin:/bin",
            "PLACE": str(self.place),
            "SLURM_SUBMIT_DIR": str(self.place),
            "SLURM_JOB_ID": str(job_id),
        }
        if restarts is not None:
            environment["SLURM_RESTART_COUNT"] = str(restarts)
        script = render_sbatch(self.job)
        if self.in_nemo_run:
            self.job_dir.mkdir(parents=True, exist_ok=True)
            script = AS_NEMO_RUN.format(setup=setup_lines(self.job, job_dir=str(self.job_dir)))
        file = self.place / "script"
        file.write_text(script)
        return subprocess.Popen(
            ["bash", file], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, does: str, *, restarts: int | None = None, job_id: int = 7) -> tuple[int, list[str]]:
        """The script from start to end, while the ranks do `does`: its exit code, and what it decided."""
        (self.place / "does").write_text(does)
        process = self.start(restarts=restarts, job_id=job_id)
        out, _ = process.communicate(timeout=60)
        said = [line.removeprefix("trainwright: ") for line in out.splitlines() if line.startswith("trainwright: ")]
        return process.returncode, said

    def saves(self, step: int, folder: str | None = None) -> str:
        """What a run does that saves a checkpoint."""
        at = folder or f"{self.job_dir}{RUN_DIR.removeprefix('/nemo_run')}/checkpoints"
        return f"mkdir -p '{at}' && echo {step} > '{at}/{MARKER}'\n"

    def requeued(self) -> list[str]:
        """What scontrol was asked for."""
        file = self.place / "scontrol"
        return file.read_text().splitlines() if file.exists() else []

    def status(self) -> str:
        """What the job left behind of its end."""
        return (self.job_dir / "exit_status").read_text()


@pytest.fixture(params=[False, True], ids=["own script", "as in NeMo-Run"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Node:
    """A place with a blank in its path, where nothing has run yet."""
    place = tmp_path / "a b"
    (place / "bin").mkdir(parents=True)
    for name, body in (("srun", SRUN), ("scontrol", SCONTROL)):
        (place / "bin" / name).write_text(body)
        (place / "bin" / name).chmod(0o755)
    (place / "clock").write_text("exit 0\n")
    return Node(place, request.param)


@pytest.mark.parametrize("code", [0, 1, 2, 41, 75, 137])
def test_the_status_is_left_behind(node: Node, code: int) -> None:
    """Job, start and exit code, which is also the script's own."""
    assert node.run(f"exit {code}")[0] == code
    assert node.status() == f"7 0 {code}\n"
    assert node.run(f"exit {code}", restarts=2)[0] == code
    assert node.status() == f"7 2 {code}\n"
    assert sorted(path.name for path in node.job_dir.iterdir() if path.name != "code") == ["exit_status"]
    assert node.requeued() == []


def test_no_status_of_an_earlier_start_is_left(node: Node) -> None:
    """A start that is killed leaves none, and not the one before."""
    node.run("exit 1")
    node.run(f"test ! -e '{node.job_dir}/exit_status' && touch '{node.place}/gone'", restarts=1)
    assert (node.place / "gone").exists()


def test_nothing_is_repeated_unless_asked_for(node: Node) -> None:
    """The default is no requeue, and the log says so."""
    code, said = node.run(node.saves(5) + "exit 75")
    assert (code, node.requeued()) == (75, [])
    assert said == ["the run stopped early in good order (exit code 75); not repeated: 0 of --max-requeues 0 are used"]


def test_a_run_stopped_in_good_order_goes_on_as_often_as_allowed(node: Node) -> None:
    """Counted over the starts of one job."""
    node.words = ("--max-requeues=2",)
    said = [node.run("exit 75", restarts=start)[1] for start in (None, 1, 2)]
    assert node.requeued() == ["requeue 7"] * 2
    stopped = "the run stopped early in good order (exit code 75)"
    assert said == [
        [f"{stopped}; back into the queue, requeue 1 of at most 2"],
        [f"{stopped}; back into the queue, requeue 2 of at most 2"],
        [f"{stopped}; not repeated: 2 of --max-requeues 2 are used"],
    ]
    assert (node.job_dir / "requeues").read_text() == "7 0 75\n7 1 75\n"


def test_requeues_by_slurm_and_of_other_jobs_do_not_count(node: Node) -> None:
    """The restart count holds preemptions too; another submission of a script has its own count."""
    node.words = ("--max-requeues=1",)
    node.run("exit 75", restarts=9)
    node.run("exit 75", job_id=77)
    node.run("exit 75", job_id=77)
    assert node.requeued() == ["requeue 7", "requeue 77"]


def test_a_failure_is_repeated_only_after_a_new_checkpoint(node: Node) -> None:
    """A job that fails at once each time does not loop for ever."""
    node.words = ("--max-requeues=9",)
    none = "the run failed (exit code 3) with no new checkpoint since it started; not repeated"
    assert node.run("exit 3") == (3, [none])
    again = "the run failed (exit code 3) after a new checkpoint; back into the queue, requeue {} of at most 9"
    assert node.run(node.saves(5) + "exit 3") == (3, [again.format(1)])
    assert node.run("exit 3", restarts=1) == (3, [none])
    assert node.run(node.saves(5) + "exit 3", restarts=1) == (3, [none])
    assert node.run(node.saves(10) + "exit 3", restarts=1) == (3, [again.format(2)])
    assert node.requeued() == ["requeue 7"] * 2


@pytest.mark.parametrize(
    "words",
    [
        ("--run-dir", "/runs/a b/x"),
        ("--save_dir", "/runs/a b/x/checkpoints"),
        ("--save-dir=/no", "checkpoint.save='/runs/a b/x/checkpoints'"),
    ],
)
def test_the_checkpoint_is_looked_for_where_the_words_put_it(node: Node, words: tuple[str, ...]) -> None:
    """On the host, under the mount that holds it."""
    node.words = ("--max-requeues=1", f"--mount={node.place}:/runs", *words)
    assert node.run(node.saves(5, f"{node.place}/a b/x/checkpoints") + "exit 1")[0] == 1
    assert node.requeued() == ["requeue 7"]


def test_without_a_known_place_only_good_order_is_repeated(node: Node) -> None:
    """Checkpoints that no mount holds cannot be seen from the batch shell."""
    node.words = ("--max-requeues=1", "--run-dir", "/somewhere")
    assert "no --mount says where its checkpoints are" in node.run(node.saves(5) + "exit 1")[1][0]
    assert "back into the queue" in node.run("exit 75")[1][0]


def test_what_was_refused_stays_refused(node: Node) -> None:
    """Whatever else has happened."""
    node.words = ("--max-requeues=1",)
    code, said = node.run(node.saves(5) + "exit 2")
    assert (code, said) == (2, ["the run was refused (exit code 2); repeating it would change nothing"])
    assert node.requeued() == []


def test_a_run_that_is_done_is_done(node: Node) -> None:
    """Nothing is said or asked for."""
    node.words = ("--max-requeues=1",)
    assert node.run(node.saves(5) + "exit 0") == (0, [])
    assert node.requeued() == []


@pytest.mark.parametrize(
    ("left", "ends"), [("3 75", 75), ("0 2", 2), ("1 139", 139), ("0 0", 143), ("", 143), ("x", 143), (None, 143)]
)
def test_the_code_of_the_first_rank_to_fail_is_the_jobs(node: Node, left: str | None, ends: int) -> None:
    """srun gives the highest code of all ranks, also of those that it ended because one had failed."""
    node.words = ("--max-requeues=1",)
    leaves = "" if left is None else f"echo '{left}' > '{node.job_dir}/first_to_fail_7_0'; "
    code, log = node.run(f"{leaves}exit 143")
    assert (code, node.status()) == (ends, f"7 0 {ends}\n")
    assert node.requeued() == (["requeue 7"] if ends == 75 else [])
    assert any("was the first to end" in line for line in log) == (ends != 143)


def test_the_code_of_another_start_does_not_count(node: Node) -> None:
    """Each start of each job has its own."""
    assert node.run(f"echo '0 75' > '{node.job_dir}/first_to_fail_7_0'; exit 143")[0] == 75
    assert node.run("exit 143", restarts=1)[0] == 143
    assert node.run("exit 143", job_id=8)[0] == 143


def test_a_job_stopped_from_outside_is_never_put_back(node: Node) -> None:
    """scancel must end a job for good: the batch shell waits for srun, knows of the signal, and leaves it at that."""
    node.words = ("--max-requeues=1",)
    ready = node.place / "ready"
    (node.place / "does").write_text(
        f"""
        stop() {{ sleep 0.1; exit 75; }}
        trap stop TERM
        echo $$ > '{ready}.new' && mv '{ready}.new' '{ready}'
        while :; do sleep 0.02; done
        """
    )
    process = node.start()
    for _ in range(3000):
        if ready.exists():
            break
        time.sleep(0.02)
    # As Slurm does: the signal goes to the batch shell and to the step.
    os.kill(process.pid, signal.SIGTERM)
    os.kill(int(ready.read_text()), signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "the job was stopped from outside; whether it runs again is Slurm's to decide" in out
    assert node.requeued() == []
    assert node.status() == "7 0 75\n"


def test_a_refusal_to_requeue_is_said(node: Node) -> None:
    """The exit code stays the run's."""
    node.words = ("--max-requeues=1",)
    (node.place / "scontrol-fails").touch()
    code, said = node.run("exit 75")
    assert code == 75
    assert said[-1] == "Slurm did not take the job back into the queue"


def test_the_memory_clock_is_locked_once_on_each_node_before_the_run(node: Node) -> None:
    """By a step of its own, outside the container."""
    node.words = ("-lmc", "4752")
    assert node.run("exit 0")[0] == 0
    first, second = (node.place / "srun").read_text().splitlines()
    assert first == "--nodes=2 --ntasks=2 --ntasks-per-node=1 nvidia-smi --lock-memory-clocks=4752"
    assert "nvidia-smi" not in second


def test_a_clock_that_cannot_be_locked_ends_the_job(node: Node) -> None:
    """Exit code 41, one line, no training, no repetition."""
    node.words = ("-lmc", "4752", "--max-requeues=3")
    (node.place / "clock").write_text("exit 9\n")
    code, said = node.run("touch trained")
    assert code == 41
    assert said == [
        "the memory clock could not be locked at 4752 MHz; --peak-mem-clk=-1 leaves it alone",
        "the run failed (exit code 41) with no new checkpoint since it started; not repeated",
    ]
    assert len((node.place / "srun").read_text().splitlines()) == 1
    assert node.status() == "7 0 41\n"
    assert node.requeued() == []
