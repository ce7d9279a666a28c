"""How fast is the audit beside merely parsing the log?

    python benchmarks/audit.py [--records 100000] [--pairs 9] [RUN_DIRECTORY]

Prints records/s of ``summarize``, records/s of a bare ``for line in f: json.loads(line)`` over the same file, and
their ratio; the median over interleaved pairs, so that a busy machine slows both. 1.0 would mean that the checks cost
nothing; at least 0.6 is the aim: checking every field may cost two thirds of what parsing costs, not more.
Without a directory it makes a log of its own, one train window a record.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainwright.metrics_audit.audit import summarize

TOKENS_PER_UPDATE = 64 * 4096


def manifest() -> dict[str, Any]:
    """Return a manifest of one session, with the numbers of a small run."""
    return {
        "schema_version": 1,
        "run_id": "llama32-1b-benchmark",
        "created_at": "2026-11-30T09:00:00Z",
        "sessions": [
            {
                "session_id": "0001-bench",
                "started_at": "2026-11-30T09:00:00Z",
                "start": {"step": 0, "tokens": 0, "skipped_updates": 0},
                "recipe": {
                    "name": "llama32_1b_pretrain_config",
                    "mode": "pretrain",
                    "batch_size": 16,
                    "seq_len": 4096,
                    "gradient_accumulation_steps": 4,
                    "qk_clip_threshold": 100.0,
                },
                "hardware": {"device": "cuda", "world_size": 8, "nodes": 1},
                "optimizers": ["adam"],
            }
        ],
    }


def window(step: int, random_numbers: random.Random) -> dict[str, Any]:
    """Return the train record of one successful update, with digits as a real run has them."""
    seconds = 1.9 + random_numbers.random() / 10
    tokens = step * TOKENS_PER_UPDATE
    return {
        "event": "train",
        "run_id": "llama32-1b-benchmark",
        "session_id": "0001-bench",
        "time": 1796029200.0 + step * 2 + random_numbers.random(),
        "step": step,
        "updates": 1,
        "skipped_updates": 0,
        "attempted_updates": 1,
        "tokens": TOKENS_PER_UPDATE,
        "train_seconds": seconds,
        "loss": 2.0 + random_numbers.random(),
        "learning_rates": {"default": 3e-4 * random_numbers.random()},
        "grad_norm": random_numbers.random(),
        "grad_norm_max": 1.0 + random_numbers.random(),
        "nonfinite_grad_norms": 0,
        "gradient_clipped_fraction": float(random_numbers.random() < 0.1),
        "qk_clip": {
            "threshold": 100.0,
            "max_logit": 50 * random_numbers.random(),
            "clipped_head_updates": 0,
            "observed_head_updates": 512,
        },
        "session": {
            "elapsed_seconds": step * 2.05,
            "tokens": tokens,
            "tokens_per_second": tokens / (step * 2.05),
            "profiling_seconds": 0.0,
        },
        "memory": {"allocated_bytes": 61203283968 + step, "reserved_bytes": 70011322368},
        "total": {"step": step, "tokens": tokens, "skipped_updates": 0},
    }


def write_log(run_directory: Path, records: int) -> None:
    """Write a conforming log of ``records`` windows, without the fsync that makes the real writer slow to repeat."""
    (run_directory / "run.json").write_text(json.dumps(manifest()), encoding="utf-8")
    random_numbers = random.Random(0)
    with (run_directory / "metrics.jsonl").open("w", encoding="utf-8") as file:
        for step in range(1, records + 1):
            file.write(json.dumps(window(step, random_numbers)) + "\n")


def parse_only(run_directory: Path) -> int:
    """The yardstick: parse every line, check nothing, keep nothing. Returns the number of lines."""
    records = 0
    with (run_directory / "metrics.jsonl").open(encoding="utf-8") as file:
        for line in file:
            json.loads(line)
            records += 1
    return records


def seconds_of(work: Callable[[], object]) -> float:
    """Return the wall seconds that ``work`` takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    """Run the benchmark and print its rates and their ratio."""
    parser = argparse.ArgumentParser(description="Audit speed beside bare JSON parsing.")
    parser.add_argument("run_directory", nargs="?", type=Path, help="a finished run (default: a log made here)")
    parser.add_argument("--records", type=int, default=100_000, help="records of the log made here")
    parser.add_argument("--pairs", type=int, default=9, help="interleaved measurements of each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run_directory = options.run_directory or Path(scratch)
        if options.run_directory is None:
            write_log(run_directory, options.records)
        records = parse_only(run_directory)
        pairs = [
            (seconds_of(lambda: summarize(run_directory)), seconds_of(lambda: parse_only(run_directory)))
            for _ in range(options.pairs)
        ]
    audit_rate = records / statistics.median(audit for audit, _ in pairs)
    parse_rate = records / statistics.median(parse for _, parse in pairs)
    ratio = statistics.median(parse / audit for audit, parse in pairs)
    print(f"audit       {audit_rate:12,.0f} records/s")
    print(f"json.loads  {parse_rate:12,.0f} records/s")
    print(f"ratio       {ratio:12.2f}  (aim: at least 0.60; median of {options.pairs} pairs, {records:,} records)")


if __name__ == "__main__":
    main()
