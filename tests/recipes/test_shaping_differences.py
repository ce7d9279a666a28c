"""Which changed fields make another training of a run."""

import pytest
from recipes_runs import LLAMA, run

from trainwright.recipes import shaping_differences
from trainwright.recipes.comparison import NOT_SHAPING, NOT_SHAPING_SECTIONS, SHAPING_OF_CHECKPOINT
from trainwright.recipes.fields import field_type
from trainwright.recipes.presets import KWARG_TYPES


def differences(*words: str, world_size: int = 1, recipe: str = LLAMA) -> list[str]:
    base = run("scheduler.lr_decay_iters=1168251", recipe=recipe).config
    return shaping_differences(
        base, run("scheduler.lr_decay_iters=1168251", *words, recipe=recipe, world_size=world_size).config
    )


@pytest.mark.parametrize(
    ("words", "world_size"),
    [
        (("model.tensor_model_parallel_size=2", "model.sequence_parallel=true"), 2),
        (("model.pipeline_model_parallel_size=2", "model.virtual_pipeline_model_parallel_size=2"), 2),
        (("model.context_parallel_size=2",), 2),
        (("optimizer.use_distributed_optimizer=false",), 4),
        (("train.micro_batch_size=4", "train.exit_duration_in_mins=5"), 1),
        (("checkpoint.save=/x", "checkpoint.load=/y", "checkpoint.save_interval=1", "checkpoint.most_recent_k=2"), 1),
        (("validation.eval_interval=5", "logger.log_interval=1", "dataset.num_workers=3", "env_vars.A=b"), 1),
        (("model.recompute_granularity=selective", "profiling.use_pytorch_profiler=true"), 1),
        (("comm_overlap.overlap_grad_reduce=true", "ddp.align_param_gather=true", "train.manual_gc=true"), 1),
    ],
)
def test_layout_duration_and_logging_do_not_shape(words: tuple[str, ...], world_size: int) -> None:
    assert differences(*words, world_size=world_size) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("optimizer.lr=1e-4",), ["optimizer.lr: 0.0003 -> 0.0001"]),
        (("train.global_batch_size=256",), ["train.global_batch_size: 512 -> 256"]),
        (("rng.seed=7",), ["rng.seed: 1234 -> 7"]),
        (("scheduler.lr_decay_iters=5000",), ["scheduler.lr_decay_iters: 1168251 -> 5000"]),
        (("model.softmax_scale=1",), ["model.softmax_scale: null -> 1.0"]),
        (("mixed_precision=bf16_mixed",), ["mixed_precision.bf16: false -> true"]),
        (("checkpoint.pretrained_checkpoint=/w",), ["checkpoint.pretrained_checkpoint: null -> /w"]),
        (
            ("model.num_layers=8", "dataset.random_seed=1"),
            ["model.num_layers: 16 -> 8", "dataset.random_seed: 1234 -> 1"],
        ),
    ],
)
def test_what_shapes_the_training_is_named_with_both_values(words: tuple[str, ...], expected: list[str]) -> None:
    assert differences(*words) == expected


def test_where_the_base_of_adapters_lies_does_not_shape_but_whether_there_is_one_does() -> None:
    recipe, field = "llama32_1b_peft_config", "checkpoint.pretrained_checkpoint"
    here, there, nowhere = (run(f"{field}={path}", recipe=recipe).config for path in ("/here", "/there", "null"))
    assert shaping_differences(here, there) == []
    assert shaping_differences(here, nowhere) == [f"{field}: /here -> null"]


def test_what_is_only_recorded_does_not_shape() -> None:
    """A benchmark and the same without what this version does not act on train the same."""
    recipe = "qwen3_30b_a3b_pretrain_8gpu_b300_fp8mx_config"
    without = ("model.cuda_graph_impl=none", "model.moe_paged_stash=false", "comm_overlap=null")
    before, after = (run(*words, recipe=recipe, world_size=8, device="cuda").config for words in ((), without))
    assert before != after
    assert shaping_differences(before, after) == []
    in_16_bits = run("mixed_precision=bf16_mixed", recipe=recipe, world_size=8, device="cuda").config
    assert [line.partition(":")[0] for line in shaping_differences(before, in_16_bits)] == [
        "mixed_precision.fp8",
        "mixed_precision.fp8_recipe",
        "mixed_precision.fp8_dot_product_attention",
    ]


def longer(*words: str) -> list[str]:
    before, after = (run(f"train.train_iters={count}", *words).config for count in (1000, 2000))
    return shaping_differences(before, after)


def test_a_longer_run_has_another_order_of_samples_and_another_schedule() -> None:
    assert longer() == ["train.train_iters: 1000 -> 2000", "scheduler.lr_decay_iters: 1000 -> 2000"]


def test_a_run_can_be_extended_when_its_data_is_cyclic_and_its_schedule_was_typed() -> None:
    assert longer("dataset.dataloader_type=cyclic", "scheduler.lr_decay_iters=1000") == []


def test_the_exempted_fields_exist() -> None:
    """A renamed field must not leave its exemption behind."""
    for path in NOT_SHAPING | SHAPING_OF_CHECKPOINT:
        assert field_type(path) is not None
        section, _, field = path.rpartition(".")
        assert section != "dataset.dataset_kwargs" or field in KWARG_TYPES
    assert set(run().config.model_dump()) >= NOT_SHAPING_SECTIONS
