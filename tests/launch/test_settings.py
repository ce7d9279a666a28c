"""Every value in effect comes from the strongest place that gives it, and says which."""

from pathlib import Path
from typing import Any

import pytest
from tests.launch.slurm_jobs import NEEDED, RECIPE, settings_of

from trainwright.launch import LaunchError
from trainwright.launch.clusters import read_cluster
from trainwright.launch.mounts import Mount
from trainwright.launch.settings import show

VR200 = "qwen3_30b_a3b_pretrain_16gpu_vr200_bf16_config"


def refused(*words: str, **place: Any) -> str:
    """The one line that a command line is refused with."""
    with pytest.raises(LaunchError) as caught:
        settings_of(*words, **place)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def hops(tmp_path: Path) -> Path:
    """A cluster file with one cluster that sets something of everything."""
    file = tmp_path / "clusters.toml"
    file.write_text(
        """
        [hops]
        account = "site"
        partition = "long"
        time = "1-00"
        gpus-per-node = 4
        container_image = "registry#site/image:1"
        mount = ["/data", "/home:/h:ro"]
        env = ["SITE_TOKEN", "NOT_HERE", "NOR_HERE"]
        srun-arg = ["--mpi=pmix"]
        additional-slurm-params = {qos = "normal", exclusive = true, mem = 0}
        """
    )
    return file


def test_flag_then_environment_then_cluster_then_default(hops: Path) -> None:
    """The whole order, on options of every kind, each with its origin."""
    settings = settings_of(
        *("--nodes=2", "--account=mine", "--mount=/scratch", "--mount=/data", "--env=MINE", "--srun-arg=--label"),
        "--additional_slurm_params=qos=high;nice=10",
        *RECIPE,
        environment={"SLURM_ACCOUNT": "env", "SLURM_PARTITION": "short", "MINE": "1", "SITE_TOKEN": "2"},
        cluster=read_cluster(hops, "hops"),
    )
    site = f"cluster hops in {hops}"
    expected = {
        "account": ("mine", "flag --account"),
        "partition": ("short", "environment SLURM_PARTITION"),
        "time": ("1-00", site),
        "gpus_per_node": (4, site),
        "container_image": ("registry#site/image:1", site),
        "nodes": (2, "flag --nodes"),
        "gres": (None, "default"),
        "max_requeues": (0, "default"),
        "executor": ("slurm", "default"),
        "preflight": (None, "default"),
        "experiment_name": ("vanilla_gpt_pretrain", "recipe name"),
        "env": (("SITE_TOKEN", "MINE"), f"{site} and flag --env"),
        "srun_args": (("--mpi=pmix", "--label"), f"{site} and flag --srun-arg"),
        "mounts": (
            (Mount("/data", "/data", ""), Mount("/home", "/h", "ro"), Mount("/scratch", "/scratch", "")),
            f"{site} and flag --mount",
        ),
        "additional_slurm_params": (
            {"qos": "high", "exclusive": True, "mem": "0", "nice": "10"},
            f"flag --additional_slurm_params and {site}",
        ),
    }
    assert {dest: (getattr(settings, dest), settings.origins[dest]) for dest in expected} == expected
    assert settings.origins["mounts[2]"] == "flag --mount"
    assert settings.origins["additional_slurm_params[mem]"] == site
    assert settings.notes == (f"not set here, and so not forwarded for {site}: NOT_HERE, NOR_HERE",)


def test_show_prints_each_value_with_its_origin_and_no_secret(hops: Path) -> None:
    """A line for each value and each part of a list; only the names of forwarded variables."""
    settings = settings_of(
        *("--nodes=2", "--env=HF_TOKEN", "-lmc", "-1", *RECIPE),
        environment={"HF_TOKEN": "hf_secret", "SITE_TOKEN": "site_secret"},
        cluster=read_cluster(hops, "hops"),
    )
    lines = [line.split(maxsplit=2) for line in show(settings).splitlines()]
    site = f"cluster hops in {hops}"
    for expected in (
        ["--nodes", "2", "flag --nodes"],
        ["--partition", "long", site],
        ["--mount", "/home:/h:ro", site],
        ["--env", "HF_TOKEN", "flag --env"],
        ["--additional-slurm-params", "exclusive=true", site],
        ["--peak-mem-clk", "-1", "flag -lmc"],
        ["--gres", "-", "default"],
        ["--wait", "false", "default"],
    ):
        assert expected in lines
    assert "secret" not in show(settings)


