"""`trainwright launch`: words in, one executor out; nothing of NeMo-Run, recipes or torch is loaded for an answer."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from trainwright.launch.help_text import help_text
from trainwright.launch.options import OPTIONS
from trainwright.recipes.pipeline import resolve as resolve_words
from trainwright_login import preflight
from trainwright_login.main import app

SITE = shlex.split("--nodes 2 --gpus-per-node 2 --account a --partition p --container-image /images/x.sqsh")
GPT = shlex.split("--recipe vanilla_gpt_pretrain_config --dataset mock")
OF_THE_SITE = ("SLURM_ACCOUNT", "SLURM_PARTITION", "CONTAINER_IMAGE")


@pytest.fixture(autouse=True)
def no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer's shell says of a cluster is not the tests' business."""
    for name in OF_THE_SITE:
        monkeypatch.delenv(name, raising=False)


def launch(*words: str, cwd: Path | None = None, **environment: str) -> "subprocess.CompletedProcess[str]":
    """The command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "trainwright_login.main", "launch", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        check=False,
    )


def loaded_by(*words: str) -> set[str]:
    """The modules that `trainwright launch` leaves loaded."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('\\n'.join(sorted(sys.modules)), file=sys.stderr))\n"
        "from trainwright_login.main import main\n"
        f"sys.argv = ['trainwright', 'launch', *{list(words)!r}]\n"
        "main()"
    )
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr.split())


def test_help_is_heard_among_wrong_words() -> None:
    """The page is made from the table of options."""
    done = launch("--nodes", "many", "--help")
    assert (done.returncode, done.stdout) == (0, help_text())


@pytest.mark.parametrize(
    "words",
    [("--help",), ("--nodes", "many"), (*SITE, *GPT, "--render", "sbatch", "--no-preflight")],
    ids=["help", "error", "render"],
)
def test_answers_at_once_because_nothing_is_loaded(words: tuple[str, ...]) -> None:
    """NeMo-Run's import takes 7 s and more; the recipes' and rich's take long enough to be felt."""
    loaded = loaded_by(*words)
    assert "trainwright.launch.options" in loaded
    assert not loaded & {"nemo_run", "torch", "trainwright.recipes", "pydantic", "rich", "yaml", "omegaconf"}


def test_the_preflight_never_loads_torch() -> None:
    """It runs on a login node."""
    loaded = loaded_by(*SITE, *GPT, "--render", "sbatch", "--preflight")
    assert "trainwright.recipes.pipeline" in loaded
    assert not loaded & {"torch", "numpy", "megatron", "transformers", "nemo_run"}


words_of_run_recipe = st.lists(
    st.one_of(
        st.sampled_from(
            ["-tp", "2", "-x=1", "-h", "a b", "", "-", "m.x='$HOME'", "--save_dir=/x y", "-1e-3", "\udcff"]
        ),
        st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))),
    )
)


def launch_options(word: str) -> bool:
    """Whether the launcher would take the word for its own."""
    name = word.partition("=")[0]
    return any(name.replace("_", "-") == own or name == own for option in OPTIONS for own in option.names)


@given(words_of_run_recipe, words_of_run_recipe, st.booleans())
def test_words_of_run_recipe_pass_untouched(before: list[str], after: list[str], bare_dashes: bool) -> None:
    """Whatever is not the launcher's own reaches the executor as typed and in order, `--` and all after it too."""
    before = [word for word in before if not launch_options(word) and word != "--"]
    after = [word for word in after if not launch_options(word) and word != "--"]
    end = ["--", "--nodes", "x", *after] if bare_dashes else after
    with patch("trainwright.launch.local.launch_local", return_value=0) as launched:
        line = ["launch", *before, "--executor", "local", "--nproc-per-node", "2", *end]
        result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    assert launched.call_args.args == ((*before, *end),)
    assert launched.call_args.kwargs["nproc_per_node"] == 2


