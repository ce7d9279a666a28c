"""The launch lines that the training entry points' public description prints, options of the cluster among them."""

import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainwright.launch.command_line import split
from trainwright.launch.settings import Settings, effective
from trainwright.launch.slurm_job import render_slurm
from trainwright_login.preflight import preflight

SITE = "--account ACCOUNT --partition PARTITION --container-image"
LLAMA = "--recipe llama32_1b_pretrain_config --mode pretrain --dataset mock"
GPT_OSS = (
    "--dataset openmathinstruct2-thinking dataset.enable_offline_packing=true train.micro_batch_size=1 "
    "checkpoint.pretrained_checkpoint=/checkpoints/gpt-oss-20b"
)
LINES = (
    f"--nodes 1 --gpus-per-node 8 {SITE} /path/to/container.sqsh {LLAMA}",
    f"--nodes 2 --gpus-per-node 8 {SITE} /path/to/container.sqsh --model gpt_oss_20b --mode pretrain --dataset mock",
    f"--nodes 2 --gpus-per-node 8 {SITE} IMAGE --recipe qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config --mode pretrain",
    f"--nodes 1 --gpus-per-node 8 {SITE} IMAGE --mount /checkpoints "
    f"--recipe gpt_oss_20b_sft_8gpu_h100_bf16_config --mode sft {GPT_OSS}",
    f"--nodes 1 --gpus-per-node 1 {SITE} IMAGE --mount /checkpoints "
    f"--recipe gpt_oss_20b_peft_1gpu_h100_bf16_config --mode lora {GPT_OSS}",
    f"--nodes 1 --gpus-per-node 8 {SITE} /path/to/container.sqsh {LLAMA} "
    "-ms 10 -gb 8 -mb 1 --lr 0.0002 --warmup_iters 1 scheduler.lr_decay_iters=10",
    # What a sentence of it adds.
    f"--nodes 1 --gpus-per-node 8 {SITE} IMAGE --no-gpu-resource-request --srun-arg=--mpi=pmix "
    f"--srun-arg=--no-container-mount-home --srun-arg=--container-writable {LLAMA}",
    f"--nodes 1 --gpus-per-node 8 {SITE} IMAGE --mount /data:/inside -lmc -1 {LLAMA}",
    f"--nodes 1 --gpus-per-node 8 {SITE} IMAGE --peak_mem_clk 1980 --submission-dry-run "
    f"--additional-slurm-params 'qos=high;comment=x' {LLAMA}",
)


def settled(line: str) -> tuple[Settings, tuple[str, ...]]:
    """The launcher's part of a line, and what it hands on."""
    typed = split(shlex.split(line))
    return effective(typed, {}, None, cwd=Path("/")), typed.words


@pytest.mark.parametrize("line", LINES)
def test_a_printed_launch_becomes_a_job_that_its_preflight_accepts(line: str) -> None:
    """run-recipe's words arrive whole, and resolve for all ranks of the job."""
    settings, words = settled(line)
    job = render_slurm(settings, words, now=datetime(2026, 1, 1, tzinfo=UTC), token="0000")
    begin = next(place for place, word in enumerate(shlex.split(line)) if word in ("--recipe", "--model"))
    assert list(words) == shlex.split(line)[begin:]
    assert (job.nodes, job.tasks_per_node) == (settings.nodes, settings.gpus_per_node)
    told = preflight(words, job.nodes * job.tasks_per_node)
    assert not told or "qwen3_30b_a3b" in line


def test_a_vr200_benchmark_is_launched_at_its_memory_clock() -> None:
    """Other recipes leave the clock alone, and -1 does so too."""
    vr200 = LINES[2].replace("h100", "vr200").replace("16gpu", "8gpu")
    assert settled(vr200)[0].peak_mem_clk == 4752
    assert settled(f"{vr200} -lmc -1")[0].peak_mem_clk == -1
    assert settled(LINES[2])[0].peak_mem_clk is None
