"""Memory of a rank by arithmetic, against values worked by hand and the published formulas.

That it is what a rank holds, a test of the runner shows on real ranks.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes_runs import run

from trainwright.recipes import ResolvedRun, Selection, resolve
from trainwright.recipes.activations import of_block, of_loss
from trainwright.recipes.benchmarks import benchmarks
from trainwright.recipes.hardware import GPUS
from trainwright.recipes.in_flight import Pipeline
from trainwright.recipes.memory import Memory, share_of, stage_memory
from trainwright.recipes.precision import widths

GPT = (
    "model.num_layers=4",
    "model.hidden_size=512",
    "model.num_attention_heads=8",
    "dataset.seq_length=128",
    "train.micro_batch_size=2",
    "train.global_batch_size=64",
    "model.hidden_dropout=0.1",
)
POSITIONS, HIDDEN, HEADS = 2 * 128, 512, 8
BLACKWELL, HOPPER = "llama3_70b_pretrain_64gpu_gb200_bf16_config", "llama3_8b_pretrain_8gpu_h100_fp8cs_config"


def benchmark(name: str, *words: str) -> ResolvedRun:
    return resolve(Selection(recipe=name), list(words), world_size=None, device="cuda")


def planned(resolved: ResolvedRun) -> list[Memory]:
    return stage_memory(resolved, 32_000)


def block_bytes(resolved: ResolvedRun, number: int = 0) -> float:
    share = share_of(resolved, widths(resolved.config))
    return sum(one.size for half in of_block(share, number) for one in half)


def test_a_block_of_gpt_keeps_34_bytes_a_position_and_channel() -> None:
    """Korthikanti et al. 2022, equation 2, without the squares of attention, which fused kernels do not keep: they keep
    a sum of 4 bytes for each head and position."""
    resolved = run(*GPT, device="cuda")
    assert block_bytes(resolved) == 34 * POSITIONS * HIDDEN + 4 * POSITIONS * HEADS


def test_tensor_and_sequence_parallel_ranks_share_all_of_a_block() -> None:
    """The same, equation 4; without sequence parallelism 10 of the 34 bytes are whole on every rank, equation 3."""
    words = ("model.tensor_model_parallel_size=2", "model.sequence_parallel=true")
    split = run(*GPT, *words, world_size=2, device="cuda")
    half = run(*GPT, words[0], "model.sequence_parallel=false", world_size=2, device="cuda")
    sums = 4 * POSITIONS * HEADS / 2
    assert block_bytes(split) == 34 / 2 * POSITIONS * HIDDEN + sums
    assert block_bytes(half) == (10 + 24 / 2) * POSITIONS * HIDDEN + sums


def test_whole_blocks_that_are_recomputed_keep_their_input() -> None:
    """2 bytes a position and channel each, and one block at a time comes back: the same, section 5."""
    words = ("model.recompute_granularity=full", "model.recompute_method=uniform", "model.recompute_num_layers=1")
    plain, again = run(*GPT, device="cuda"), run(*GPT, *words, device="cuda")
    share = share_of(plain, widths(plain.config))
    ends = planned(plain)[0].activations - 4 * block_bytes(plain)
    loss = sum(one.size for one in of_loss(share, 32_000))
    first, inputs = ends - loss, 4 * 2 * POSITIONS * HIDDEN
    assert planned(again)[0].activations == first + inputs + max(loss, block_bytes(plain))


def test_logits_are_kept_in_32_bits_unless_the_loss_overwrites_them() -> None:
    words = ("model.cross_entropy_loss_fusion=true", "model.cross_entropy_fusion_impl=te")
    logits = {
        name: {one.what: one.size for one in of_loss(share_of(one_run, widths(one_run.config)), 32_000)}["logits"]
        for name, one_run in {"plain": run(*GPT, device="cuda"), "fused": run(*GPT, *words, device="cuda")}.items()
    }
    assert logits["plain"] == 2 * logits["fused"] == 4 * POSITIONS * 32_000


@pytest.mark.parametrize(
    ("words", "factor"),
    [
        ((), 1),
        (("model.recompute_granularity=selective", "model.recompute_modules=[mlp]"), 17 / 34),
    ],
)
def test_modules_that_are_recomputed_keep_nothing_of_their_own(words: tuple[str, ...], factor: float) -> None:
    """Of the feed-forward part's 19 bytes, 18 less the mask of dropout and the norm's input go; 1 stays of each."""
    resolved = run(*GPT, *words, device="cuda")
    share = share_of(resolved, widths(resolved.config))
    modules = set(words and ["mlp"])
    body = [one for half in of_block(share, 0) for one in half]
    kept = sum(one.size for one in body if not modules & set(one.recomputed_with))
    assert kept == pytest.approx(factor * 34 * POSITIONS * HIDDEN, rel=0.06)


# Passes ahead of the first backward pass, and one: 1F1B holds stages - stage micro-batches; interleaved, of p stages
# and v chunks, 2 * (p - stage - 1) + (v - 1) * p + 1 chunks (Megatron Core's schedule).
@pytest.mark.parametrize(
    ("stages", "chunks", "micro_batches", "held"),
    [
        (1, 1, 8, [1]),
        (4, 1, 8, [4, 3, 2, 1]),
        (4, 1, 2, [2, 2, 2, 1]),
        (4, 2, 8, [11, 9, 7, 5]),
        (2, 3, 2, [6, 5]),
    ],
)
def test_as_many_micro_batches_are_under_way_as_the_schedule_says(
    stages: int, chunks: int, micro_batches: int, held: list[int]
) -> None:
    pipeline = Pipeline(stages, chunks, micro_batches, stages)
    found = [pipeline.most_held(stage, [1.0] * chunks, [0.0] * chunks) for stage in range(stages)]
    assert found == held


@given(stages=st.integers(1, 6), chunks=st.integers(1, 4), micro_batches=st.integers(1, 20), more=st.integers(0, 3))
def test_every_pass_has_its_way_back(stages: int, chunks: int, micro_batches: int, more: int) -> None:
    """Of each chunk as many forward as backward passes as there are micro-batches, and never a backward pass first."""
    # One stage is not interleaved, and a group is at least as many micro-batches as there are stages.
    chunks = chunks if stages > 1 else 1
    pipeline = Pipeline(stages, chunks, micro_batches, stages + more)
    for stage in range(stages):
        under_way = [0] * chunks
        passes = list(pipeline.passes(stage))
        for forward, chunk in passes:
            under_way[chunk] += 1 if forward else -1
            assert under_way[chunk] >= 0
        assert under_way == [0] * chunks
        assert [sum(1 for one in passes if one == (True, chunk)) for chunk in range(chunks)] == [micro_batches] * chunks


@pytest.mark.parametrize(
    ("stages", "chunks", "micro_batches", "bubble"),
    [(1, 1, 8, 0), (4, 1, 8, 3 / 11), (4, 2, 8, 3 / 19), (8, 1, 1, 7 / 8)],
)
def test_the_bubble_is_the_published_one(stages: int, chunks: int, micro_batches: int, bubble: float) -> None:
    assert Pipeline(stages, chunks, micro_batches, stages).bubble == pytest.approx(bubble)


# Bytes of a weight with its quantised copies, of the input of a linear layer, and of a master weight.
@pytest.mark.parametrize(
    ("words", "two_layouts", "matrix", "product"),
    [
        ((), False, 2, 2),
        (("mixed_precision.fp8=hybrid", "mixed_precision.fp8_recipe=tensorwise"), False, 3, 1),
        (("mixed_precision.fp8=hybrid", "mixed_precision.fp8_recipe=tensorwise"), True, 4, 1),
        (("mixed_precision.fp8=e4m3", "mixed_precision.fp8_recipe=mxfp8"), False, 2 + 2 * 33 / 32, 33 / 32),
        (("mixed_precision.fp4=e2m1", "mixed_precision.fp4_recipe=nvfp4"), False, 2 + 2 * 9 / 16, 9 / 16),
    ],
)
def test_quantised_products_keep_copies(
    words: tuple[str, ...], two_layouts: bool, matrix: float, product: float
) -> None:
    found = widths(benchmark(BLACKWELL, *words).config, two_layouts=two_layouts)
    assert (found.weight, found.matrix, found.product) == (2, matrix, product)


def test_weights_that_are_gathered_in_8_bits_are_kept_so() -> None:
    resolved = benchmark(HOPPER)
    assert resolved.config.mixed_precision.fp8 is not None
    words = ("mixed_precision.fp8_param_gather=true", "mixed_precision.fp8_param_gather=false")
    gathered, plain = (
        widths(resolved.config.model_copy(update={"mixed_precision": precision}))
        for precision in (
            resolved.config.mixed_precision.model_copy(update={"fp8_param_gather": word.endswith("true")})
            for word in words
        )
    )
    assert (gathered.matrix, gathered.gathered) == (1, 1)
    assert (plain.matrix, plain.gathered) == (3, 2)


def test_gradients_of_16_bits_are_copied_for_the_update() -> None:
    """An optimizer of 32 bits makes a copy of its share; it counts where it is more than the activations, which are
    gone by then."""
    narrow, wide = (run(f"ddp.grad_reduce_in_fp32={word}", device="cuda") for word in ("false", "true"))
    memory = planned(narrow)[0]
    assert memory.update == 4 * memory.parameters
    assert planned(wide)[0].update == 0
    assert memory.total == memory.state + max(memory.activations, memory.update)


def test_frozen_weights_take_neither_gradients_nor_optimizer_state() -> None:
    """And keep no inputs but those that adapters read."""
    adapters = benchmark("llama3_70b_peft_8gpu_b300_bf16_config")
    memory = planned(adapters)[0]
    assert memory.trainable < memory.parameters / 1000
    assert memory.gradients == memory.trainable * 2
    share = share_of(adapters, widths(adapters.config))
    names = [one.what for half in of_block(share, 0) for one in half]
    assert "input of linear_qkv" in names and "what A makes of input of linear_qkv" in names
    assert "input of linear_fc2" not in names


def test_fully_sharded_ranks_have_their_part_and_two_blocks() -> None:
    resolved = benchmark(BLACKWELL)
    memory, ranks = planned(resolved)[0], resolved.data_parallel_size
    assert resolved.config.ddp.use_megatron_fsdp
    block = (memory.parameters - 2 * 32_000 * 8192 - 8192) / 80
    assert memory.weights == pytest.approx(2 * (memory.parameters / ranks + 2 * block), rel=1e-6)


def test_every_gpu_that_a_benchmark_names_has_its_memory_and_a_source() -> None:
    assert {recipe.hardware for recipe in benchmarks()} <= set(GPUS)
    assert all(gpu.source and gpu.memory > 2**36 for gpu in GPUS.values())


def test_benchmarks_are_planned_and_most_fit() -> None:
    """Every third. Those that do not fit by arithmetic offload activations, or have more micro-batches under way than
    there is room for by the published formula."""
    over, some = [], benchmarks()[::3]
    for recipe in some:
        resolved, gpu = benchmark(recipe.name), GPUS[recipe.hardware]
        fullest = max(stage.total for stage in stage_memory(resolved, 128_256, two_layouts=gpu.two_layouts))
        assert fullest > 2**32, recipe.name
        if fullest > gpu.memory and not (resolved.config.model.model_extra or {}).get("cpu_offloading"):
            over.append(recipe.name)
    assert len(over) < len(some) / 20, over
