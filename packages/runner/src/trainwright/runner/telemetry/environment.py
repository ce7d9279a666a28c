"""`environment.json`: on what a session ran."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.runner.distributed import place
from trainwright.runner.telemetry.redaction import redact

if TYPE_CHECKING:
    from trainwright.recipes import ResolvedRun
    from trainwright.runner.devices import Device

FILE = "environment.json"
LAUNCH_FILE = "launch.json"

DISTRIBUTIONS = (
    "torch", "megatron-core", "transformer-engine", "numpy", "transformers", "tensorboard", "triton",
    "trainwright-trainer", "trainwright-runner", "trainwright-datasets", "trainwright-recipes",
    "trainwright-metrics-audit", "trainwright-report-schema",
)  # fmt: skip

# What can change how a run behaves or is laid out; the rest of an environment is nobody's business.
_KEPT_PREFIXES = (
    "NCCL_", "GLOO_", "UCX_", "FI_", "NVSHMEM_", "OMP_", "MKL_", "KMP_", "SLURM_", "MASTER_", "LOCAL_", "GROUP_",
    "ROLE_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "NVTE_", "TRITON_", "TORCH_", "TORCHELASTIC_", "PYTORCH_", "HF_",
    "TRANSFORMERS_", "TOKENIZERS_", "WANDB_", "TRAINWRIGHT_",
)  # fmt: skip
_KEPT_NAMES = ("RANK", "WORLD_SIZE", "CLIQUE_SIZE", "PYTHONHASHSEED", "PYTHONPATH", "VIRTUAL_ENV")


def describe(
    resolved: ResolvedRun, device: Mapping[str, Any], run_dir: Path, *, run_id: str, session_id: str
) -> dict[str, Any]:
    """What `environment.json` says, in JSON types; `device` as `describe_device` gives it. Secrets are redacted."""
    return {
        "run_id": run_id,
        "session_id": session_id,
        "recipe": resolved.recipe,
        "mode": resolved.mode,
        "canonical": resolved.canonical,
        "canonical_differences": list(resolved.canonical_differences),
        "host": {"name": socket.gethostname(), "platform": platform.platform(), "cpu_count": os.cpu_count()},
        "device": dict(device),
        "topology": topology(resolved),
        "versions": versions(),
        "git": checkout(Path(__file__).parent),
        "environment": relevant(os.environ, resolved.config.env_vars),
        "launch": launch(run_dir),
    }


def write(run_dir: Path, description: Mapping[str, Any]) -> None:
    """Put `environment.json` into the run directory, in place of the one of an earlier session.

    Raises:
        OSError: it cannot be written.
    """
    from trainwright.runner.directory import write_atomically

    write_atomically(run_dir / FILE, json.dumps(description, indent=2, allow_nan=False) + "\n")


def num_nodes(world_size: int) -> int:
    """Machines that the ranks lie on, by what their launcher told this one."""
    return -(-world_size // place().ranks_per_node)


def topology(resolved: ResolvedRun) -> dict[str, int | None]:
    """How the model and its data lie over the ranks."""
    model, nodes = resolved.config.model, num_nodes(resolved.world_size)
    return {
        "world_size": resolved.world_size,
        "num_nodes": nodes,
        "ranks_per_node": -(-resolved.world_size // nodes),
        "tensor_model_parallel_size": model.tensor_model_parallel_size,
        "pipeline_model_parallel_size": model.pipeline_model_parallel_size,
        "virtual_pipeline_model_parallel_size": model.virtual_pipeline_model_parallel_size,
        "context_parallel_size": model.context_parallel_size,
        "expert_model_parallel_size": model.expert_model_parallel_size,
        "expert_tensor_parallel_size": model.expert_tensor_parallel_size,
        "data_parallel_size": resolved.data_parallel_size,
    }


def describe_device(device: Device) -> dict[str, Any]:
    """Kind, name, and memory in bytes of the logging rank's device."""
    if device.kind == "cuda":
        import torch

        properties = torch.cuda.get_device_properties(device.torch_device)
        return {
            "kind": "cuda",
            "name": properties.name,
            "memory_bytes": properties.total_memory,
            "cuda": torch.version.cuda,
        }
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"kind": "cpu", "name": _cpu_name(), "memory_bytes": memory}


def versions() -> dict[str, str]:
    """Python's and those of the installed packages that a run depends on."""
    found = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def relevant(environment: Mapping[str, str], named: Mapping[str, str]) -> dict[str, str]:
    """The variables of the known families and those that the configuration sets, sorted, secrets redacted."""
    kept = {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(_KEPT_PREFIXES) or name in _KEPT_NAMES or name in named
    }
    return redact(kept)


def launch(run_dir: Path) -> Any:
    """What the launcher left in `launch.json`, secrets redacted; null where there is none."""
    try:
        said = json.loads((run_dir / LAUNCH_FILE).read_text(encoding="utf-8"), parse_constant=str)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return {"unreadable": str(error)}
    return redact({"launch": said})["launch"]


@functools.cache
def checkout(folder: Path) -> dict[str, Any] | None:
    """Commit of the checkout that `folder` is a tracked part of, and whether tracked files differ; else null."""
    if not _git(folder, "ls-files", "--", "."):
        return None
    commit = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)} if commit else None


def _git(folder: Path, *words: str) -> str | None:
    """What git prints; null where there is no git, no checkout, or no answer within seconds."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip()


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or f"{platform.machine()} ({sys.platform})"
