"""Four ranks on two nodes train, are stopped, requeued, and go on: from train.sh to an accepted report."""

import json
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.slurm.images import training_image
from tests.slurm.login import TRAIN_SH, TRAINWRIGHT, Login, job_number

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

# Only cyclic data keeps its order when the duration changes, and this run is to end soon after it goes on.
WORDS = shlex.split("""
    --recipe vanilla_gpt_pretrain_config --dataset mock --device cpu -tp 2 model.sequence_parallel=true
    -gb 4 -mb 1 -sl 32 --warmup_iters 1 model.num_layers=1 model.hidden_size=32 model.num_attention_heads=2
    tokenizer.vocab_size=512 validation.eval_interval=null logger.log_interval=1
    dataset.dataloader_type=cyclic scheduler.lr_decay_iters=100000
""")


@dataclass(frozen=True)
class History:
    """A run that was stopped and went on three times, as it went."""

    job: int
    """The one that was requeued."""
    interrupted: subprocess.CompletedProcess[str]
    """Its launcher, which was to wait for it and was told Ctrl-C."""
    restarts: list[str]
    """What Slurm said of the job once it ran again, each time."""
    fields: dict[str, str]
    """Its last words."""
    run: Path
    record: dict[str, Any]
    """Its launch.json."""
    last_step: int
    """Where it ended."""
    second: subprocess.CompletedProcess[str]
    """The launcher of another submission, which went on to the end, three updates later."""


@pytest.fixture(scope="module")
def image(login: Login) -> Path:
    """A container that trains."""
    (login.home / "runs").mkdir()
    return training_image(login.home / "image")


@pytest.fixture(scope="module")
def history(login: Login, image: Path) -> History:
    """Stop the job in good order, requeue it as an operator does, stop it again, and go on in another submission."""
    run = login.home / "runs" / "one"
    words = ["--wait", *WORDS, "--run-dir", "/runs/one", "-ms"]
    options = login.options(image, f"{login.home}/runs:/runs")
    launcher = login.start(*options, "--max-requeues=1", *words, "100000", program=TRAIN_SH)
    until(lambda: updates(run) >= 2, launcher)
    launcher.send_signal(signal.SIGINT)
    out, err = launcher.communicate(timeout=60)
    interrupted = subprocess.CompletedProcess(launcher.args, launcher.returncode, out, err)
    record = json.loads((run / "launch.json").read_text())
    job = int(record["job"]["id"])

    restarts = [login.cluster.job(job)["Restarts"]]
    for stop in (("scancel", "--signal=TERM"), ("scontrol", "requeue")):
        sessions = len(manifest(run))
        login.cluster.run(*stop, str(job))
        login.cluster.start_soon(job, len(restarts))
        until(lambda: len(manifest(run)) > sessions and updates(run) >= 2)  # noqa: B023 - called in this round
        restarts.append(login.cluster.job(job)["Restarts"])
    # It has used up the one requeue of its own.
    login.cluster.run("scancel", "--signal=TERM", str(job))
    fields = login.cluster.wait(job)

    last_step = events(run)[-1]["step"]
    second = login.launch(*options, *words, str(last_step + 3), program=TRAIN_SH)
    return History(job, interrupted, restarts, fields, run, record, last_step, second)


def until(wanted: Callable[[], bool], launcher: "subprocess.Popen[str] | None" = None, timeout: float = 400) -> None:
    """Wait for something that is read from files which may not be there yet, while the launcher is alive."""
    deadline = time.monotonic() + timeout
    while True:
        with suppress(FileNotFoundError):
            if wanted():
                return
        if launcher is not None and launcher.poll() is not None:
            pytest.fail("\n".join(launcher.communicate()))
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.1)


def manifest(run: Path) -> list[dict[str, Any]]:
    """The run's sessions."""
    return json.loads((run / "run.json").read_text())["sessions"]


