"""How fast, and in how much memory, is a run's TensorBoard directory read and its report built?

Two directories are made: 5 tags of 200,000 steps (a long run), and 24 tags of 20,000 (what Megatron logs). Each reader
runs in a process of its own, ours and the other in turn, and must find the same scalars. The other is tbparse, used the
way CloudAI does: every tag, sorted by wall time, the last value of each tag and step. Seconds are processor seconds of
reading alone, without imports; memory is the process's peak resident set, imports included. Both verify checksums.

    python benchmarks/report_build.py [--repeats 3] [--other-python PYTHON]

tbparse is no dependency of this project: without it only our own numbers are shown. --other-python names an interpreter
that has it. Read "1/8 of the seconds" as eight times faster; the targets are 8 times and 0.55 of the memory.
"""

import argparse
import hashlib
import json
import random
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

DIRECTORIES = {"5 tags x 200,000 steps": (5, 200_000), "24 tags x 20,000 steps": (24, 20_000)}
LOGGED = (
    "lm loss",
    "iteration-time",
    "memory/mem-reserved-gigabytes",
    "memory/mem-allocated-gigabytes",
    "throughput/tflops/device",
)
TARGET_SPEEDUP, TARGET_MEMORY = 8.0, 0.55


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--other-python", default=sys.executable, metavar="PYTHON", help="an interpreter with tbparse")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        CHILDREN[options.child[0]](Path(options.child[1]))
        return
    has_other = subprocess.run([options.other_python, "-c", "import tbparse"], capture_output=True).returncode == 0
    if not has_other:
        print(f"tbparse is not installed in {options.other_python}: only our own numbers\n")
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, (tags, steps) in DIRECTORIES.items():
            run = Path(scratch) / name.replace(" ", "-")
            make_run(run, tags, steps)
            results[name] = measure(run, options.repeats, options.other_python if has_other else None)
            show(name, results[name])
    print(json.dumps(results))