@pytest.mark.parametrize("code", [0, 1, 2, 75])
@pytest.mark.parametrize("executor", ["local", "slurm"])
def test_the_executors_exit_code_is_the_commands(code: int, executor: str) -> None:
    """A scheduler that started `trainwright launch` sees how the run ended."""
    with patch(f"trainwright.launch.{executor}.launch_{executor}", return_value=code):
        site = ["--nodes", "1", *SITE[2:]]
        assert CliRunner().invoke(app, ["launch", "--executor", executor, *site, *GPT]).exit_code == code


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "missing: --nodes N, --gpus-per-node N, --account NAME or SLURM_ACCOUNT"),
        (["--executor", "moon", *GPT], "--executor moon: no such executor: slurm, local, or MODULE:FUNCTION"),
        (["--executor", "local"], "nothing to launch: give run-recipe's words"),
        (["--executor", "local", "--nproc-per-node", "two"], "--nproc-per-node two: a whole number"),
        (["--executor", "local", "--nodes", "2", *GPT], "--nodes 2: this machine is one node; --executor slurm"),
        (["--executor", "local", "--nproc-per-node", "1", "--gpus-per-node", "2", *GPT], "both say how many ranks"),
        ([*SITE], "no recipe: give --recipe NAME, or --model STEM"),
        ([*SITE, *GPT, "--model", "m"], "--recipe and --model are both given"),
        ([*SITE, *GPT, "--cluster-file", "x"], "--cluster-file x is used only with --cluster NAME"),
    ],
)
@pytest.mark.parametrize("how", [(), ("--show",)], ids=["launch", "show"])
def test_a_mistake_is_one_line_with_exit_code_2(words: list[str], how: tuple[str, ...], says: str) -> None:
    """Nothing starts, and no traceback is shown."""
    done = launch(*words, *how, "--no-preflight")
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.startswith("trainwright: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "ranks"),
    [
        ((), 1),
        (("--nproc-per-node", "3"), 3),
        (("--nproc_per_node=3",), 3),
        (("--gpus-per-node", "4"), 4),
        (("--nodes", "1", "--gpus-per-node", "2"), 2),
        (("--nproc-per-node", "2", "--gpus-per-node", "2"), 2),
    ],
)
def test_the_local_executor_takes_the_same_words(words: tuple[str, ...], ranks: int) -> None:
    """`--executor local` before a command line for Slurm runs it here."""
    with patch("trainwright.launch.local.launch_local", return_value=0) as launched:
        result = CliRunner().invoke(app, ["launch", "--executor", "local", *words, *GPT])
    assert result.exit_code == 0, result.output
    assert launched.call_args.kwargs["nproc_per_node"] == ranks


def test_a_clusters_number_of_gpus_is_not_this_machines(tmp_path: Path) -> None:
    """A flag wins over the cluster file here too."""
    file = tmp_path / "clusters.toml"
    file.write_text("[hops]\ngpus-per-node = 8\n")
    cluster = ("--cluster", "hops", "--cluster-file", str(file))
    for words, ranks in ((("--nproc-per-node", "2"), 2), (("--gpus-per-node", "3"), 3)):
        with patch("trainwright.launch.local.launch_local", return_value=0) as launched:
            result = CliRunner().invoke(app, ["launch", "--executor", "local", *cluster, *words, *GPT])
        assert result.exit_code == 0, result.output
        assert launched.call_args.kwargs["nproc_per_node"] == ranks


def test_options_that_do_not_matter_here_are_named_in_one_line() -> None:
    """Nothing that was typed is silently ignored."""
    with patch("trainwright.launch.local.launch_local", return_value=0):
        words = shlex.split("--executor local --nodes 1 --gpus-per-node 2 --account a --mount /data --wait")
        result = CliRunner().invoke(app, ["launch", *words, *GPT])
    assert result.exit_code == 0, result.output
    assert result.stderr == "trainwright launch: --executor local does not use --account, --mount, --wait\n"


@pytest.mark.parametrize(("word", "checked"), [("--preflight", True), ("--no-preflight", False)])
def test_the_local_preflight_is_run_recipes_own(word: str, checked: bool) -> None:
    """On this machine run-recipe itself can be asked, and is not where the user says so."""
    with patch("trainwright.launch.local.launch_local", return_value=0) as launched:
        assert CliRunner().invoke(app, ["launch", "--executor", "local", word, *GPT]).exit_code == 0
    assert launched.call_args.kwargs["check"] is checked