@pytest.mark.parametrize(
    ("words", "clock", "origin"),
    [
        (("--recipe", VR200), 4752, "recipe name"),
        ((f"--recipe={VR200}",), 4752, "recipe name"),
        (("--recipe", VR200, "-lmc", "-1"), -1, "flag -lmc"),
        (("--recipe", VR200, "--peak_mem_clk=4000"), 4000, "flag --peak_mem_clk"),
        (("--recipe", VR200.replace("vr200", "gb300")), None, "default"),
        (("--recipe", "vr200_pretrain_config"), None, "default"),
        (("--model", VR200), None, "default"),
    ],
)
def test_the_memory_clock_follows_the_recipe_unless_it_is_said(
    words: tuple[str, ...], clock: int | None, origin: str
) -> None:
    """4752 MHz for VR200 benchmark recipes alone."""
    settings = settings_of(*NEEDED, *words)
    assert (settings.peak_mem_clk, settings.origins["peak_mem_clk"]) == (clock, origin)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--recipe", "a_b_pretrain_config"), "a_b_pretrain"),
        (("--recipe=a",), "a"),
        (("--model", "llama32_1b", "--mode=sft"), "llama32_1b-sft"),
        (("--model", "a b/$c", "--mode", "x"), "a-b-c-x"),
        (("--recipe", "../../x"), "x"),
        (("--recipe", "é"), "run"),
        (("--recipe", "x" * 300), "x" * 128),
        ((), "run"),
        (("--recipe", "a", "--experiment-name", "mine.2"), "mine.2"),
    ],
)
def test_the_job_is_named_after_the_recipe_unless_it_is_said(words: tuple[str, ...], name: str) -> None:
    """And always so that it can stand in a file name."""
    assert settings_of(*NEEDED, *words).experiment_name == name


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--nodes=two", "--nodes two: a whole number of at least 1 is needed"),
        ("--nodes=0", "--nodes 0: a whole number of at least 1 is needed"),
        ("--nodes=-1", "--nodes -1: a whole number of at least 1 is needed"),
        ("--nodes=2.0", "--nodes 2.0: a whole number of at least 1 is needed"),
        ("--nodes=1_0", "--nodes 1_0: a whole number of at least 1 is needed"),
        ("--nodes=٣", "--nodes ٣: a whole number of at least 1 is needed"),
        (f"--nodes={'9' * 5000}", f"--nodes {'9' * 200}...: a whole number of at least 1 is needed"),
        ("--gpus_per_node= 8", "--gpus_per_node ' 8': a whole number of at least 1 is needed"),
        ("--max-requeues=-1", "--max-requeues -1: a whole number of at least 0 is needed"),
        ("-lmc=0", "-lmc 0: a clock in MHz is a whole number of at least 1; -1 leaves the clock alone"),
        ("-lmc=-2", "-lmc -2: a clock in MHz is a whole number of at least 1; -1 leaves the clock alone"),
        ("--time=1h", "--time 1h: not a time: write MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS"),
        ("--time=1:2", "--time 1:2: not a time: write MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS"),
        ("--account=a b", "--account 'a b': blanks are not allowed in it"),
        (
            "--account=a\nb",
            "--account 'a\\nb': only printable text, without blanks at either end, is allowed",
        ),
        ("--partition=a\\b", "--partition a\\b: sbatch drops a backslash that it reads in a script"),
        (
            "--signal=B:USR1@60",
            "--signal B:USR1@60: B: signals the batch shell alone, which waits for srun and cannot pass it on: "
            "write USR1@SECONDS",
        ),
        (
            "--signal=HUP@60",
            "--signal HUP@60: run-recipe stops in good order on USR1 and TERM only: write USR1@SECONDS or TERM@SECONDS",
        ),
        (
            "--signal=USR1",
            "--signal USR1: run-recipe stops in good order on USR1 and TERM only: write USR1@SECONDS or TERM@SECONDS",
        ),
        ("--signal=USR1@70000", "--signal USR1@70000: Slurm takes at most 65535 seconds"),
        (
            "--experiment-name=a/b",
            "--experiment-name a/b: letters, digits, `_`, `.` and `-` are allowed, and a letter or digit at the "
            "beginning; 128 in all",
        ),
        (
            "--executor=kubernetes",
            "--executor kubernetes: no such executor: slurm, local, or MODULE:FUNCTION are allowed",
        ),
        ("--render=bash", "--render bash: no such format: only sbatch is there"),
        ("--container-image=./x", "--container-image ./x: there is no such file in /place"),
        ("--container-image=x.sqsh", "--container-image x.sqsh: there is no such file in /place"),
        ("--container-image=~/x", "--container-image ~/x: `~` and `$` are not expanded here: write the whole path"),
        (
            "--env=HF_TOKEN=hf_secret",
            "--env HF_TOKEN=...: give the name alone and export the variable; its value would stand in the job's "
            "script for everyone to read",
        ),
        ("--env=1A", "--env 1A: not the name of a variable: letters, digits and `_`, and no digit at the beginning"),
        ("--env=A,B", "--env A,B: not the name of a variable: letters, digits and `_`, and no digit at the beginning"),
        ("--env=PATH", "--env PATH: the image's own must stay: programs are looked up in the container"),
        ("--env=PWD", "--env PWD: bash gives it another value in the job's script, so yours would be lost"),
        ("--env=RANDOM", "--env RANDOM: bash gives it another value in the job's script, so yours would be lost"),
        (
            "--env=trainwright_marker",
            "--env trainwright_marker: the job's script has variables of its own that begin with trainwright_",
        ),
        ("--env=NOT_SET", "--env NOT_SET: not set here, so there is nothing to forward; export it first"),
        (
            "--mount=/a:",
            "--mount '/a:': CONTAINER is empty: write HOST, HOST:CONTAINER or HOST:CONTAINER:FLAGS",
        ),
        ("--source=src", "--source src: an absolute path in the container is needed"),
        (
            "--source=/src",
            "--source /src: no --mount holds it, so it would not be in the container; add --mount HOST:CONTAINER",
        ),
        ("--srun-arg=--export=ALL", "--srun-arg --export=ALL: the launcher sets --export: use --env"),
        (
            "--additional-slurm-params=qos",
            "--additional-slurm-params qos: 'qos' has no `=`: write qos=VALUE, or =true for a bare option",
        ),
    ],
)
def test_a_value_that_is_not_allowed_is_refused(option: str, message: str) -> None:
    """One line: the option as typed, the value, what is allowed."""
    words = [word for word in NEEDED if word.partition("=")[0] != option.partition("=")[0].replace("_", "-")]
    assert refused(*words, option, *RECIPE) == message


