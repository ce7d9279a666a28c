"""The command lines with which users come from the public training launcher of Megatron Bridge.

Each parses; it resolves to what it says, or answers that its recipe or dataset is not available yet.
"""

import shlex
from operator import attrgetter

import pytest

from trainwright.recipes import ConfigError, ResolvedRun, resolve
from trainwright.recipes.words import parse

LLAMA = "--recipe llama32_1b_pretrain_config --mode pretrain"
SFT = "--recipe llama32_1b_sft_config --mode sft"

AVAILABLE = {
    f"{LLAMA} --dataset mock": {"dataset.kind": "mock", "model.num_layers": 16},
    f"{LLAMA} --dataset mock --dry-run logger.save_config_filepath=/tmp/config.yaml": {
        "logger.save_config_filepath": "/tmp/config.yaml"
    },
    f"{LLAMA} --dataset mock -ms 10 -gb 8 -mb 1 --lr 0.0002 --warmup_iters 1 scheduler.lr_decay_iters=10": {
        "train.train_iters": 10,
        "train.global_batch_size": 8,
        "train.micro_batch_size": 1,
        "optimizer.lr": 0.0002,
        "scheduler.lr_warmup_iters": 1,
        "scheduler.lr_decay_iters": 10,
    },
    f"{LLAMA} --dataset megatron-indexed dataset.data_path=/data/dclm/dclm_01_01_text_document": {
        "dataset.kind": "megatron-indexed",
        "dataset.data_path": "/data/dclm/dclm_01_01_text_document",
    },
    f"{LLAMA} --dataset megatron-indexed 'dataset.data_path=[/data/dclm/part_1,/data/dclm/part_2]' "
    "dataset.path_to_cache=/shared/cache": {
        "dataset.data_path": ["/data/dclm/part_1", "/data/dclm/part_2"],
        "dataset.path_to_cache": "/shared/cache",
    },
    "--recipe vanilla_gpt_pretrain_config --mode pretrain --dataset mock model.tensor_model_parallel_size=2 "
    "model.sequence_parallel=true": {"model.tensor_model_parallel_size": 2, "model.sequence_parallel": True},
    f"{LLAMA} --max_steps 5000 -sl 4096 -tp 2 --save_dir /checkpoints/llama": {
        "dataset.seq_length": 4096,
        "model.seq_length": 4096,
        "model.tensor_model_parallel_size": 2,
        "checkpoint.save": "/checkpoints/llama",
    },
    "--model gpt_oss_20b --mode pretrain --dataset mock": {"model.softmax_type": "learnable"},
    "--recipe qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config --mode pretrain": {"model.num_moe_experts": 128},
    "--model llama32_1b --mode pretrain --dataset mock": {"model.hidden_size": 2048},
    "--model llama32_1b --mode sft --dataset openmathinstruct2-thinking dataset.enable_offline_packing=true "
    "train.micro_batch_size=1 checkpoint.pretrained_checkpoint=/checkpoints/llama": {
        "dataset.kind": "openmathinstruct2-thinking",
        "dataset.enable_offline_packing": True,
        "dataset.offline_packing_specs.packed_sequence_size": 4096,
        "checkpoint.pretrained_checkpoint": "/checkpoints/llama",
    },
    f"{SFT} --dataset coderforge 'dataset.hf_dataset.split=\"SWE_Rebench[:64]\"'": {
        "dataset.hf_dataset.path": "togethercomputer/CoderForge-Preview",
        "dataset.hf_dataset.split": "SWE_Rebench[:64]",
    },
    f"{SFT} --dataset local-jsonl dataset.dataset_root=/data/sft dataset.enable_in_batch_packing=true "
    "dataset.dataloader_type=single train.micro_batch_size=4": {
        "dataset.dataset_root": "/data/sft",
        "dataset.enable_in_batch_packing": True,
        "train.micro_batch_size": 4,
    },
}

GPT_OSS_SFT = (
    "dataset.enable_offline_packing=true train.micro_batch_size=1 "
    "checkpoint.pretrained_checkpoint=/checkpoints/gpt-oss-20b"
)
TO_COME = (
    "--model gpt_oss_20b --mode sft",
    "--recipe gpt_oss_20b_sft_8gpu_h100_bf16_config --mode sft --dataset openmathinstruct2-thinking " + GPT_OSS_SFT,
    "--recipe gpt_oss_20b_peft_1gpu_h100_bf16_config --mode lora --dataset openmathinstruct2-thinking " + GPT_OSS_SFT,
    f"{LLAMA} --dataset energon train.global_batch_size=512 train.micro_batch_size=1 dataset.micro_batch_size=1 "
    "dataset.path=/data/datacomp-energon dataset.task_encoder.hf_processor_path=Qwen/Qwen3.6-35B-A3B "
    "dataset.task_encoder.hf_processor_revision=995ad96eacd98c81ed38be0c5b274b04031597b0",
    f"{LLAMA} --dataset local-vlm dataset.source.load_kwargs.data_files.train=/path/to/train.jsonl "
    "dataset.validation_source.load_kwargs.data_files.validation=/path/to/valid.jsonl dataset.do_validation=true "
    "dataset.test_source.load_kwargs.data_files.test=/path/to/test.jsonl dataset.do_test=true",
    f"{LLAMA} --dataset llava-video-178k dataset.source.adapter_kwargs.video_root_path=/data/videos",
    f"{LLAMA} dataset.hf_processor_path=Qwen/Qwen3-VL-8B-Instruct",
    f"{LLAMA} --step-func qwen3_vl_step",
)


def resolved(line: str) -> ResolvedRun:
    command = parse(shlex.split(line))
    # Two GPUs, or as many as a larger recipe was written for.
    ranks = 2 if "llama32_1b" in line or "vanilla_gpt" in line else None
    return resolve(command.selection, command.overrides, world_size=ranks, device="cuda", flags=command.flags)


@pytest.mark.parametrize("line", AVAILABLE)
def test_a_documented_line_does_what_it_says(line: str) -> None:
    config = resolved(line).config
    for path, value in AVAILABLE[line].items():
        assert attrgetter(path)(config) == value, path


@pytest.mark.parametrize("line", TO_COME)
def test_a_documented_line_of_something_to_come_says_so(line: str) -> None:
    with pytest.raises(ConfigError, match="not available yet"):
        resolved(line)
