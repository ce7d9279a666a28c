"""`trainwright demo`: the main job from text to an accepted run, in the commands that anyone would type."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

NOT_THE_LIBRARY = ("dist-packages", "site-packages", "test", "tests")
"""Folders below the standard library that hold something else; without them its source is some 12 MB of text."""

STEPS = 360
# vanilla_gpt is GPT-2 small; these words make it a model that learns Python's letters within two minutes on two cores.
SHRUNK = f"""
-ms {STEPS} -gb 8 -mb 8 -sl 256 --lr 3e-3 --min_lr 3e-4 --warmup_iters 20
model.num_layers=2 model.hidden_size=128 model.ffn_hidden_size=512 model.num_attention_heads=4
model.position_embedding_type=rope logger.log_interval=20 validation.eval_interval=null
"""


class DemoError(Exception):
    """The demo cannot begin, or one of its commands failed."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Step:
    """One public command, and why it is run."""

    why: str
    command: str


def demo(
    workdir: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A new or empty folder; by default runs/demo-<time>.")
    ] = None,
) -> None:
    """Show the whole path once, on this machine.

    Trains a small GPT and has the run accepted; every command is shown as it runs. Two ranks with tensor and sequence
    parallelism learn the source text of Python's standard library, byte by byte; the session log is audited and the
    report built, shown and drawn. Needs the training side on this machine.
    """
    workdir = workdir or Path("runs") / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    _refuse_a_used_folder(workdir)
    _need_the_report_extra()
    programs = {name: _find(name) for name in ("trainwright", "trainwright-data", "run-recipe")}
    run = workdir / "run"
    steps = plan(workdir, run, Path(sysconfig.get_path("stdlib")))
    for number, step in enumerate(steps, start=1):
        print(f"\n[{number}/{len(steps)}] {step.why}\n$ {_shown(step.command)}", flush=True)
        program, *words = shlex.split(step.command)
        code = subprocess.run([programs[program], *words], check=False).returncode
        if code:
            raise DemoError(f"the demo stops here: {program} ended with exit code {code}", 1)
    print(_farewell(run, workdir))


def plan(workdir: Path, run: Path, corpus: Path) -> list[Step]:
    """The commands of the demo, in order."""
    data, picture, run_dir = (shlex.quote(str(path)) for path in (workdir / "data/stdlib", workdir / "loss.png", run))
    without = " ".join(f"--exclude {name}" for name in NOT_THE_LIBRARY)
    prepare = f"trainwright-data prepare {shlex.quote(str(corpus))} --glob '*.py' {without} --output-prefix {data}"
    launch = f"""trainwright launch --executor local --nproc-per-node 2
        --recipe vanilla_gpt_pretrain_config --mode pretrain --dataset megatron-indexed --run-dir {run_dir}
        --device cpu -tp 2 model.sequence_parallel=true {SHRUNK}
        tokenizer.tokenizer_type=ByteLevelTokenizer dataset.data_path={data}"""
    return [
        Step("Turn source text into tokens: one for each byte.", prepare),
        Step("Train a GPT on them: two ranks, tensor and sequence parallelism.", " ".join(launch.split())),
        Step(
            "Is the session log complete and consistent, and did the run reach its last step?",
            f"trainwright audit {run_dir} --expect-step {STEPS} --format text",
        ),
        Step("Build the report that any tool can read.", f"trainwright report build {run_dir}"),
        Step("Read it.", f"trainwright report show {run_dir}"),
        Step("Draw it.", f"trainwright report plot {run_dir} --output {picture}"),
    ]


def _refuse_a_used_folder(workdir: Path) -> None:
    if workdir.exists() and (not workdir.is_dir() or any(workdir.iterdir())):
        raise DemoError(f"--workdir {workdir}: give a new or an empty folder; nothing in this one was touched", 2)


def _need_the_report_extra() -> None:
    if find_spec("matplotlib") is None:
        raise DemoError("the demo ends with a picture, which needs an extra: pip install 'trainwright[report]'", 2)


def _find(program: str) -> str:
    """The program on PATH, else beside the Python that runs this."""
    found = shutil.which(program) or shutil.which(program, path=str(Path(sys.executable).parent))
    if found is None:
        raise DemoError(
            f"{program} is not on PATH: the demo trains on this machine, so install the training side too, with "
            "`pip install trainwright-trainer 'trainwright[report]'`",
            2,
        )
    return found


def _shown(command: str) -> str:
    """The command as a line to paste; under `uv run` the reader's shell needs that word too."""
    return f"uv run {command}" if "UV_RUN_RECURSION_DEPTH" in os.environ else command


def _farewell(run: Path, workdir: Path) -> str:
    further = {
        f"tensorboard --logdir {shlex.quote(str(run / 'tb_logs'))}": "its TensorBoard",
        "trainwright recipes list": "what else there is to train",
        "run-recipe --recipe llama32_1b_pretrain_config --dataset mock --dry-run": "look before you train",
    }
    lines = [f"The run is accepted. Everything of it is in {run}; its loss curve is {workdir / 'loss.png'}."]
    lines += ["Three commands to try next:", *(f"  {_shown(line)}  # {why}" for line, why in further.items())]
    return "\n" + "\n".join(lines)
