"""Every command line that the training entry points' public description prints, read by the parser of run-recipe.

A line of a recipe resolves, for the ranks that it is printed for, to what it says. A fragment, which stands there
without a recipe, is laid on one that exists. What is not here yet says so by name.
"""

import shlex
from typing import Any

import pytest
from recipes_runs import says, value

from trainwright.recipes import ConfigError, ResolvedRun, resolve
from trainwright.recipes.words import parse

LLAMA = "--recipe llama32_1b_pretrain_config --mode pretrain"
SFT = "--recipe llama32_1b_sft_config --mode sft"
GPT_OSS = (
    "--dataset openmathinstruct2-thinking dataset.enable_offline_packing=true train.micro_batch_size=1 "
    "checkpoint.pretrained_checkpoint=/checkpoints/gpt-oss-20b"
)
PACKED = {
    "dataset.kind": "openmathinstruct2-thinking",
    "dataset.enable_offline_packing": True,
    "train.micro_batch_size": 1,
    "checkpoint.pretrained_checkpoint": "/checkpoints/gpt-oss-20b",
}

PRINTED: tuple[tuple[str, int | None, str, dict[str, Any]], ...] = (
    (f"{LLAMA} --dataset mock", 8, "pretrain", {"dataset.kind": "mock", "model.num_layers": 16}),
    ("--model gpt_oss_20b --mode pretrain --dataset mock", 16, "pretrain", {"model.softmax_type": "learnable"}),
    ("--model gpt_oss_20b --mode sft", None, "sft", {"model.softmax_type": "learnable"}),
    (
        "--recipe qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config --mode pretrain",
        16,
        "pretrain",
        {"model.num_moe_experts": 128, "train.global_batch_size": 1024, "dataset.kind": "mock"},
    ),
    (
        f"{LLAMA} --dataset megatron-indexed dataset.data_path=/data/dclm/dclm_01_01_text_document",
        1,
        "pretrain",
        {"dataset.kind": "megatron-indexed", "dataset.data_path": "/data/dclm/dclm_01_01_text_document"},
    ),
    (
        f"{LLAMA} --dataset megatron-indexed 'dataset.data_path=[/data/dclm/part_1,/data/dclm/part_2]' "
        "dataset.path_to_cache=/shared/cache",
        1,
        "pretrain",
        {"dataset.data_path": ["/data/dclm/part_1", "/data/dclm/part_2"], "dataset.path_to_cache": "/shared/cache"},
    ),
    (
        f"{SFT} --dataset coderforge 'dataset.hf_dataset.split=\"SWE_Rebench[:64]\"'",
        1,
        "sft",
        {
            "dataset.hf_dataset.path": "togethercomputer/CoderForge-Preview",
            "dataset.hf_dataset.split": "SWE_Rebench[:64]",
        },
    ),
    *(
        (f"{SFT} --dataset {name} dataset.enable_offline_packing=true", 1, "sft", {"dataset.kind": name})
        for name in ("squad", "openmathinstruct2", "openmathinstruct2-thinking", "tulu3", "coderforge", "gsm8k")
    ),
    (
        f"{SFT} --dataset local-jsonl dataset.dataset_root=/data/sft dataset.enable_offline_packing=true",
        1,
        "sft",
        {"dataset.offline_packing_specs.packed_sequence_size": 4096},
    ),
    (
        f"{SFT} --dataset local-jsonl dataset.dataset_root=/data/sft dataset.enable_in_batch_packing=true "
        "dataset.dataloader_type=single train.micro_batch_size=4",
        1,
        "sft",
        {"dataset.dataset_root": "/data/sft", "dataset.enable_in_batch_packing": True, "train.micro_batch_size": 4},
    ),
    (f"--recipe gpt_oss_20b_sft_8gpu_h100_bf16_config --mode sft {GPT_OSS}", 8, "sft", PACKED),
    (
        f"--recipe gpt_oss_20b_peft_1gpu_h100_bf16_config --mode lora {GPT_OSS}",
        1,
        "lora",
        PACKED | {"peft.scheme": "lora"},
    ),
    (
        f"{LLAMA} --dataset mock -ms 10 -gb 8 -mb 1 --lr 0.0002 --warmup_iters 1 scheduler.lr_decay_iters=10",
        8,
        "pretrain",
        {
            "train.train_iters": 10,
            "train.global_batch_size": 8,
            "train.micro_batch_size": 1,
            "optimizer.lr": 0.0002,
            "scheduler.lr_warmup_iters": 1,
            "scheduler.lr_decay_iters": 10,
        },
    ),
    (
        f"{LLAMA} --dataset mock --dry-run logger.save_config_filepath=/tmp/config.yaml",
        None,
        "pretrain",
        {"logger.save_config_filepath": "/tmp/config.yaml"},
    ),
    (
        "--recipe vanilla_gpt_pretrain_config --mode pretrain --dataset mock model.tensor_model_parallel_size=2 "
        "model.sequence_parallel=true",
        2,
        "pretrain",
        {"model.tensor_model_parallel_size": 2, "model.sequence_parallel": True},
    ),
    # Flags that are named in a sentence.
    (
        f"{LLAMA} --max_steps 5000 -sl 4096 -tp 2 --save_dir /checkpoints/llama",
        2,
        "pretrain",
        {
            "dataset.seq_length": 4096,
            "model.seq_length": 4096,
            "model.tensor_model_parallel_size": 2,
            "checkpoint.save": "/checkpoints/llama",
        },
    ),
    (f"{LLAMA} --global_batch_size 64 --step-func llm_step", 1, "pretrain", {"train.global_batch_size": 64}),
    ("--model gpt_oss_20b --mode dora", None, "dora", {"peft.scheme": "dora"}),
)

