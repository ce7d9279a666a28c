"""How long does `trainwright recipes list` take, beside Python alone and beside importing what it cannot do without?

    python benchmarks/recipes_list.py [--rounds 5]

Each command is a process of its own. The floor imports typer, which reads the words, and pydantic, whose classes the
tables of recipes fill. The ratio to it, the median over interleaved rounds, says what reading and printing some four
hundred rows adds. The whole should answer in less than 0.6 seconds on a quiet machine. `show` has a line beside it: it
resolves one recipe and estimates its memory. The first round is not counted, since it writes bytecode.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

PYTHON, FLOOR, LIST = "python -c pass", "import typer, pydantic", "recipes list"
SHOWN = "deepseek_v3_pretrain_1024gpu_h100_bf16_config"
MOST = 0.6


def commands() -> dict[str, list[str]]:
    """What is measured, by name."""
    trainwright = str(Path(sys.executable).with_name("trainwright"))
    return {
        PYTHON: [sys.executable, "-c", "pass"],
        FLOOR: [sys.executable, "-c", "import typer, pydantic; pydantic.BaseModel; typer.Typer"],
        LIST: [trainwright, "recipes", "list"],
        "recipes list --family llama": [trainwright, "recipes", "list", "--family", "llama"],
        f"recipes show {SHOWN}": [trainwright, "recipes", "show", SHOWN],
    }


def timed(command: list[str]) -> float:
    """Seconds that a process takes."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    """Print seconds and ratios, how to read them, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    seconds: dict[str, list[float]] = {name: [] for name in commands()}
    for index in range(rounds + 1):
        for name, command in commands().items():
            taken = timed(command)
            if index:
                seconds[name].append(taken)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    width = max(map(len, medians))
    for name, median in medians.items():
        beside = statistics.median(one / other for one, other in zip(seconds[name], seconds[FLOOR], strict=True))
        print(f"{name:<{width}}  {median:>6.2f} s  {beside:>6.2f} x the floor")
    print(f"\n`{LIST}` took {medians[LIST]:.2f} s; it should stay below {MOST} s on a quiet machine, lower is better.")
    print(json.dumps({"benchmark": "recipes_list", "seconds": medians, "most": MOST}))


if __name__ == "__main__":
    main()