def events(run: Path) -> list[dict[str, Any]]:
    """The session log, without a line that is just being written."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_bytes().split(b"\n")[:-1]]


def updates(run: Path) -> int:
    """How often the last session has logged an update."""
    session = manifest(run)[-1]["session_id"]
    return sum(event["event"] == "train" and event["session_id"] == session for event in events(run))


def test_ctrl_c_leaves_the_job_running_and_says_so(history: History) -> None:
    """Exit code 130, and how to go on with the job."""
    assert history.interrupted.returncode == 130, history.interrupted.stderr
    said = history.interrupted.stdout + history.interrupted.stderr
    assert f"job {history.job} goes on running" in said
    assert "Traceback" not in said
    assert history.restarts[0] == "0"


def test_wait_shows_the_ranks_log_as_it_grows(history: History) -> None:
    """What was logged before Ctrl-C."""
    assert "step 1/100000" in history.interrupted.stdout + history.interrupted.stderr


def test_a_stopped_job_goes_on_in_the_same_run_directory(history: History) -> None:
    """By its own policy after SIGTERM, and by `scontrol requeue`; then it has no requeue left and ends with 75."""
    assert history.restarts == ["0", "1", "2"]
    assert (history.fields["JobState"], history.fields["ExitCode"]) == ("FAILED", "75:0")
    sessions = manifest(history.run)
    assert len(sessions) == 4
    starts = [session["start"]["step"] for session in sessions]
    assert starts == sorted(set(starts))
    ends = [event["step"] for event in events(history.run) if event["event"] == "session_interrupted"]
    assert ends == starts[1:]
    assert {(s["hardware"]["world_size"], s["hardware"]["nodes"]) for s in sessions} == {(4, 2)}


def test_another_submission_goes_on_to_an_accepted_end(history: History) -> None:
    """--wait returns 0, the audit accepts the log of all four sessions, and the report is there."""
    assert history.second.returncode == 0, history.second.stderr
    audit = subprocess.run(
        [TRAINWRIGHT, "audit", history.run, "--expect-step", str(history.last_step + 3)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert audit.returncode == 0, audit.stdout + audit.stderr
    report = json.loads((history.run / "training_report.json").read_text())
    assert report["schema_version"] == "1.0"


def test_launch_json_says_what_was_launched(login: Login, image: Path, history: History) -> None:
    """Words, settings with their origins, and the job."""
    record = history.record
    assert record["executor"] == "slurm"
    assert record["words"][: len(WORDS)] == WORDS
    assert record["settings"]["nodes"] == {"value": 2, "origin": "flag --nodes"}
    assert record["settings"]["container_image"]["value"] == str(image)
    assert int(record["job"]["id"]) == history.job


def test_a_failing_rank_ends_the_job_once_with_its_status_and_its_error_in_the_log(login: Login, image: Path) -> None:
    """A loss that is not a number, before any checkpoint: three requeues are allowed, and none is used."""
    answer = login.launch(
        *login.options(image),
        *("--wait", "--max-requeues=3", *WORDS, "-ms", "50", "--lr", "1e30", "optimizer.clip_grad=0"),
        program=TRAIN_SH,
    )
    said = answer.stdout + answer.stderr
    assert answer.returncode == 1, said
    fields = login.cluster.job(job_number(said))
    assert (fields["JobState"], fields["ExitCode"], fields["Restarts"]) == ("FAILED", "1:0", "0")
    logs = {word for word in said.split() if word.endswith(f"_{fields['JobId']}_0.out")}
    assert len(logs) == 1, said
    assert "the loss is nan" in Path(logs.pop()).read_text()
    assert "Traceback" not in said
    # Without --run-dir the run is in the job's own directory, and outlives the container.
    run = re.search(r"run directory +(\S+)", said)
    assert run is not None
    assert {"run.json", "metrics.jsonl", "launch.json"} <= {path.name for path in Path(run[1]).iterdir()}
