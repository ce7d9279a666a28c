"""`--executor MODULE:FUNCTION`, with NeMo-Run's LocalExecutor and a recorder in place of run-recipe."""

import os
import sys
from pathlib import Path

import pytest
from tests.launch.nemo.shell import Shell
from tests.launch.test_batch_script import HOSTILE

RECIPE = ("--recipe", "vanilla_gpt_pretrain_config")
EXECUTORS = """\
import nemo_run

def plain(job):
    return nemo_run.LocalExecutor()

def torchrun(job):
    assert (job.nodes, job.env_names) == (1, ())
    return nemo_run.LocalExecutor(ntasks_per_node=job.tasks_per_node, launcher="torchrun")

def no_executor(job):
    return "slurm"

def broken(job):
    return job.made_up

a_value = 3
"""
RECORDER = """\
#!/bin/sh
printf '%s\\0' "$@" >"{place}/argv.${{RANK:-alone}}"
echo "world of ${{WORLD_SIZE:-one}}"
exit {code}
"""


@pytest.fixture
def site(shell: Shell) -> Shell:
    """A working directory with the user's module, and a run-recipe on PATH."""
    (shell.work / "executors_7f3a.py").write_text(EXECUTORS)
    shell.program("run-recipe", RECORDER.format(place=shell.place, code=0))
    return shell


def words(function: str, *more: str, gpus: int = 1) -> tuple[str, ...]:
    """The launcher's words for one of the functions."""
    return (f"--executor=executors_7f3a:{function}", "--nodes=1", f"--gpus-per-node={gpus}", *more, *RECIPE)


def test_words_arrive_through_an_executor_of_ones_own(site: Shell) -> None:
    """As the same bytes, whatever they hold; exit code 0 once the run has succeeded."""
    run_dir = f"{site.place}/run"
    said = site.launch(*words("plain", "--run-dir", run_dir), *HOSTILE)
    assert said.code == 0, said.err
    argv = (site.place / "argv.alone").read_bytes().split(b"\0")[:-1]
    assert argv == [os.fsencode(word) for word in ("--run-dir", run_dir, *RECIPE, *HOSTILE)]


@pytest.mark.distributed
def test_its_launcher_decides_about_ranks(site: Shell) -> None:
    """torchrun starts the command once for each rank, and the rank's output is shown."""
    said = site.launch(*words("torchrun", "--run-dir", f"{site.place}/run", gpus=2), PATH=_path(site))
    assert said.code == 0, said.err
    assert sorted(path.name for path in site.place.glob("argv.*")) == ["argv.0", "argv.1"]
    assert (said.out + said.err).count("world of 2") == 2


def test_a_run_that_fails_is_no_success(site: Shell) -> None:
    """Exit code 1, since NeMo-Run tells no more."""
    site.program("run-recipe", RECORDER.format(place=site.place, code=5))
    said = site.launch(*words("plain", "--run-dir", f"{site.place}/run"))
    assert said.code == 1
    assert said.err.splitlines()[-1] == "trainwright: NeMo-Run says that vanilla_gpt_pretrain ended as FAILED"


def test_a_dry_run_shows_the_command_and_leaves_nothing(site: Shell) -> None:
    """The script that the executor would run, and NeMo-Run's own account of it."""
    site.launch(*words("no_executor"))  # Python keeps the compiled module from here on
    before = site.tree()
    said = site.launch(*words("plain", "--dry-run", "--run-dir=/r"), "it's")
    assert said.code == 0
    first = said.out.splitlines()[0]
    assert first.startswith("exec /bin/sh -c ")
    assert first.endswith(""" trainwright run-recipe --run-dir=/r --recipe vanilla_gpt_pretrain_config 'it'"'"'s'""")
    assert site.tree() == before
    assert not (site.place / "argv.alone").exists()


@pytest.mark.parametrize(
    ("executor", "error"),
    [
        ("executors_7f3a:no_executor", "it returned str, and no executor of NeMo-Run's"),
        ("executors_7f3a:broken", "AttributeError: 'SlurmJob' object has no attribute 'made_up'"),
        ("executors_7f3a:missing", "AttributeError: module 'executors_7f3a' has no attribute 'missing'"),
        ("executors_7f3a:a_value", "TypeError: 'int' object is not callable"),
        ("no_such_module_7f3a:f", "ModuleNotFoundError: No module named 'no_such_module_7f3a'"),
        ("executors_7f3a:plain", "LocalExecutor mounts no /nemo_run: give --run-dir"),
    ],
)
def test_what_is_no_executor_is_refused_in_one_line(site: Shell, executor: str, error: str) -> None:
    """Naming it."""
    said = site.launch(f"--executor={executor}", "--nodes=1", "--gpus-per-node=1", *RECIPE)
    assert (said.code, said.err) == (2, f"trainwright: --executor {executor}: {error}\n")
    assert list(site.home.iterdir()) == []


def _path(site: Shell) -> str:
    """With this environment's torchrun."""
    return f"{site.place}/bin:{Path(sys.executable).parent}:/usr/bin:/bin"