TO_COME = (
    (
        f"{LLAMA} --dataset energon train.global_batch_size=512 train.micro_batch_size=1 dataset.micro_batch_size=1 "
        "dataset.path=/data/datacomp-energon dataset.task_encoder.hf_processor_path=Qwen/Qwen3.6-35B-A3B "
        "dataset.task_encoder.hf_processor_revision=995ad96eacd98c81ed38be0c5b274b04031597b0",
        "--dataset energon",
    ),
    (
        f"{LLAMA} --dataset local-vlm dataset.source.load_kwargs.data_files.train=/path/to/train.jsonl "
        "dataset.validation_source.load_kwargs.data_files.validation=/path/to/valid.jsonl dataset.do_validation=true "
        "dataset.test_source.load_kwargs.data_files.test=/path/to/test.jsonl dataset.do_test=true",
        "--dataset local-vlm",
    ),
    (f"{LLAMA} dataset.source.load_kwargs.data_files.train=/path/to/train.jsonl", "dataset.source"),
    *((f"{SFT} --dataset {name}", f"--dataset {name}") for name in ("cord-v2", "medpix", "raven", "rdr")),
    (
        f"{SFT} --dataset llava-video-178k dataset.source.adapter_kwargs.video_root_path=/data/videos",
        "--dataset llava-video-178k",
    ),
    (f"{LLAMA} dataset.hf_processor_path=Qwen/Qwen3-VL-8B-Instruct", "dataset.hf_processor_path"),
    (f"{LLAMA} --step-func qwen3_vl_step", "--step-func qwen3_vl_step"),
)


def resolved(line: str, ranks: int | None, device: Any) -> ResolvedRun:
    command = parse(shlex.split(line))
    return resolve(command.selection, command.overrides, world_size=ranks, device=device, flags=command.flags)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("line", "ranks", "mode", "said"), PRINTED)
def test_a_printed_line_does_what_it_says(
    line: str, ranks: int | None, mode: str, said: dict[str, Any], device: Any
) -> None:
    run = resolved(line, ranks, device)
    assert run.mode == mode
    assert {path: value(run.config, path) for path in said} == said
    assert run.benchmark or not run.warnings


def test_the_printed_benchmark_says_that_its_name_is_also_the_librarys() -> None:
    """At its own size it is canonical; on one node of the same GPUs its experts do not fit, and the line says why."""
    line = PRINTED[3][0]
    run = resolved(line, 16, "cuda")
    assert run.canonical
    assert any("--recipe qwen3_30b_a3b_pretrain_config" in warning for warning in run.warnings)
    assert resolved(line, 32, "cuda").config.train.global_batch_size == 2048
    with pytest.raises(ConfigError) as caught:
        resolved(line, 8, "cuda")
    says(str(caught.value), "8 ranks", "expert_model_parallel_size=16")


@pytest.mark.parametrize(("line", "named"), TO_COME)
def test_a_printed_line_of_something_to_come_says_so(line: str, named: str) -> None:
    """By name, and never as a misspelling."""
    with pytest.raises(ConfigError, match="not available yet") as caught:
        resolved(line, 1, "cpu")
    assert named in str(caught.value)
