"""How long from the command to the end of the first update, and where does the time go?

    python benchmarks/start_up.py [--pairs 5]

Starts `run-recipe` on one rank with a tiny model and mock data, and splits the time: the interpreter, imports (by the
package that asked for them), resolving, coming up, building the model and the data, the first update. The floor is a
process that only imports torch and Megatron Core's HybridModel, which no run can do without. A run begins twice, the
second time with its recipe's variables; the first is part of what is measured. The ratio printed is
start-up over floor, the median over interleaved pairs, so that a busy machine slows both; 1.0 cannot be reached, and
what stands between is ours to shorten. Bytecode is compiled and warm after the first, uncounted pair.
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
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import CodeType

WORDS = shlex.split("""
    --recipe vanilla_gpt_pretrain_config --dataset mock --device cpu -ms 1 -gb 1 -mb 1 -sl 64 --warmup_iters 0
    model.num_layers=2 model.hidden_size=64 model.num_attention_heads=4 validation.eval_interval=null
""")
FLOOR = "import torch; from megatron.core.models.hybrid.hybrid_model import HybridModel"
# Where a phase begins and ends: the function that is the phase.
PHASES = {
    ("run_recipe.py", "_resolve"): "resolve the words",
    ("run.py", "come_up"): "device and process groups",
    ("build.py", "build_trainer"): "build model and optimizer",
    ("build.py", "build_data"): "build data",
    ("step.py", "train_step"): "first update",
}
IMPORT = ("<frozen importlib._bootstrap>", "_find_and_load")
OURS = "import our own modules"
STARTED = "START_UP_BEGAN"


def trace(finish: Callable[[dict[str, float]], None]) -> None:
    """Time this process from STARTED on, by phase and import, and call `finish` when the first update is done.

    `sys.monitoring` tells when the few functions above start and end; every other function is switched off at its
    first call, so that the tracing costs next to nothing.
    """
    seconds: dict[str, float] = defaultdict(float)
    stack: list[str] = []
    last = float(os.environ[STARTED])

    def key_of(code: CodeType) -> tuple[str, str]:
        name = code.co_filename if code.co_filename.startswith("<") else Path(code.co_filename).name
        return name, code.co_qualname

    def doing() -> str:
        imports = [label for label in stack if label.startswith("import ")]
        # What a module of ours imports is charged to the package it asked for.
        asked_for = [label for label in imports if label != OURS]
        return [*asked_for, *imports, *stack[-1:], "between phases"][0]

    def tick() -> None:
        nonlocal last
        now = time.time()
        seconds[doing()] += now - last
        last = now

    def on_start(code: CodeType, _offset: int) -> object:
        key = key_of(code)
        if key != IMPORT and key not in PHASES:
            return sys.monitoring.DISABLE
        tick()
        package = str(sys._getframe(1).f_locals["name"]).partition(".")[0] if key == IMPORT else ""
        stack.append(PHASES.get(key) or (OURS if package.startswith("trainwright") else f"import {package}"))
        return None

    def on_end(code: CodeType, *_rest: object) -> object:
        key = key_of(code)
        if key != IMPORT and key not in PHASES:
            return sys.monitoring.DISABLE
        tick()
        ended = stack.pop()
        if ended == PHASES["step.py", "train_step"]:
            finish(seconds)
        return None

    def on_unwind(code: CodeType, *_rest: object) -> None:
        if key_of(code) == IMPORT and stack:
            tick()
            stack.pop()

    seconds["interpreter, twice, and resolving the words the first time"] = time.time() - last
    last = time.time()
    tool, events = sys.monitoring.PROFILER_ID, sys.monitoring.events
    sys.monitoring.use_tool_id(tool, "start_up")
    sys.monitoring.register_callback(tool, events.PY_START, on_start)
    sys.monitoring.register_callback(tool, events.PY_RETURN, on_end)
    sys.monitoring.register_callback(tool, events.PY_UNWIND, on_unwind)
    sys.monitoring.set_events(tool, events.PY_START | events.PY_RETURN | events.PY_UNWIND)


def child(target: Path, run_dir: str) -> None:
    """One traced run; its times go to `target`."""

    def finish(seconds: dict[str, float]) -> None:
        target.write_text(json.dumps(seconds))
        os._exit(0)

    trace(finish)
    from trainwright_trainer.run_recipe import main

    # As the command's own words: it then begins once more with the recipe's variables, and so does this.
    sys.argv[1:] = [*WORDS, "--run-dir", run_dir]
    sys.exit(main())


def timed(command: list[str]) -> float:
    """Seconds that a process takes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", STARTED: repr(time.time())}
    began = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure(pairs: int) -> tuple[list[float], list[float], list[dict[str, float]]]:
    """Seconds of each start-up and of each floor, and each start-up by phase."""
    start_ups, floors, splits = [], [], []
    for index in range(pairs + 1):
        with tempfile.TemporaryDirectory() as scratch:
            times = Path(scratch) / "times.json"
            command = [sys.executable, __file__, "--child", str(times), str(Path(scratch) / "run")]
            pair = timed(command), timed([sys.executable, "-c", FLOOR])
            split = json.loads(times.read_text())
        if index:
            start_ups.append(pair[0])
            floors.append(pair[1])
            splits.append(split)
    return start_ups, floors, splits


def main() -> None:
    """Print where the time goes, the ratio, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--child", nargs=2, metavar=("TIMES", "RUN_DIR"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(Path(options.child[0]), options.child[1])
    start_ups, floors, splits = measure(options.pairs)
    names = sorted({name for split in splits for name in split})
    parts = {name: statistics.median(split.get(name, 0.0) for split in splits) for name in names}
    for name, seconds in sorted(parts.items(), key=lambda part: -part[1]):
        if seconds >= 0.01:
            print(f"{seconds:7.2f} s  {name}")
    ratio = statistics.median(start / floor for start, floor in zip(start_ups, floors, strict=True))
    total, floor = statistics.median(start_ups), statistics.median(floors)
    print(f"{total:7.2f} s  from the command to the end of the first update")
    print(f"{floor:7.2f} s  floor: a process that imports torch and HybridModel")
    print(f"{ratio:7.2f}    start-up over floor; lower is better, 1.0 is the floor")
    print(json.dumps({"benchmark": "start_up", "seconds": total, "floor_seconds": floor, "ratio": ratio}))


if __name__ == "__main__":
    main()
