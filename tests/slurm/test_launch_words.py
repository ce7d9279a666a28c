"""What is typed on the login node is what each rank is given, and nothing else goes along."""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.slurm.hostile import HOSTILE
from tests.slurm.images import Recorded, recorded, recording_image
from tests.slurm.login import RECIPE, Login, job_number

SECRET = 's3cr3t-it\'s "$x", `y`; é'
NAMED = ("TEAM_TOKEN", "BAKED", "LINES")
COMMENT = 'it\'s a "test" of $HOME & more'
RANKS = {0, 1, 2, 3}


@dataclass
class Job:
    """One job that all tests of this file look at."""

    number: int
    said: str
    code: int
    ranks: dict[int, Recorded]
    seen: list[str] = field(default_factory=list)


class Watcher(threading.Thread):
    """Looks at the arguments of every process of this machine until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.secrets: list[str] = []
        self.names = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    line = path.read_bytes()
                    self.names += b"TEAM_TOKEN" in line
                    if b"s3cr3t-" in line:
                        self.secrets.append(line.replace(b"\0", b" ").decode(errors="replace"))
            time.sleep(0.05)


@pytest.fixture(scope="module")
def place(login: Login) -> Path:
    """The recorder's image, the directory it writes to, and an nvidia-smi that writes down what it is asked for."""
    recording_image(login.home / "the team's image")
    (login.home / "what arrived").mkdir()
    (login.home / "what arrived" / "then").write_text("sleep 1\n")
    (login.home / "bin").mkdir()
    program = login.home / "bin" / "nvidia-smi"
    program.write_text(f'#!/bin/sh\necho "$SLURMD_NODENAME $*" >>{login.home}/clocks\nexit ${{SMI_STATUS:-0}}\n')
    program.chmod(0o755)
    return login.home


def options(login: Login, place: Path) -> list[str]:
    """What both ways to submit are given."""
    return [
        *login.options(place / "the team's image", f"{place}/what arrived:/record"),
        *(f"--env={name}" for name in NAMED),
    ]


def environment(login: Login, place: Path, **changes: str) -> dict[str, str]:
    """A shell that holds a secret, a variable that the image has too, and one that is not forwarded."""
    own = {"TEAM_TOKEN": SECRET, "BAKED": "by the user", "LINES": "one\ntwo", "UNNAMED": "stays here"}
    path = f"{place}/bin:{login.environment()['PATH']}"
    return login.environment(**own, PATH=path, **changes)


@pytest.fixture(scope="module")
def job(login: Login, place: Path) -> Iterator[Job]:
    """The hostile words through launcher, NeMo-Run, sbatch, srun and the container's shell, waited for."""
    watcher = Watcher()
    watcher.start()
    answer = login.launch(
        *options(login, place),
        *(f"--additional-slurm-params=comment={COMMENT};exclusive=true", f"--srun-arg=--comment={COMMENT}"),
        *("--no-preflight", "--wait", "--peak-mem-clk=4752", *RECIPE, *HOSTILE),
        environment=environment(login, place),
    )
    watcher.over.set()
    watcher.join()
    assert watcher.names > 20, "the name of the variable stands in the launcher's own arguments"
    number = job_number(answer.stdout + answer.stderr)
    yield Job(
        number,
        answer.stdout + answer.stderr,
        answer.returncode,
        recorded(place / "what arrived", number),
        watcher.secrets,
    )


def test_the_job_is_done_and_wait_says_so(job: Job) -> None:
    """All ranks were there; exit code 0 without accounting."""
    assert job.code == 0, job.said
    assert job.ranks.keys() == RANKS


@pytest.mark.parametrize("index", range(len(HOSTILE)), ids=lambda index: f"{index}-{HOSTILE[index][:12]!r}")
def test_a_hostile_word_arrives(job: Job, index: int) -> None:
    """The same bytes, at the same place, on every rank."""
    for rank in job.ranks.values():
        assert rank.arguments[len(rank.arguments) - len(HOSTILE) + index] == HOSTILE[index]


def test_no_word_is_added_but_the_run_directory(job: Job) -> None:
    """It lies in the job's own mount, and is the same on all ranks."""
    first = job.ranks[0].arguments
    assert first[0] == b"--run-dir"
    assert first[1].startswith(b"/nemo_run/runs/vanilla_gpt_pretrain_config-")
    assert first[2:] == (*map(os.fsencode, RECIPE), *HOSTILE)
    assert {rank.arguments for rank in job.ranks.values()} == {first}


def test_the_rendered_script_carries_the_same_words(login: Login, place: Path) -> None:
    """Without NeMo-Run: `--render sbatch | sbatch`. Variables by their names, too."""
    number = login.sbatch_rendered(*options(login, place), *RECIPE, *HOSTILE, environment=environment(login, place))
    fields = login.cluster.wait(number)
    assert (fields["JobState"], fields["ExitCode"]) == ("COMPLETED", "0:0")
    ranks = recorded(place / "what arrived", number)
    assert ranks.keys() == RANKS
    for rank in ranks.values():
        assert rank.arguments[2:] == (*map(os.fsencode, RECIPE), *HOSTILE)
        assert rank.environment[b"TEAM_TOKEN"] == SECRET.encode()
        assert rank.directory == "/nemo_run/code"