@pytest.mark.parametrize("time", ["30", "30:00", "1:30:00", "2-0", "2-12:30", "2-12:30:05", "0"])
def test_every_form_of_slurms_time_is_taken(time: str) -> None:
    """As sbatch's manual lists them."""
    assert settings_of(*NEEDED, f"--time={time}", *RECIPE).time == time


@pytest.mark.parametrize("signal", ["USR1@120", "TERM@60", "SIGUSR1@1"])
def test_signals_that_the_run_obeys_are_taken(signal: str) -> None:
    """With the seconds before the limit."""
    assert settings_of(*NEEDED, f"--signal={signal}", *RECIPE).signal == signal


@pytest.mark.parametrize("option", NEEDED)
def test_a_missing_option_is_named(option: str) -> None:
    """With the variable that could give it."""
    name = option.partition("=")[0]
    message = refused(*(word for word in NEEDED if word != option), *RECIPE)
    assert message.startswith(f"missing: {name} ")
    variables = {"--account": "SLURM_ACCOUNT", "--partition": "SLURM_PARTITION", "--container-image": "CONTAINER_IMAGE"}
    assert variables.get(name, "local") in message


def test_all_missing_options_stand_in_one_line() -> None:
    """Nobody learns of them one by one; an empty variable gives nothing; a slip of the finger is recognised."""
    assert refused("--node", "2", *RECIPE, environment={"SLURM_ACCOUNT": ""}) == (
        "missing: --nodes N, --gpus-per-node N, --account NAME or SLURM_ACCOUNT, --partition NAME or SLURM_PARTITION, "
        "--container-image IMAGE or CONTAINER_IMAGE (--node is no launch option; did you mean --nodes?); "
        "or --executor local, to run on this machine"
    )


def test_a_slip_in_any_missing_option_is_recognised() -> None:
    """Not only in the first one."""
    assert "(--acount is no launch option; did you mean --account?)" in refused("--nodes=2", "--acount", "x", *RECIPE)


def test_a_bad_value_is_refused_by_the_place_it_came_from(tmp_path: Path) -> None:
    """An environment variable by its name, a cluster file by file, table and key."""
    words = [word for word in NEEDED if not word.startswith(("--account", "--gpus"))]
    assert refused(*words, *RECIPE, environment={"SLURM_ACCOUNT": "a b"}).startswith("SLURM_ACCOUNT 'a b': ")
    file = tmp_path / "c.toml"
    for line, problem in (
        ("gpus_per_node = 0", "gpus_per_node 0: a whole number of at least 1 is needed"),
        ('mount = ["data"]', "mount data: HOST must be an absolute path in a cluster file"),
        ('env = ["A=b"]', "env A=...: give the name alone and export the variable"),
        (
            'additional_slurm_params = {nodes = "3"}',
            "additional_slurm_params: nodes is set by the launcher: use --nodes",
        ),
        ('signal = "B:TERM@1"', "signal B:TERM@1: B: signals the batch shell alone"),
    ):
        file.write_text(f"[c]\n{line}\n")
        assert refused(*words, *RECIPE, cluster=read_cluster(file, "c")).startswith(f"{file}, [c] {problem}")


