"""Parameters, bytes, samples and tokens of a run.

That the count equals the model that is built is held by a test of the runner, which has the model.
"""

import pytest
from recipes_runs import LLAMA, PACKED, run

from trainwright.recipes import ConfigError, ResolvedRun, estimate


def small(*words: str, **options: object) -> ResolvedRun:
    return run("model.num_layers=2", "model.hidden_size=8", "model.num_attention_heads=2", *words, **options)  # type: ignore[arg-type]


def test_the_published_size_of_llama_32_1b() -> None:
    """1,235,814,400 parameters with its own vocabulary of 128,256 tokens, as its authors' weights hold."""
    assert estimate(run("tokenizer.vocab_size=128256", recipe=LLAMA)).parameters == 1_235_814_400


def test_the_published_size_of_gpt2_small() -> None:
    """124,439,808 parameters with 50,257 tokens unpadded, as its authors' weights hold."""
    words = ("tokenizer.vocab_size=50257", "model.make_vocab_size_divisible_by=1")
    assert estimate(run(*words)).parameters == 124_439_808


def test_samples_and_tokens_are_those_of_the_whole_run() -> None:
    sizes = estimate(run(recipe=LLAMA, device="cuda"))
    assert sizes.samples == 1_168_251 * 512
    assert sizes.tokens == 1_168_251 * 512 * 8192


def test_a_packed_row_is_a_sample() -> None:
    packed = run("dataset.offline_packing_specs.packed_sequence_size=8192", recipe=PACKED, device="cuda")
    assert (estimate(packed).samples, estimate(packed).tokens) == (1000 * 8, 1000 * 8 * 8192)
    unpacked = run("dataset.enable_offline_packing=false", recipe=PACKED, device="cuda")
    assert estimate(unpacked).tokens == 1000 * 8 * 4096


@pytest.mark.parametrize("words", [(), ("model.share_embeddings_and_output_weights=false",)])
def test_the_fullest_of_one_rank_is_the_model(words: tuple[str, ...]) -> None:
    sizes = estimate(small(*words))
    assert sizes.memory.parameters == sizes.parameters


def test_bytes_follow_types_and_optimizer() -> None:
    """32 bits: 4 + 4 + 8 bytes a parameter. 16 bits: 2 + 4 + 12."""
    whole = "optimizer.use_distributed_optimizer=false"
    plain, half, narrow = (
        estimate(run).memory
        for run in (small(whole), small(whole, device="cuda"), small("ddp.grad_reduce_in_fp32=false", device="cuda"))
    )
    count = plain.parameters
    assert (plain.weights, plain.gradients, plain.optimizer) == (4 * count, 4 * count, 8 * count)
    assert plain.state == 16 * count
    assert (half.weights, half.gradients, half.optimizer) == (2 * count, 4 * count, 12 * count)
    assert narrow.gradients == 2 * count


def test_the_distributed_optimizer_splits_its_state() -> None:
    """Between data and context parallel ranks."""
    whole = estimate(small("optimizer.use_distributed_optimizer=false", world_size=4))
    split = estimate(small("model.context_parallel_size=2", world_size=4))
    assert split.memory.optimizer * 4 == whole.memory.optimizer == 8 * whole.parameters


def test_sgd_keeps_one_moment_or_none() -> None:
    with_momentum = estimate(small("optimizer.optimizer=sgd"))
    assert with_momentum.memory.optimizer == 4 * with_momentum.parameters
    assert estimate(small("optimizer.optimizer=sgd", "optimizer.sgd_momentum=0")).memory.optimizer == 0


def test_an_unknown_vocabulary_is_asked_for() -> None:
    resolved = run("tokenizer.tokenizer_type=HuggingFaceTokenizer", "tokenizer.tokenizer_model=/t")
    with pytest.raises(ConfigError, match=r"model\.vocab_size"):
        estimate(resolved)
    assert estimate(resolved, vocab_size=32_000).parameters == estimate(run()).parameters


def test_what_adapters_train_is_counted_and_stored_alone() -> None:
    """Llama 3 8B at rank 8 on all layers; gradients and optimizer state are of adapters, weights of all."""
    sizes = estimate(run(recipe="llama3_8b_peft_config", device="cuda"))
    linear = 32 * 8 * ((4096 + 6144) + (4096 + 4096) + (4096 + 28_672) + (14_336 + 4096))
    assert sizes.adapter_parameters == linear
    whole = 8_030_261_248 + linear
    assert sizes.trainable == f"{linear:,} in adapters, {linear / whole:.4%} of {whole:,}"
    assert sizes.memory.gradients == 4 * linear
    assert sizes.memory.optimizer == 12 * linear
    assert sizes.memory.weights == 2 * whole
    assert estimate(run(recipe=PACKED, device="cuda")).trainable == "all 1,235,814,400"
