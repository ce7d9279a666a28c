"""When a job goes back into the queue, and when it must not: jobs of a recorder that ends as the test says."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.slurm.cluster import FINAL
from tests.slurm.images import Recorded, recorded, recording_image
from tests.slurm.login import RECIPE, Login

RUN = "/record/run"
# As a run does that has saved a checkpoint: another step in each start.
SAVE = 'mkdir -p {0} && echo "${{SLURM_RESTART_COUNT:-0}}1" >{0}/latest_checkpointed_iteration.txt\n'


@dataclass(frozen=True)
class Case:
    """What the run does in each start, how often it is expected to start, and how the job is to end."""

    does: str
    starts: int
    ends: str
    options: tuple[str, ...] = ("--max-requeues=2",)
    words: tuple[str, ...] = ("--run-dir", RUN)


SAVES = SAVE.format(f"{RUN}/checkpoints")
CASES = {
    "nothing is repeated unless asked for": Case("exit 75", 1, "75:0", ()),
    "a failure at once is not repeated": Case("exit 1", 1, "1:0", ("--max-requeues=3",)),
    "a run stopped in good order goes on, as often as allowed": Case("exit 75", 3, "75:0"),
    "a failure after a new checkpoint goes on": Case(f"{SAVES} exit 3", 3, "3:0"),
    "a failure after an old checkpoint does not": Case(
        f'[ -n "$SLURM_RESTART_COUNT" ] || {{ {SAVES} }}; exit 3', 2, "3:0"
    ),
    "what was refused stays refused": Case(f"{SAVES} exit 2", 1, "2:0"),
    "a run that is done stays done": Case(f"{SAVES} exit 0", 1, "0:0"),
    "the checkpoint is looked for where it is saved": Case(
        f"{SAVE.format('/record/elsewhere')} exit 1",
        *(2, "1:0", ("--max-requeues=1",), ("--run-dir", RUN, "--save_dir", "/record/elsewhere")),
    ),
    "without --run-dir the job's own directory is looked at": Case(
        "run=$(echo /nemo_run/runs/*); mkdir -p $2/checkpoints; "
        'echo "${SLURM_RESTART_COUNT:-0}1" >$2/checkpoints/latest_checkpointed_iteration.txt; exit 1',
        *(2, "1:0", ("--max-requeues=1",), ()),
    ),
    # Slurm looks at time limits twice a minute.
    "the signal before the time limit reaches the ranks": Case(
        "trap 'exit 75' USR1; sleep 120 & wait", 1, "75:0", ("--time=2", "--signal=USR1@100")
    ),
    "a run killed by a signal after a new checkpoint goes on": Case(
        f"{SAVES} kill -KILL $$", 2, "137:0", ("--max-requeues=1",)
    ),
}


@dataclass(frozen=True)
class Ended:
    """How a job of one case has ended."""

    fields: dict[str, str]
    starts: list[dict[int, Recorded]]
    log: str


@pytest.fixture(scope="module")
def ended(login: Login) -> dict[str, Ended]:
    """All cases at once, each on one rank; requeued jobs are spared Slurm's two minutes of waiting."""
    recording_image(login.home / "image")
    jobs = {}
    for index, (name, case) in enumerate(CASES.items()):
        record = login.home / f"record{index}"
        record.mkdir()
        (record / "then").write_text(case.does)
        options = login.options(login.home / "image", f"{record}:/record", nodes=1, gpus=1)
        jobs[name] = (login.sbatch_rendered(*options, *case.options, *RECIPE, *case.words), record)
    finals = drive(login, [number for number, _ in jobs.values()])
    return {
        name: Ended(
            finals[number],
            [ranks for restart in range(5) if (ranks := recorded(record, number, restart=restart))],
            Path(finals[number]["StdOut"]).read_text(),
        )
        for name, (number, record) in jobs.items()
    }


def drive(login: Login, numbers: list[int]) -> dict[int, dict[str, str]]:
    """Each job's last words. A job that ends and one that is requeued look alike for a moment: both are COMPLETING."""
    finals: dict[int, dict[str, str]] = {}
    hastened = set()
    deadline = time.monotonic() + 400
    while len(finals) < len(numbers):
        assert time.monotonic() < deadline, [login.cluster.job(number) for number in numbers if number not in finals]
        for number in numbers:
            fields = login.cluster.job(number)
            start = (number, int(fields["Restarts"]))
            if fields["JobState"] == "PENDING" and start[1] and start not in hastened:
                login.cluster.start_soon(*start)
                hastened.add(start)
            elif fields["JobState"] in FINAL:
                finals[number] = fields
        time.sleep(0.1)
    return finals


@pytest.mark.parametrize("name", CASES)
def test_a_job_starts_as_often_as_its_policy_says(ended: dict[str, Ended], name: str) -> None:
    """And ends with the status of its last start."""
    case, job = CASES[name], ended[name]
    assert (len(job.starts), job.fields["ExitCode"]) == (case.starts, case.ends), job.log
    assert job.fields["Restarts"] == str(case.starts - 1)
    assert job.fields["JobState"] == ("COMPLETED" if case.ends == "0:0" else "FAILED")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.starts > 1])
def test_every_start_is_the_same_run(ended: dict[str, Ended], name: str) -> None:
    """The same words, the run directory among them."""
    starts = ended[name].starts
    assert {start[0].arguments for start in starts} == {starts[0][0].arguments}


def test_a_job_that_is_stopped_from_outside_is_the_callers(login: Login, ended: dict[str, Ended]) -> None:
    """`scontrol requeue` starts it once more, and uses up none of its own requeues; `scancel` ends it for good."""
    record = login.home / "record-outside"
    record.mkdir()
    # Stops in good order with a new checkpoint: what would go on, had it stopped by itself.
    (record / "then").write_text(f"trap '{SAVES.strip()}; exit 75' TERM\nsleep 60 &\nwait\n")
    options = login.options(login.home / "image", f"{record}:/record", nodes=1, gpus=1)
    number = login.sbatch_rendered(*options, "--max-requeues=2", *RECIPE, "--run-dir", RUN)
    login.cluster.until(lambda: recorded(record, number))
    login.cluster.run("scontrol", "requeue", str(number))
    login.cluster.start_soon(number, 1)
    login.cluster.until(lambda: recorded(record, number, restart=1))
    login.cluster.run("scancel", str(number))
    fields = login.cluster.wait(number)
    time.sleep(1)  # for a requeue that must not come
    fields = login.cluster.job(number)
    assert (fields["JobState"], fields["Restarts"]) == ("CANCELLED", "1")
    folders = [
        path
        for path in (login.place / "trainwright-jobs").iterdir()
        if (path / f"log-vanilla_gpt_pretrain_{number}_1.out").exists()
    ]
    assert len(folders) == 1
    assert not (folders[0] / "requeues").exists()


def test_a_jobs_status_is_that_of_the_rank_that_failed(login: Login, ended: dict[str, Ended]) -> None:
    """Of four ranks the third crashes; srun ends the others, and would give the highest code of all."""
    record = login.home / "record-crash"
    record.mkdir()
    (record / "then").write_text('[ "$SLURM_PROCID" != 2 ] || { sleep 1; kill -KILL $$; }\nsleep 60\n')
    options = login.options(login.home / "image", f"{record}:/record")
    number = login.sbatch_rendered(*options, *RECIPE)
    fields = login.cluster.wait(number)
    assert (fields["JobState"], fields["ExitCode"]) == ("FAILED", "137:0")
    assert "rank 2 was the first to end, with exit code 137" in Path(fields["StdOut"]).read_text()
    assert recorded(record, number).keys() == {0, 1, 2, 3}
