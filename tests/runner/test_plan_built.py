"""The parameters of a plan: those of real ranks, and the published totals.

That ranks of whole topologies are built as planned, tests/nightly shows of every benchmark.
"""

import pytest
from tests.runner.held_memory import case

from trainwright.recipes import ResolvedRun, Selection, resolve
from trainwright.recipes.benchmarks import benchmarks
from trainwright.recipes.memory import stage_memory
from trainwright.recipes.parameters import whole_model
from trainwright.recipes.sizes import vocabulary_of
from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

SMALL = {
    "latents, experts apart, further predictions": case(
        "deepseek_v3_pretrain_config",
        tensor_model_parallel_size=2,
        sequence_parallel="true",
        pipeline_model_parallel_size=2,
        expert_model_parallel_size=2,
        expert_tensor_parallel_size=1,
        mtp_num_layers=2,
    ),
    "adapters": case(
        "llama3_70b_peft_8gpu_h100_bf16_config", tensor_model_parallel_size=2, pipeline_model_parallel_size=2
    ),
}
"""Topologies of four ranks."""

PUBLISHED = {
    # Model pages of the authors, which give three digits or four.
    "llama3_8b": (8.03e9, 8.03e9),
    "llama3_70b": (70.6e9, 70.6e9),
    "llama31_405b": (405e9, 405e9),  # arXiv:2407.21783, table 3
    "qwen3_30b_a3b": (30.5e9, 30.5e9),  # model card
    "qwen3_235b_a22b": (235e9, 235e9),  # model card
    "gpt_oss_20b": (20.91e9, 20.91e9),  # arXiv:2508.10925, table 1
    "gpt_oss_120b": (116.83e9, 116.83e9),  # the same
    # The model's README: 671 billion, and 685 with the weights of multi-token prediction.
    "deepseek_v3": (671e9, 685e9),
    # Its authors say one trillion; counted by transformers on a model of the published sizes
    # (tests/recipes/data/parameters.json).
    "kimi_k2": (1_026_408_209_408, 1_026_408_209_408),
}
"""Parameters of a model without and with multi-token prediction."""
VOCABULARIES = {"deepseek_v3": 129_280, "llama3_8b": 128_256, "llama3_70b": 128_256, "llama31_405b": 128_256}
VOCABULARIES |= {"qwen3_30b_a3b": 151_936, "qwen3_235b_a22b": 151_936, "kimi_k2": 163_840}
VOCABULARIES |= {"gpt_oss_20b": 201_088, "gpt_oss_120b": 201_088}
"""Published; benchmarks count tokens that they make up, of another number."""


def small(name: str, world_size: int = 4) -> ResolvedRun:
    recipe, words = SMALL[name]
    return resolve(Selection(recipe=recipe), words, world_size=world_size, device="cpu")


def real(name: str) -> tuple[int, int]:
    """Parameters of this rank's model as a run builds it, and those that are trained."""
    from trainwright.runner.devices import use_device

    device = use_device("cpu")
    from trainwright.runner.build import build_trainer
    from trainwright.runner.distributed import place, start

    resolved = small(name)
    start(resolved.config, device, place())
    trainer, _ = build_trainer(resolved, device)
    parameters = [one for chunk in trainer.chunks for one in chunk.parameters()]
    return sum(one.numel() for one in parameters), sum(one.numel() for one in parameters if one.requires_grad)


def without_the_others(names: list[str]) -> dict[str, list[tuple[int, int]]]:
    """The same for each of the four ranks in turn, as a plan builds them."""
    from trainwright.runner.plan.meta import build

    found = {}
    for name in names:
        resolved = small(name)
        built = [build(resolved, rank, vocabulary_of(resolved)) for rank in range(4)]
        found[name] = [(one.parameters, one.trainable) for one in built]
    return found


@pytest.fixture(scope="module")
def alone():
    return run_ranks(without_the_others, 1, list(SMALL))[0]


@pytest.mark.parametrize("name", SMALL)
def test_ranks_that_are_built_alone_are_the_real_ones(alone, name):
    """Rank by rank, so that all together have as many too."""
    there = run_ranks(real, 4, name)
    assert alone[name] == there
    planned = stage_memory(small(name), vocabulary_of(small(name)))
    by_stage = [(stage.parameters, stage.trainable) for stage in planned for _ in range(2)]
    assert by_stage == there


@pytest.mark.parametrize("stem", PUBLISHED)
def test_totals_are_the_published_ones(stem):
    """Within half a percent, without and with multi-token prediction where the model has it."""
    name = next(recipe.name for recipe in benchmarks() if recipe.stem == stem)
    model = resolve(Selection(recipe=name), [], world_size=None, device="cuda").config.model
    plain = model.model_copy(update={"mtp_num_layers": None})
    for one, wanted in zip((plain, model), PUBLISHED[stem], strict=True):
        assert whole_model(one, VOCABULARIES[stem]).total == pytest.approx(wanted, rel=0.005)


def test_every_model_of_the_benchmarks_is_compared():
    assert {recipe.stem for recipe in benchmarks()} == set(PUBLISHED) == set(VOCABULARIES)