def measure(run: Path, repeats: int, other_python: str | None) -> dict[str, Any]:
    """Medians over alternating repeats of each reader, and of the whole build."""
    kinds = [("ours", sys.executable), ("ours, wanted tags", sys.executable), ("build", sys.executable)]
    if other_python is not None:
        kinds.insert(0, ("tbparse", other_python))
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind, _ in kinds}
    for _ in range(repeats):
        for kind, python in kinds:
            command = [python, __file__, "--child", kind, str(run)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[kind].append(json.loads(done.stdout.splitlines()[-1]))
    if other_python is not None:
        digests = {one["digest"] for kind in ("tbparse", "ours") for one in found[kind]}
        assert len(digests) == 1, "the readers found different scalars"
    medians = {
        kind: {key: statistics.median(run[key] for run in runs) for key in ("seconds", "megabytes")}
        for kind, runs in found.items()
    }
    return {**medians, "scalars": found["ours"][0]["scalars"]}


def show(name: str, result: dict[str, Any]) -> None:
    print(f"{name}: {result['scalars']:,} scalars")
    for kind, numbers in result.items():
        if kind != "scalars":
            print(f"  {kind:18} {numbers['seconds']:8.2f} s  {numbers['megabytes']:6.0f} MB")
    if "tbparse" in result:
        ours, other = result["ours"], result["tbparse"]
        speedup, memory = other["seconds"] / ours["seconds"], ours["megabytes"] / other["megabytes"]
        print(
            f"  ours beside tbparse: {speedup:.1f} times faster (target {TARGET_SPEEDUP:g}), "
            f"{memory:.2f} of the memory (target {TARGET_MEMORY:g}), the same scalars"
        )
    print()


def make_run(run: Path, tags: int, steps: int) -> None:
    """A run directory of ours: an event file as TensorBoard frames and encodes it, configuration and environment."""
    names = [*LOGGED, *(f"timers/part-{index}" for index in range(tags))][:tags]
    (run / "tb_logs").mkdir(parents=True)
    generator = random.Random(0)
    with (run / "tb_logs" / "events.out.tfevents.1780000000.host.1.0").open("wb") as stream:
        stream.write(record(b"\x09" + struct.pack("<d", 1.78e9) + b"\x1a\x0dbrain.Event:2"))
        for step in range(1, steps + 1):
            stream.writelines(record(scalar(name, step, generator.random())) for name in names)
    (run / "configs").mkdir()
    (run / "configs" / "ConfigContainer.yaml").write_text(json.dumps(CONTAINER))
    (run / "environment.json").write_text(json.dumps(ENVIRONMENT))


def record(payload: bytes) -> bytes:
    """One record of an event file: length, payload, and their masked checksums."""
    from google_crc32c import value

    def masked(data: bytes) -> bytes:
        crc = value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def scalar(tag: str, step: int, number: float) -> bytes:
    """One scalar as a serialised Event."""
    value = bytes([0x0A, len(tag)]) + tag.encode() + b"\x15" + struct.pack("<f", number)
    summary = bytes([0x0A, len(value)]) + value
    varint = bytearray()
    while step > 127:
        varint.append(step & 127 | 128)
        step >>= 7
    varint.append(step)
    return b"\x09" + struct.pack("<d", 1.78e9 + step) + b"\x10" + varint + bytes([0x2A, len(summary)]) + summary


def read_ours(run: Path, wanted: Sequence[str] | None = None) -> None:
    """Child: our reader, every tag or only some."""
    from trainwright.report_schema.parsers.segments import event_files, read_segments

    start = time.process_time()
    segments, damage = read_segments(
        event_files(run / "tb_logs"), lambda tag: tag if wanted is None or tag in wanted else None
    )
    seconds = time.process_time() - start
    assert not damage and len(segments) == 1
    report(seconds, [(tag, series.steps, series.values) for tag, series in segments[0].series.items()])


def read_tbparse(run: Path) -> None:
    """Child: tbparse, as CloudAI calls it."""
    from tbparse import SummaryReader

    start = time.process_time()
    frame = SummaryReader(str(run / "tb_logs"), extra_columns={"wall_time"}).scalars
    frame = frame.sort_values("wall_time").drop_duplicates(["tag", "step"], keep="last")
    seconds = time.process_time() - start
    peak = peak_megabytes()
    groups = [(tag, part.sort_values("step")) for tag, part in frame.groupby("tag")]
    report(seconds, [(tag, part["step"], part["value"]) for tag, part in groups], peak)


def build(run: Path) -> None:
    """Child: the whole report, written."""
    from trainwright.report_schema.parsers import write_run_report

    start = time.process_time()
    built = write_run_report(run)
    report(time.process_time() - start, [("steps", [step.iteration for step in built.steps], [0.0] * len(built.steps))])


def report(seconds: float, scalars: Iterable[tuple[Any, Any, Any]], peak: float | None = None) -> None:
    """Print what a child measured, and a digest of what it found; the digest's own memory does not count."""
    peak = peak_megabytes() if peak is None else peak
    digest, count = hashlib.sha256(), 0
    for tag, steps, values in sorted(scalars, key=lambda series: str(series[0])):
        count += len(steps)
        lines = (f"{int(step)} {float(value)!r}\n" for step, value in zip(steps, values, strict=True))
        digest.update(f"{tag}\n{''.join(lines)}".encode())
    print(json.dumps({"seconds": seconds, "megabytes": peak, "scalars": count, "digest": digest.hexdigest()}))


def peak_megabytes() -> float:
    """Peak resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


CHILDREN = {
    "ours": read_ours,
    "ours, wanted tags": lambda run: read_ours(run, LOGGED),
    "tbparse": read_tbparse,
    "build": build,
}
CONTAINER = {
    "model": {
        "num_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "seq_length": 128,
        "normalization": "RMSNorm",
        "position_embedding_type": "rope",
        "tensor_model_parallel_size": 1,
        "pipeline_model_parallel_size": 1,
        "virtual_pipeline_model_parallel_size": None,
        "context_parallel_size": 1,
        "expert_model_parallel_size": 1,
        "sequence_parallel": False,
    },
    "train": {"micro_batch_size": 1, "global_batch_size": 8},
}
ENVIRONMENT = {
    "run_id": "benchmark",
    "recipe": "benchmark",
    "host": {"name": "host"},
    "device": {"kind": "cpu"},
    "topology": {"world_size": 8, "num_nodes": 1, "ranks_per_node": 8},
    "environment": {},
}

if __name__ == "__main__":
    main()
