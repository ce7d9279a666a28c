"""The command lines of the training entry points' public description, as far as their recipes exist."""

import shlex
from typing import Any

import pytest

from trainwright.recipes import FLAGS, ConfigError, Selection, resolve

SELECTION = {
    "--recipe": "recipe",
    "--model": "model",
    "--mode": "mode",
    "--dataset": "dataset",
    "--step-func": "step_func",
}
AVAILABLE = (
    "--recipe llama32_1b_pretrain_config --mode pretrain --dataset mock",
    "--recipe llama32_1b_pretrain_config --mode pretrain --dataset mock"
    " -ms 10 -gb 8 -mb 1 --lr 0.0002 --warmup_iters 1 scheduler.lr_decay_iters=10",
    "--recipe llama32_1b_pretrain_config --mode pretrain --dataset mock logger.save_config_filepath=/tmp/config.yaml",
    "--recipe llama32_1b_pretrain_config"
    " --dataset megatron-indexed dataset.data_path=/data/dclm/dclm_01_01_text_document",
    "--recipe llama32_1b_pretrain_config"
    " --dataset megatron-indexed 'dataset.data_path=[/data/dclm/part_1,/data/dclm/part_2]'"
    " dataset.path_to_cache=/shared/cache",
)
ON_TWO_RANKS = (
    "--recipe vanilla_gpt_pretrain_config --mode pretrain --dataset mock"
    " model.tensor_model_parallel_size=2 model.sequence_parallel=true",
)
FINETUNING = (
    "--model gpt_oss_20b --mode sft",
    "--recipe gpt_oss_20b_sft_8gpu_h100_bf16_config --mode sft --dataset openmathinstruct2-thinking"
    " dataset.enable_offline_packing=true train.micro_batch_size=1"
    " checkpoint.pretrained_checkpoint=/checkpoints/gpt-oss-20b",
    "--recipe llama32_1b_sft_config --mode sft --dataset coderforge 'dataset.hf_dataset.split=\"SWE_Rebench[:64]\"'",
    "--recipe llama32_1b_sft_config --dataset local-jsonl dataset.dataset_root=/data/sft"
    " dataset.enable_in_batch_packing=true dataset.dataloader_type=single train.micro_batch_size=4",
    *(
        f"--recipe llama32_1b_sft_config --mode sft --dataset {name} dataset.enable_offline_packing=true"
        for name in ("squad", "openmathinstruct2", "openmathinstruct2-thinking", "tulu3", "coderforge", "gsm8k")
    ),
    "--recipe llama32_1b_sft_config --dataset local-jsonl dataset.dataset_root=/d dataset.enable_offline_packing=true",
)
ADAPTERS = (
    "--recipe gpt_oss_20b_peft_1gpu_h100_bf16_config --mode lora --dataset openmathinstruct2-thinking"
    " dataset.enable_offline_packing=true train.micro_batch_size=1"
    " checkpoint.pretrained_checkpoint=/checkpoints/gpt-oss-20b",
)
FAMILIES = (
    "--model gpt_oss_20b --mode pretrain --dataset mock",
    "--recipe qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config --mode pretrain",
)
NOT_YET = (
    # Fragments that stand without a recipe: each is laid on one that exists.
    (
        "--recipe llama32_1b_pretrain_config --dataset energon train.global_batch_size=512 train.micro_batch_size=1"
        " dataset.micro_batch_size=1 dataset.path=/data/datacomp-energon"
        " dataset.task_encoder.hf_processor_path=Qwen/Qwen3.6-35B-A3B",
        "--dataset energon",
    ),
    (
        "--recipe llama32_1b_pretrain_config dataset.source.load_kwargs.data_files.train=/path/to/train.jsonl",
        "dataset.source",
    ),
)


def arguments(line: str) -> dict[str, Any]:
    """What a command line hands to `resolve`."""
    fields = {name: flag.field for flag in FLAGS for name in flag.names}
    selection: dict[str, str] = {}
    flags: dict[str, str] = {}
    overrides: list[str] = []
    words = iter(shlex.split(line))
    for word in words:
        if word in SELECTION:
            selection[SELECTION[word]] = next(words)
        elif word in fields:
            flags[fields[word]] = next(words)
        else:
            overrides.append(word)
    return {"selection": Selection(**selection), "overrides": overrides, "flags": flags}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("line", "world_size", "mode"),
    [
        *((line, None, "pretrain") for line in AVAILABLE),
        *((line, 2, "pretrain") for line in ON_TWO_RANKS),
        *((line, None, "pretrain") for line in FAMILIES),
        *((line, None, "sft") for line in FINETUNING),
        *((line, None, "lora") for line in ADAPTERS),
    ],
)
def test_a_printed_command_line_resolves(line: str, world_size: int | None, mode: str, device: Any) -> None:
    resolved = resolve(**arguments(line), world_size=world_size, device=device)
    assert not resolved.warnings
    assert resolved.mode == mode


@pytest.mark.parametrize(("line", "named"), NOT_YET)
def test_a_printed_command_line_of_later_says_so(line: str, named: str) -> None:
    """By name, and never as a misspelling."""
    with pytest.raises(ConfigError, match="not available yet") as caught:
        resolve(**arguments(line), world_size=1, device="cpu")
    assert named in str(caught.value)


def test_the_long_command_line_means_what_it_says() -> None:
    config = resolve(**arguments(AVAILABLE[1]), world_size=8, device="cuda").config
    assert (config.train.train_iters, config.train.global_batch_size, config.train.micro_batch_size) == (10, 8, 1)
    assert (config.optimizer.lr, config.scheduler.lr_warmup_iters, config.scheduler.lr_decay_iters) == (2e-4, 1, 10)