def test_the_local_dry_run_prints_bytes_that_are_no_text(tmp_path: Path) -> None:
    """A path of the user's may be anything; it is printed as it was typed."""
    program = str(Path(sys.executable).with_name("trainwright"))
    words = [b"--executor", b"local", b"--dry-run", b"--no-preflight", b"checkpoint.save=/x/\xff"]
    done = subprocess.run([program, "launch", *words], capture_output=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith(b"'checkpoint.save=/x/\xff'")


def test_show_prints_values_their_origins_and_the_command(tmp_path: Path) -> None:
    """A flag, a variable, a cluster file and a default, each called by its name; and nothing is submitted."""
    file = tmp_path / "clusters.toml"
    file.write_text('[hops]\npartition = "batch"\nmount = ["/data"]\n')
    words = shlex.split("--nodes 2 --gpus-per-node 2 --account team --cluster hops --env TOKEN")
    done = launch(
        *words, "--cluster-file", str(file), *GPT, "a b=$c", "--show", CONTAINER_IMAGE="/i.sqsh", TOKEN="unseen-value"
    )
    assert done.returncode == 0, done.stderr
    for name, value, origin in (
        ("--nodes", "2", "flag --nodes"),
        ("--container-image", "/i.sqsh", "environment CONTAINER_IMAGE"),
        ("--partition", "batch", f"cluster hops in {file}"),
        ("--mount", "/data:/data", f"cluster hops in {file}"),
        ("--time", "-", "default"),
        ("--experiment-name", "vanilla_gpt_pretrain", "recipe name"),
    ):
        row = next(line for line in done.stdout.splitlines() if line.startswith(f"{name} "))
        assert row.split(maxsplit=2) == [name, value, origin]
    assert "each of the 4 tasks runs, in the container:\n  run-recipe --run-dir /nemo_run/runs/" in done.stdout
    assert "'a b=$c'" in done.stdout
    assert "unseen-value" not in done.stdout + done.stderr


def test_a_working_directory_that_is_gone_is_said(tmp_path: Path) -> None:
    """One line, whatever was asked for."""
    gone = tmp_path / "gone"
    gone.mkdir()
    command = shlex.join([sys.executable, "-m", "trainwright_login.main", "launch", *SITE, *GPT, "--show"])
    done = subprocess.run(
        ["sh", "-c", f"cd {gone}; rmdir {gone}; exec {command}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "trainwright: the working directory does not exist any more: cd to one that does\n"


@pytest.mark.parametrize("words", [("--show",), ("--render=sbatch",), ("--help",)])
def test_output_that_cannot_be_written_is_a_failure(words: tuple[str, ...]) -> None:
    """A full disk must not leave half a script and exit code 0."""
    command = [sys.executable, "-m", "trainwright_login.main", "launch", *SITE, *GPT, "--no-preflight", *words]
    for buffered in ("", "1"):
        with open("/dev/full", "wb") as full:
            environment = {**os.environ, "PYTHONUNBUFFERED": buffered}
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, "trainwright: [Errno 28] No space left on device\n")


def test_a_reader_that_leaves_early_is_no_news() -> None:
    """`trainwright launch --render sbatch ... | head -1`."""
    words = [*SITE, *GPT, "--no-preflight", "--render=sbatch", *["x" * 1000] * 200]
    command = [sys.executable, "-m", "trainwright_login.main", "launch", *words]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "#!/bin/bash\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_show_says_what_the_preflight_says() -> None:
    """It is for looking, so a refusal stands among the lines and the exit code is 0."""
    for word, verdict in (("-tp=2", "preflight: 4 ranks can run this"), ("-tp=3", "preflight: refused: ")):
        done = launch(*SITE, *GPT, word, "--show")
        assert done.returncode == 0, done.stderr
        assert verdict in done.stdout
    assert "preflight: off" in launch(*SITE, *GPT, "--show", "--no-preflight").stdout


def test_show_under_local_names_the_command_of_this_machine(tmp_path: Path) -> None:
    """With its torchrun."""
    done = launch("--executor", "local", "--nproc-per-node", "2", *GPT, "--run-dir", "r", "--show", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the command:\n  env OMP_NUM_THREADS=" in done.stdout
    assert "--nproc-per-node=2" in done.stdout
    assert not list(tmp_path.iterdir())


def test_render_prints_a_script_that_bash_reads(tmp_path: Path) -> None:
    """Nothing but the script is on standard output."""
    done = launch(*SITE, *GPT, "checkpoint.save='/b c'", "--render", "sbatch", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#!")
    assert subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=False).returncode == 0
    assert not list(tmp_path.iterdir())


def test_a_refused_preflight_leaves_no_script() -> None:
    """`trainwright launch --render sbatch ... | sbatch` submits nothing."""
    done = launch(*SITE, *GPT, "model.hidden_sise=8", "--render", "sbatch")
    assert (done.returncode, done.stdout) == (2, "")
    assert "hidden_size" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--recipe vanilla_gpt_pretrain_confg", "did you mean"),
        ("--recipe vanilla_gpt_pretrain_config --data mock", "did you mean --dataset?"),
        ("--recipe vanilla_gpt_pretrain_config -tp 3", "world size 4 is not a multiple of 3"),
        ("--recipe vanilla_gpt_pretrain_config -gb 1 -mb 1", "global_batch_size"),
    ],
)
def test_the_preflight_refuses_what_run_recipe_would(words: str, says: str) -> None:
    """The same parser and the same rules, for the world size that is asked for."""
    with pytest.raises(Exception, match=says.replace("?", r"\?")) as caught:
        preflight.preflight(shlex.split(words), 4)
    assert caught.value.exit_code == 2


def test_the_preflight_takes_gpus_unless_a_device_is_named() -> None:
    """A field that only the device layer of the CPU sets tells which was taken."""
    with patch("trainwright.recipes.resolve", wraps=resolve_words) as resolve:
        preflight.preflight(GPT, 4)
        preflight.preflight([*GPT, "--device", "cpu"], 4)
    assert [call.kwargs["device"] for call in resolve.call_args_list] == ["cuda", "cpu"]
    assert [call.kwargs["world_size"] for call in resolve.call_args_list] == [4, 4]


BENCHMARK = "llama3_8b_pretrain_8gpu_h100_bf16_config"


def test_the_preflight_tells_what_weak_scaling_does() -> None:
    """On 32 GPUs instead of 8 the 128 sequences become 512; a typed batch stays; at its own size nothing is told."""
    (line,) = preflight.preflight(["--recipe", BENCHMARK], 32)
    assert line.startswith("weak scaling: 32 ranks instead of 8 keep 16 sequences per GPU")
    assert line.endswith("train.global_batch_size 128 -> 512")
    (line,) = preflight.preflight(["--recipe", BENCHMARK, "-gb", "128"], 32)
    assert line.startswith("weak scaling: off")
    assert preflight.preflight(["--recipe", BENCHMARK], 8) == ()


def test_the_preflight_refuses_a_recipe_that_cannot_run() -> None:
    """With the reason; to look at it on a job's ranks is allowed."""
    words = ["--recipe", "qwen3_235b_a22b_pretrain_64gpu_gb200_fp8mx_config"]
    with pytest.raises(Exception, match="known to be invalid as it stands: expert times pipeline") as caught:
        preflight.preflight(words, 64)
    assert caught.value.exit_code == 2
    assert any("known to be invalid" in line for line in preflight.preflight([*words, "--dry-run"], 64))


def test_a_benchmark_for_vr200_brings_its_memory_clock() -> None:
    """And a typed -1 leaves the clock alone."""
    words = (*SITE, "--recipe", "llama3_8b_pretrain_8gpu_vr200_bf16_config", "--show", "--no-preflight")
    for more, row in (((), "--peak-mem-clk 4752 recipe name"), (("-lmc", "-1"), "--peak-mem-clk -1 flag -lmc")):
        shown = [" ".join(line.split()) for line in launch(*words, *more).stdout.splitlines()]
        assert row in shown


def test_help_among_the_words_is_pointed_out() -> None:
    """A job that prints a help page on every rank is rarely meant."""
    assert "warning: -h among the words: every rank prints run-recipe's help" in preflight.preflight([*GPT, "-h"], 4)[0]


def test_without_the_recipes_there_is_no_preflight_and_asking_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login node with the base installation launches all the same."""
    assert preflight.chosen(None) is preflight.preflight
    assert preflight.chosen(False) is None
    monkeypatch.setattr("trainwright_login.preflight.find_spec", lambda name: None)
    assert preflight.chosen(None) is None
    with pytest.raises(preflight.MissingExtra, match=r"pip install 'trainwright\[preflight\]'") as caught:
        preflight.chosen(True)
    assert caught.value.exit_code == 2
