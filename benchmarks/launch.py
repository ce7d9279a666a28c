"""How long does the launcher take to answer, beside Python alone and beside importing NeMo-Run?

    python benchmarks/launch.py [--rounds 5]

Each command is a process of its own. `--help`, an argument error, `--show` and `--render sbatch` are for reading, and
should answer before anybody wonders: they are measured beside `python -c pass`, and beside
`python -c 'import nemo_run'`, which is what they would cost if the launcher loaded it. `--dry-run` cannot do without
NeMo-Run: its ratio to the bare import says what the launcher adds, and should stay below 1.2. The preflight, which
resolves the recipe, has a line of its own. Rounds are interleaved, so that a busy machine slows all alike; the first is
not counted, since it writes bytecode.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PYTHON, NEMO_RUN = "python -c pass", "python -c 'import nemo_run'"
SITE = "--nodes 2 --gpus-per-node 8 --account a --partition p --container-image /images/x.sqsh"
GPT = "--recipe vanilla_gpt_pretrain_config --dataset mock -tp 2 model.sequence_parallel=true"
AT_ONCE = {
    "--help": "--help",
    "an argument error": f"{SITE} {GPT} --time soon",
    "--show": f"{SITE} {GPT} --show --no-preflight",
    "--render sbatch": f"{SITE} {GPT} --render sbatch --no-preflight",
    "--render sbatch, with preflight": f"{SITE} {GPT} --render sbatch --preflight",
}
DRY_RUN = "--dry-run"
MOST = 1.2


def commands() -> dict[str, list[str]]:
    """What is measured, by name."""
    trainwright = str(Path(sys.executable).with_name("trainwright"))
    ours = {**AT_ONCE, DRY_RUN: f"{SITE} {GPT} --dry-run --no-preflight"}
    return {
        PYTHON: [sys.executable, "-c", "pass"],
        NEMO_RUN: [sys.executable, "-c", "import nemo_run"],
        **{name: [trainwright, "launch", *shlex.split(words)] for name, words in ours.items()},
    }


def timed(command: list[str], place: str) -> float:
    """Seconds that a process takes; one that ends otherwise than it should measures nothing."""
    # Nothing of a site's or a user's own: no variables of Slurm's, no cluster file, a NeMo-Run home that goes away.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "CONTAINER_", "XDG_"))}
    began = time.perf_counter()
    done = subprocess.run(
        command, env={**kept, "NEMORUN_HOME": place, "HOME": place}, cwd=place, capture_output=True, text=True
    )
    seconds = time.perf_counter() - began
    assert done.returncode == (2 if "soon" in command else 0), done.stderr
    return seconds


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds of every command in every counted round."""
    seconds: dict[str, list[float]] = {name: [] for name in commands()}
    for index in range(rounds + 1):
        for name, command in commands().items():
            with tempfile.TemporaryDirectory() as place:
                taken = timed(command, place)
            if index:
                seconds[name].append(taken)
    return seconds


def ratio(seconds: dict[str, list[float]], name: str, beside: str) -> float:
    """The median over the rounds."""
    return statistics.median(one / other for one, other in zip(seconds[name], seconds[beside], strict=True))


def main() -> None:
    """Print seconds and ratios, how to read them, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    seconds = measure(parser.parse_args().rounds)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    width = max(map(len, medians))
    print(f"{'':<{width}}  {'seconds':>8}  {'x python':>8}  {'x nemo_run':>10}")
    for name, median in medians.items():
        beside = (ratio(seconds, name, PYTHON), ratio(seconds, name, NEMO_RUN))
        print(f"{name:<{width}}  {median:>8.2f}  {beside[0]:>8.1f}  {beside[1]:>10.2f}")
    added = ratio(seconds, DRY_RUN, NEMO_RUN)
    print(f"\n{DRY_RUN} takes {added:.2f} times the import of nemo_run alone; lower is better, 1.0 is the floor,")
    print(f"and above {MOST} the launcher has grown slow. The others should stay far below it, and below 0.5 s.")
    print(json.dumps({"benchmark": "launch", "seconds": medians, "dry_run_over_import": added}))


if __name__ == "__main__":
    main()