def test_options_for_slurm_arrive(login: Login, job: Job) -> None:
    """Whatever stands in them, and those without a value."""
    shown = login.cluster.run("scontrol", "-o", "show", "job", str(job.number)).stdout
    assert f"Comment={COMMENT} " in shown
    assert "OverSubscribe=NO " in shown


def test_named_variables_arrive_and_win_over_the_images(job: Job) -> None:
    """Whatever their values hold."""
    for rank in job.ranks.values():
        assert rank.environment[b"TEAM_TOKEN"] == SECRET.encode()
        assert rank.environment[b"BAKED"] == b"by the user"
        assert rank.environment[b"LINES"] == b"one\ntwo"


def test_no_other_variable_goes_along(job: Job) -> None:
    """Beside Slurm's own and the image's."""
    for rank in job.ranks.values():
        rest = {name for name in rank.environment if not name.startswith((b"SLURM_", b"SLURMD_", b"SRUN_DEBUG"))}
        assert rest - {name.encode() for name in NAMED} <= {b"PATH", b"PWD", b"TMPDIR"}
        assert rank.environment[b"PATH"] == b"/opt/trainwright/bin:/usr/bin:/bin"


def test_a_secret_is_in_no_argument_of_any_process(job: Job) -> None:
    """Looked for from before the submission to the job's end."""
    assert job.seen == []


def test_a_secret_is_in_no_file(login: Login, place: Path, job: Job) -> None:
    """Of the launcher, NeMo-Run or the job. Exceptions: what the recorder wrote on purpose, and Slurm's own state."""
    files = [path for folder in (place, login.cluster.base / "log") for path in folder.rglob("*") if path.is_file()]
    texts = {path: path.read_bytes() for path in files if not path.is_relative_to(place / "what arrived")}
    assert [path for path, text in texts.items() if b"s3cr3t-" in text] == []
    assert "s3cr3t-" not in job.said
    # The search finds what is there.
    assert [path for path, text in texts.items() if b"TEAM_TOKEN" in text and path.name.endswith("_sbatch.sh")]


def test_the_container_is_given_what_was_asked_for_and_the_jobs_directory(login: Login, place: Path, job: Job) -> None:
    """Exactly these container options, on both nodes."""
    lines = [json.loads(line) for line in login.cluster.record.read_text().splitlines()]
    mine = [line for line in lines if line["job"] == job.number]
    assert sorted(line["node"] for line in mine) == [0, 1]
    for line in mine:
        mounts = line["options"].pop("container-mounts").split(",")
        assert mounts[0] == f"{place}/what arrived:/record"
        assert [mount.split(":")[1] for mount in mounts[1:]] == ["/nemo_run"]
        assert line["options"] == {
            "container-image": str(place / "the team's image"),
            "container-env": ",".join(NAMED),
            "container-workdir": "/nemo_run/code",
        }


def test_the_memory_clock_is_set_once_on_each_node_before_the_run(place: Path, job: Job) -> None:
    """On the host, by its own nvidia-smi."""
    lines = (place / "clocks").read_text().splitlines()
    assert sorted(lines) == [f"trainwright-n{node} --lock-memory-clocks=4752" for node in (1, 2)]


def test_a_memory_clock_that_cannot_be_set_ends_the_job(login: Login, place: Path) -> None:
    """Before any rank starts, with a line that says why."""
    number = login.sbatch_rendered(
        *login.options(place / "the team's image", f"{place}/what arrived:/record"),
        *("-lmc", "1500", "--env=SMI_STATUS", *RECIPE),
        environment=environment(login, place, SMI_STATUS="9"),
    )
    fields = login.cluster.wait(number)
    assert (fields["JobState"], fields["ExitCode"]) == ("FAILED", "41:0")
    assert recorded(place / "what arrived", number) == {}
    assert "memory clock" in Path(fields["StdOut"]).read_text()


def test_a_mounted_checkout_takes_the_images_place(login: Login, place: Path) -> None:
    """Its packages go before what the image's PYTHONPATH names; a place without a checkout is refused there."""
    checkout = login.home / "checkout"
    for name in ("packages/recipes/src", "packages/runner/src", "apps/trainer/src"):
        (checkout / name).mkdir(parents=True)
    options = login.options(
        place / "the team's image", f"{place}/what arrived:/record", f"{checkout}:/src", nodes=1, gpus=1
    )
    number = login.sbatch_rendered(*options, "--source=/src", *RECIPE, "a b")
    assert login.cluster.wait(number)["ExitCode"] == "0:0"
    rank = recorded(place / "what arrived", number)[0]
    assert rank.arguments[:2] == (b"-m", b"trainwright_trainer")
    assert rank.arguments[-3:] == (b"--recipe", b"vanilla_gpt_pretrain_config", b"a b")
    folders = rank.environment[b"PYTHONPATH"].split(b":")
    assert sorted(folders) == [b"/src/apps/trainer/src", b"/src/packages/recipes/src", b"/src/packages/runner/src"]

    number = login.sbatch_rendered(*options, "--source=/src/packages", *RECIPE)
    assert login.cluster.wait(number)["ExitCode"] == "2:0"