def test_an_image_file_becomes_an_absolute_path(tmp_path: Path) -> None:
    """What is no file here stays as it is: the nodes may know it."""
    (tmp_path / "x.sqsh").touch()
    words = [word for word in NEEDED if not word.startswith("--container-image")]
    for image, becomes in (
        ("x.sqsh", f"{tmp_path}/x.sqsh"),
        ("./x.sqsh", f"{tmp_path}/x.sqsh"),
        ("nvcr.io#nvidia/nemo:25.11", "nvcr.io#nvidia/nemo:25.11"),
        ("docker://a/b:c", "docker://a/b:c"),
        ("/not/here.sqsh", "/not/here.sqsh"),
    ):
        settings = settings_of(*words, *RECIPE, environment={"CONTAINER_IMAGE": image}, cwd=tmp_path)
        assert settings.container_image == becomes
        assert settings.origins["container_image"] == "environment CONTAINER_IMAGE"


def test_two_sources_of_one_place_are_refused() -> None:
    """Across the cluster file and flags too, since both add up."""
    message = refused(*NEEDED, "--mount=/a:/x", "--mount=/b:/x", *RECIPE)
    assert message == "--mount: /a:/x and /b:/x are both mounted at /x: give one"


def test_parameters_of_two_flags_may_not_contradict() -> None:
    """The same key in the cluster file is no contradiction: flags win."""
    message = refused(*NEEDED, "--additional-slurm-params=qos=a", "--additional-slurm-params=qos=b", *RECIPE)
    assert message == "--additional-slurm-params: qos is given twice, as a and as b"


def test_an_executor_names_what_it_does_not_use() -> None:
    """What was typed and has no effect is said, in one line; a site's defaults are not."""
    settings = settings_of("--executor=local", "--account", "a", "--nproc-per-node=2", "--wait", *RECIPE)
    assert settings.notes == ("--executor local does not use --account, --wait",)
    assert settings_of(*NEEDED, "--nproc_per_node=2", *RECIPE).notes == (
        "--executor slurm does not use --nproc_per_node",
    )


def test_requeues_without_a_signal_are_explained() -> None:
    """Only a run that is told in time stops in good order at the limit."""
    (note,) = settings_of(*NEEDED, "--max-requeues=2", *RECIPE).notes
    assert note.startswith("--max-requeues 2 without --signal: Slurm ends a job at its time limit")
    assert settings_of(*NEEDED, "--max-requeues=2", "--signal=USR1@120", *RECIPE).notes == ()


def test_local_needs_nothing_of_slurm(hops: Path) -> None:
    """And its ranks have two names that may not contradict each other."""
    assert settings_of("--executor=local", *RECIPE).nproc_per_node is None
    site = read_cluster(hops, "hops")
    assert settings_of("--executor=local", *RECIPE, cluster=site).notes == ()
    assert settings_of("--executor=local", "--gpus-per-node=2", "--nproc-per-node=2", *RECIPE).nproc_per_node == 2
    message = refused("--executor=local", "--gpus-per-node=2", "--nproc-per-node=3", *RECIPE)
    assert message == "--nproc-per-node 3 and --gpus-per-node 2 both say how many ranks run here: give one"
    assert refused("--executor=local", "--render=sbatch", *RECIPE) == (
        "--render sbatch is for --executor slurm, and not for local"
    )


@pytest.mark.parametrize("other", ["--wait", "--dry-run"])
def test_a_rendered_script_is_all_that_comes_of_it(other: str) -> None:
    """What cannot come with it is refused rather than ignored."""
    message = f"--render sbatch prints a script and submits nothing: give no {other}"
    assert refused(*NEEDED, "--render=sbatch", other, *RECIPE) == message


def test_an_executor_of_ones_own_needs_only_its_size() -> None:
    """Account, partition and image are that executor's business."""
    settings = settings_of("--executor=my.site:executor", "--nodes=2", "--gpus-per-node=8", *RECIPE)
    assert settings.kind == "own"
    assert refused("--executor=my.site:executor", *RECIPE).startswith("missing: --nodes N, --gpus-per-node N;")
