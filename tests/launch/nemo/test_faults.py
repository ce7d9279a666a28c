"""What NeMo-Run 0.11.1 gets wrong and the launcher works around. A test that fails tells of a workaround to look at.

Each function below `run` is called in the process that has imported nemo_run.
"""

import tempfile
from collections.abc import Callable
from importlib.metadata import requires, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

Call = Callable[..., Any]


def rendered(words: tuple[str, ...] = ("x",), **executor: Any) -> str:
    """The script that NeMo-Run writes for a job of two nodes, left to its defaults but for `executor`."""
    import nemo_run

    with tempfile.TemporaryDirectory() as place:
        made = nemo_run.SlurmExecutor(account="acct_team", packager=nemo_run.Packager(), **executor)
        task = nemo_run.Script(entrypoint="/bin/sh", path="-c", args=list(words))
        with nemo_run.Experiment("exp", executor=made, base_dir=place, clean_mode=True) as experiment:
            experiment.add(task, name="exp")
            experiment.dryrun(log=False, delete_exp_dir=False)
        return next(Path(place).rglob("*_sbatch.sh")).read_text()


def srun_line(script: str) -> str:
    """The line that starts the ranks."""
    return next(line for line in script.splitlines() if line.startswith("srun --output"))


def test_the_version_is_the_one_that_was_looked_at() -> None:
    """Everything here and in nemo.py is about this one."""
    assert version("nemo-run") == "0.11.1"


def test_leptonai_is_bounded_by_us_alone() -> None:
    """NeMo-Run bounds it from below only, and imports what 0.28 has no more; a wheel of ours must bring the bound."""
    theirs = _requirement("nemo-run", "leptonai")
    ours = _requirement("trainwright-launch", "leptonai")
    assert theirs.specifier.contains("99")
    assert not ours.specifier.contains("0.28")
    assert ours.specifier.contains(version("leptonai"))


def _requirement(distribution: str, name: str) -> Requirement:
    all_of_them = [Requirement(line) for line in requires(distribution) or []]
    return next(one for one in all_of_them if one.name == name and one.marker is None)


@pytest.mark.parametrize(
    ("executor", "pasted"),
    [
        ({"container_image": "/a b.sqsh"}, "--container-image /a b.sqsh "),
        ({"container_image": "x", "container_mounts": ["/it's:/y"]}, "--container-mounts /it's:/y,"),
        ({"container_image": "x", "container_env": ["A;B"]}, "--container-env A;B "),
        ({"srun_args": ["--comment=a $b"]}, " --comment=a $b "),
    ],
    ids=["image", "mounts", "names", "srun arguments"],
)
def test_nothing_on_the_srun_line_is_quoted(executor: dict[str, Any], pasted: str, elsewhere: Call) -> None:
    """`noquote` is another name for `str`, so that every value is pasted: each is quoted before."""
    assert pasted in srun_line(elsewhere(_rendered_with, executor))


def _rendered_with(executor: dict[str, Any]) -> str:
    return rendered(**executor)


def test_arguments_are_pasted(elsewhere: Call) -> None:
    """The command is joined with blanks."""
    assert srun_line(elsewhere(rendered, ("a b", "it's", "$x"))).endswith(" /bin/sh -c a b it's $x")


def test_arguments_are_templates(elsewhere: Call) -> None:
    """`$$` becomes `$` and `${num_nodes_var}` a variable's name, quoted or not: every `$` is doubled before."""
    line = srun_line(elsewhere(rendered, ("'a$$b'", "'${num_nodes_var}'", "$$$$HOME")))
    assert line.endswith(" 'a$b' 'SLURM_NNODES' $$HOME")


def test_the_program_and_setup_lines_are_no_templates(elsewhere: Call) -> None:
    """So there no `$` is doubled."""
    script = elsewhere(_rendered_with, {"setup_lines": "echo $$ ${num_nodes_var} {{ nodes }}"})
    assert "\necho $$ ${num_nodes_var} {{ nodes }}\n" in script


def test_variables_are_written_with_their_values(elsewhere: Call) -> None:
    """In capitals, unquoted, in a file that everybody can read: names alone are given, and sbatch forwards them."""
    script = elsewhere(_rendered_with, {"env_vars": {"my_token": "se cret$X"}})
    assert "\nexport MY_TOKEN=se cret$X\n" in script


def test_setup_lines_may_fail(elsewhere: Call) -> None:
    """They run after `set +e`: a setup that must not be ignored says `|| exit`."""
    script = elsewhere(_rendered_with, {"setup_lines": "false # ours"})
    assert script.index("set -evx") < script.index("set +e") < script.index("false # ours") < script.index("\nset -e\n")


