"""Run directories of other frameworks, written with TensorBoard's writer from real series (data/MANIFEST.md)."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from tests.report_schema.report_events import text_point, write_events

DATA = Path(__file__).parent / "data"
MEGATRON_CASE = DATA / "megatron_lm" / "gpt3_mcore_tp4_pp1_resume_torch_dist"

type Series = dict[str, dict[int, float]]

# Arguments that Megatron-LM sets itself for the resume case; its model_config.yaml holds only those that were typed.
_SET_BY_MEGATRON = {
    "world_size": 8,
    "context_parallel_size": 1,
    "expert_model_parallel_size": 1,
    "expert_tensor_parallel_size": 4,
    "virtual_pipeline_model_parallel_size": None,
    "sequence_parallel": False,
    "ffn_hidden_size": 2048,
    "kv_channels": 64,
    "num_query_groups": 1,
    "group_query_attention": False,
    "normalization": "LayerNorm",
    "position_embedding_type": "learned_absolute",
    "num_experts": None,
    "moe_router_topk": 2,
    "moe_ffn_hidden_size": None,
    "moe_grouped_gemm": False,
    "fp8": None,
    "fp8_recipe": "delayed",
    "profile": False,
    "profile_step_start": 10,
    "profile_step_end": 12,
}


def golden_series(path: Path, first: int = 0, last: int = 10**9) -> Series:
    """A Megatron-LM golden file as tag -> step -> value; reserved memory and throughput are made up.

    The published metrics have no ``mem-reserved-bytes``: here it is 1.15 times what is allocated. Nor have they
    ``throughput``: here it is 40 over the time.
    """
    document = json.loads(path.read_text())
    series = {
        tag: {
            int(step): value
            for step, value in metric["values"].items()
            if value != "nan" and first <= int(step) <= last
        }
        for tag, metric in document.items()
    }
    series["mem-reserved-bytes"] = {step: 1.15 * value for step, value in series["mem-allocated-bytes"].items()}
    series["throughput"] = {step: 40 / value for step, value in series["iteration-time"].items()}
    return series


def megatron_arguments(**changes: Any) -> dict[str, Any]:
    """The arguments of the resume case, by their name in the program."""
    typed = yaml.safe_load((MEGATRON_CASE / "model_config.yaml").read_text())["MODEL_ARGS"]
    named = {key.removeprefix("--").replace("-", "_"): value for key, value in typed.items()}
    return {**named, **_SET_BY_MEGATRON, **changes}


def megatron_points(series: Series, arguments: Mapping[str, Any], start: int, samples_per_step: int = 32) -> list[Any]:
    """What Megatron-LM logs: its arguments as text at the first step, then each metric, some by samples too."""
    points: list[Any] = [text_point(name, start, str(value)) for name, value in arguments.items()]
    for step in sorted({step for values in series.values() for step in values}):
        for tag, values in series.items():
            if step in values:
                points.append((tag, step, values[step]))
                if tag == "lm loss":
                    points.append((f"{tag} vs samples", step * samples_per_step, values[step]))
    return points


def megatron_restart_run(directory: Path) -> Path:
    """The real resume case: 60 iterations, then a second process from 51 on."""
    arguments = megatron_arguments()
    first = golden_series(MEGATRON_CASE / "golden_values_lts_dgx_a100.json", last=60)
    second = golden_series(MEGATRON_CASE / "golden_values_lts_dgx_a100_2nd.json", first=51)
    write_events(directory / "tensorboard", megatron_points(first, arguments, 0), name="1780000000")
    write_events(directory / "tensorboard", megatron_points(second, arguments, 50), name="1780003600")
    return directory


def bridge_series() -> Series:
    """The published Megatron Bridge series: times in seconds; memory is one number of the run."""
    document = json.loads((DATA / "megatron_bridge" / "test_deepseek_recipes_pretrain_fsdp_gb200.json").read_text())
    steps = {int(step) + 1: values for step, values in document.items() if step.isdecimal()}
    return {
        "lm loss": {step: values["lm loss"] for step, values in steps.items()},
        "iteration-time": {step: values["elapsed time per iteration (ms)"] / 1000 for step, values in steps.items()},
        "memory/mem-reserved-gigabytes": dict.fromkeys(steps, document["max_alloc"]),
        "memory/mem-allocated-gigabytes": dict.fromkeys(steps, document["alloc"]),
        "throughput/tflops/device": {step: values["GPU utilization"] for step, values in steps.items()},
    }


def bridge_run(directory: Path, config: str, *, attempt: str = "x_1780000000", time: str = "1780000000") -> Path:
    """A Megatron Bridge run as NeMo-Run lays it out, with the series above and a configuration of ``data``."""
    job = directory / "experiments" / attempt / attempt / "x"
    (job / "configs").mkdir(parents=True)
    shutil.copy(DATA / "megatron_bridge" / f"{config}.yaml", job / "configs" / "ConfigContainer.yaml")
    series = bridge_series()
    points = [(tag, step, values[step]) for step in series["lm loss"] for tag, values in series.items()]
    write_events(job / "tb_logs", points, name=time)
    return directory


def nemo_series() -> Series:
    """NeMo's tags, counting from 0; loss, time and memory are those of Megatron-LM's 7B case."""
    series = golden_series(DATA / "megatron_lm" / "gpt3_7b_tp4_pp1_memory_speed" / "golden_values_dev_dgx_h100.json")
    times = series["iteration-time"]
    return {
        "reduced_train_loss": {step - 1: value for step, value in series["lm loss"].items()},
        # Every second time was published: the step before gets the same.
        "train_step_timing in s": {
            step - 1: times[step + step % 2] for step in series["lm loss"] if step + step % 2 in times
        },
        "max_memory_reserved": {step - 1: value for step, value in series["mem-reserved-bytes"].items()},
        "max_memory_allocated": {step - 1: value for step, value in series["mem-allocated-bytes"].items()},
        "TFLOPS_per_GPU": {step - 1: value for step, value in series["throughput"].items()},
    }


def nemo_run(directory: Path, series: Series | None = None) -> Path:
    """A NeMo run directory."""
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(DATA / "nemo" / "nemo_config.json", directory)
    series = nemo_series() if series is None else series
    steps = sorted({step for values in series.values() for step in values})
    points = [(tag, step, values[step]) for step in steps for tag, values in series.items() if step in values]
    write_events(directory / "tb_logs" / "default", points)
    return directory
