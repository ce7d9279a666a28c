"""How long does the plan of a thousand ranks take, beside importing torch and Megatron Core alone?

    python benchmarks/plan.py [--rounds 3] [--recipe NAME]

`run-recipe --dry-run --plan` builds ranks of up to four pipeline stages without memory, so it needs both libraries;
the floor is a process that imports them and does nothing. The ratio, the median over interleaved rounds, says what
planning adds: 1.0 cannot be reached, lower is better, and a plan should take seconds. The arithmetic alone, which
`recipes show` also does on a login node, is timed in this process. The first round is not counted, since it writes
bytecode.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

from trainwright.recipes import Selection, resolve
from trainwright.recipes.communication import stage_communication
from trainwright.recipes.memory import stage_memory
from trainwright.recipes.sizes import vocabulary_of

RECIPE = "deepseek_v3_pretrain_1024gpu_h100_bf16_config"
FLOOR = "import torch; from megatron.core.models.hybrid.hybrid_model import HybridModel"


def timed(command: list[str]) -> float:
    """Seconds that a process takes."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def arithmetic(recipe: str) -> float:
    """Seconds to resolve a recipe and count the bytes of all its stages."""
    began = time.perf_counter()
    resolved = resolve(Selection(recipe=recipe), [], world_size=None, device="cuda")
    vocabulary = vocabulary_of(resolved)
    stage_memory(resolved, vocabulary)
    stage_communication(resolved, vocabulary)
    return time.perf_counter() - began


def main() -> None:
    """Print seconds and the ratio, how to read it, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--recipe", default=RECIPE)
    arguments = parser.parse_args()
    plan = [sys.executable, "-m", "trainwright_trainer", "--dry-run", "--plan", "--recipe", arguments.recipe]
    pairs = [(timed(plan), timed([sys.executable, "-c", FLOOR])) for _ in range(arguments.rounds + 1)][1:]
    seconds, floor = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(one / other for one, other in pairs)
    counted = statistics.median(arithmetic(arguments.recipe) for _ in range(5))
    print(f"plan of {arguments.recipe}: {seconds:.1f} s, imports alone {floor:.1f} s, arithmetic alone {counted:.3f} s")
    print(f"\nA plan took {ratio:.2f} times as long as the imports that it cannot do without; lower is better.")
    print(json.dumps({"benchmark": "plan", "seconds": seconds, "floor": floor, "ratio": ratio, "arithmetic": counted}))


if __name__ == "__main__":
    main()