def test_the_account_becomes_part_of_the_jobs_name(elsewhere: Call) -> None:
    """Unless the name is given in the job's details, where log files take it from too."""
    assert "#SBATCH --job-name=acct_team-team.exp\n" in elsewhere(rendered)


def test_a_limit_of_ten_minutes_is_assumed(elsewhere: Call) -> None:
    """Unless told that there is none."""
    assert "#SBATCH --time=00:10:00\n" in elsewhere(rendered)
    assert "--time" not in elsewhere(_rendered_with, {"time": None})


def test_a_torchrun_launcher_changes_the_number_of_tasks(elsewhere: Call) -> None:
    """The ranks are Slurm's tasks here, so no launcher of NeMo-Run's is used."""
    plain = elsewhere(_rendered_with, {"ntasks_per_node": 8})
    with_torchrun = elsewhere(_rendered_with, {"ntasks_per_node": 8, "launcher": "torchrun"})
    assert "#SBATCH --ntasks-per-node=8\n" in plain
    assert "#SBATCH --ntasks-per-node=1\n" in with_torchrun


def test_ranks_would_write_to_a_pseudo_terminal(elsewhere: Call) -> None:
    """`SLURM_UNBUFFEREDIO` is srun's --unbuffered: it is unset before the ranks start."""
    assert "\nexport SLURM_UNBUFFEREDIO=1\n" in elsewhere(rendered)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (True, "#SBATCH --made-up"),
        ("true", "#SBATCH --made-up=true"),
        (False, "#SBATCH --made-up=False"),
        (None, "#SBATCH --made-up=None"),
        ("it's a $b", """#SBATCH --made-up='it'"'"'s a $b'"""),
    ],
)
def test_additional_parameters_are_written_as_they_are(value: Any, line: str, elsewhere: Call) -> None:
    """Known to sbatch or not; only True stands for an option without a value."""
    script = elsewhere(_rendered_with, {"additional_parameters": {"made_up": value}})
    assert f"{line}\n" in script


def test_a_dash_in_a_parameters_name_makes_it_another_one(elsewhere: Call) -> None:
    """Both are written, so sbatch takes the last: names are given with `_`."""
    script = elsewhere(_rendered_with, {"additional_parameters": {"job-name": "mine"}})
    assert script.count("#SBATCH --job-name=") == 2


SACCT = """\
#!/bin/sh
echo 'JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode'
echo '1|x.exp|p|a|1|FAILED|5:0'
"""


def waited_for(place: Path) -> str:
    """Run a job and let NeMo-Run wait for it; what it says of the job after that. Slurm's programs are in `place`."""
    import os

    import nemo_run

    before = dict(os.environ)
    os.environ["PATH"] = f"{place}:{before['PATH']}"
    try:
        tunnel = nemo_run.LocalTunnel(job_dir=str(place / "jobs"))
        executor = nemo_run.SlurmExecutor(
            account="a", packager=nemo_run.Packager(), tunnel=tunnel, poll_estimated_start_time=False
        )
        with nemo_run.Experiment("exp", executor=executor, base_dir=str(place), clean_mode=True) as experiment:
            experiment.add(nemo_run.Script(path="x"), name="exp")
            experiment.run()
        return str(experiment.jobs[0].state)
    finally:
        os.environ["PATH"] = before["PATH"]


def test_waiting_ends_well_for_a_job_that_failed(elsewhere: Call, tmp_path: Path) -> None:
    """No error, so exit code 0; and nowhere the job's own code: the launcher waits itself."""
    for name, text in {"sbatch": "#!/bin/sh\necho 1\n", "sacct": SACCT}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    assert elsewhere(waited_for, tmp_path) == "FAILED"


def made_twice(place: Path) -> str:
    """Run an experiment whose directory is there; what NeMo-Run says."""
    import nemo_run

    (place / "experiments" / "exp" / "exp_1").mkdir(parents=True)
    with nemo_run.Experiment("exp", id="exp_1", base_dir=str(place), clean_mode=True) as experiment:
        experiment.add(nemo_run.Script(path="true"), name="exp")
        try:
            experiment.run()
        except FileExistsError:
            return "refused"
    return "accepted"


def test_an_experiment_insists_on_making_its_directory(elsewhere: Call, tmp_path: Path) -> None:
    """launch.json must be in it before the job starts, so the launcher lets it be there."""
    assert elsewhere(made_twice, tmp_path) == "refused"
