"""Building, training and counting whole models on one rank, against transformers and against themselves."""

from typing import Any

import pytest
import torch
from tests.runner.llama_reference import transformers_llama
from tests.runner.reference_weights import fill_from
from tests.runner.small_models import GPT, LLAMA, VOCABULARY, configuration, positions, start_groups, tokens

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

UPDATES = 6


def on_one_rank() -> dict[str, Any]:
    """Every measurement of this file, taken in one process: starting one costs more than all of them."""
    from megatron.core import parallel_state

    results = {}
    measures = (train_beside_transformers, recompute, accumulate, gpt2_logits, counts, sixteen_bits)
    for measure in measures:
        results[measure.__name__] = measure()
        if parallel_state.model_parallel_is_initialized():
            parallel_state.destroy_model_parallel()
    return results


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    return run_ranks(on_one_rank, 1)[0]


def train_beside_transformers() -> tuple[list[float], list[float]]:
    """Losses of the same updates: ours, and a plain PyTorch loop over transformers with torch's own AdamW."""
    from tests.runner.megatron_training import backward, build

    schedule = {"lr_decay_style": "constant"}
    config = configuration(LLAMA, optimizer={"lr": 3e-3, "adam_beta2": 0.95, "weight_decay": 0.1}, scheduler=schedule)
    start_groups(config)
    reference = transformers_llama()
    chunks, optimizer, scheduler = build(config, VOCABULARY)
    fill_from([chunk.module for chunk in chunks], reference)
    matrices = [p for p in reference.parameters() if p.dim() > 1]
    vectors = [p for p in reference.parameters() if p.dim() == 1]
    theirs = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        lr=3e-3,
        betas=(0.9, 0.95),
    )
    microbatches = [tokens(length=65, seed=seed) for seed in (1, 2)]
    ours, wanted = [], []
    for _ in range(UPDATES):
        ours.append(backward(chunks, optimizer, microbatches))
        optimizer.step()
        scheduler.step(config.train.global_batch_size)
        theirs.zero_grad()
        losses = []
        for batch in microbatches:
            logits = reference(input_ids=batch[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            (loss / len(microbatches)).backward()
            losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(reference.parameters(), 1.0)
        theirs.step()
        wanted.append(sum(losses) / len(losses))
    return ours, wanted


def test_updates_equal_those_of_a_plain_pytorch_loop(measured):
    ours, wanted = measured["train_beside_transformers"]
    assert wanted[-1] < 0.8 * wanted[0]
    assert ours == pytest.approx(wanted, rel=1e-5)


RECOMPUTATIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "full, uniform": {
        "recompute_granularity": "full",
        "recompute_method": "uniform",
        "recompute_num_layers": 1,
    },
    "full, some blocks": {
        "recompute_granularity": "full",
        "recompute_method": "block",
        "recompute_num_layers": 2,
    },
    "selective": {"recompute_granularity": "selective"},
    "selective, all modules": {"recompute_granularity": "selective", "recompute_modules": ["core_attn", "mlp"]},
}


def recompute() -> dict[str, tuple[float, Any]]:
    """By kind of recomputation: loss and gradients with dropout on, from the same weights and random streams."""
    from megatron.core import parallel_state
    from tests.runner.megatron_training import backward, build, gradients

    found = {}
    for name, changes in RECOMPUTATIONS.items():
        config = configuration(LLAMA | {"hidden_dropout": 0.2, "attention_dropout": 0.2} | changes)
        start_groups(config)
        chunks, optimizer, _ = build(config, VOCABULARY)
        loss = backward(chunks, optimizer, [tokens(length=65, seed=1)])
        found[name] = loss, gradients(chunks).numpy().copy()
        parallel_state.destroy_model_parallel()
    return found


@pytest.mark.parametrize("kind", [kind for kind in RECOMPUTATIONS if kind != "none"])
def test_recomputation_repeats_dropout_and_changes_no_gradient(measured, kind):
    loss, gradient = measured["recompute"][kind]
    plain_loss, plain_gradient = measured["recompute"]["none"]
    assert loss == plain_loss
    assert abs(plain_gradient).max() > 1e-3
    assert abs(gradient - plain_gradient).max() < 1e-7


def accumulate() -> dict[tuple[bool, bool], Any]:
    """Gradients of two micro-batches, by whether weights are tied and whether products add them up themselves."""
    from megatron.core import parallel_state
    from tests.runner.megatron_training import backward, build, gradients

    found = {}
    for tied in (True, False):
        for fused in (True, False):
            changes = {"share_embeddings_and_output_weights": tied, "gradient_accumulation_fusion": fused}
            config = configuration(LLAMA | changes)
            start_groups(config)
            chunks, optimizer, _ = build(config, VOCABULARY)
            backward(chunks, optimizer, [tokens(length=65, seed=seed) for seed in (1, 2)])
            found[tied, fused] = gradients(chunks).numpy().copy()
            parallel_state.destroy_model_parallel()
    return found


@pytest.mark.parametrize("tied", [True, False])
def test_gradients_are_the_same_when_products_add_them_up_themselves(measured, tied):
    fused, plain = measured["accumulate"][tied, True], measured["accumulate"][tied, False]
    assert abs(plain).max() > 1e-3
    assert abs(fused - plain).max() < 1e-7


def gpt2_logits() -> tuple[float, float]:
    """Largest difference to transformers' GPT-2 on the same weights, and its largest logit."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from trainwright.runner.models import build_model

    config = configuration(GPT)
    start_groups(config)
    torch.manual_seed(0)
    reference = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=GPT["max_position_embeddings"],
            n_embd=GPT["hidden_size"],
            n_layer=GPT["num_layers"],
            n_head=GPT["num_attention_heads"],
            activation_function="gelu",
        )
    ).eval()
    for parameter in reference.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    (ours,) = build_model(config, vocab_size=VOCABULARY)
    fill_from_gpt2(ours, reference.state_dict())
    ids = tokens()
    with torch.no_grad():
        wanted = reference(input_ids=ids).logits
        logits = ours.eval()(ids, positions(ids), None)
    return (logits[..., :VOCABULARY] - wanted).abs().max().item(), wanted.abs().max().item()


def fill_from_gpt2(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
    heads, channels = GPT["num_attention_heads"], GPT["kv_channels"]

    def by_head(tensor: torch.Tensor) -> torch.Tensor:
        """Rows of query, key, value of all heads in turn, to query, key, value of each head in turn."""
        return tensor.reshape(3, heads, channels, *tensor.shape[1:]).transpose(0, 1).flatten(0, 2)

    names = {
        "embedding.word_embeddings.weight": state["transformer.wte.weight"],
        "embedding.position_embeddings.weight": state["transformer.wpe.weight"],
        "decoder.final_norm.weight": state["transformer.ln_f.weight"],
        "decoder.final_norm.bias": state["transformer.ln_f.bias"],
    }
    for block in range(GPT["num_layers"]):
        theirs = f"transformer.h.{block}."
        attention, feed_forward = (f"decoder.layers.{2 * block + part}." for part in (0, 1))
        for kind in ("weight", "bias"):
            matrix = (
                (lambda name, kind=kind, at=theirs: state[at + name + kind].T)
                if kind == "weight"
                else (lambda name, kind=kind, at=theirs: state[at + name + kind])
            )
            names |= {
                attention + "input_layernorm." + kind: state[theirs + "ln_1." + kind],
                attention + "self_attention.linear_qkv." + kind: by_head(matrix("attn.c_attn.")),
                attention + "self_attention.linear_proj." + kind: matrix("attn.c_proj."),
                feed_forward + "pre_mlp_layernorm." + kind: state[theirs + "ln_2." + kind],
                feed_forward + "mlp.linear_fc1." + kind: matrix("mlp.c_fc."),
                feed_forward + "mlp.linear_fc2." + kind: matrix("mlp.c_proj."),
            }
    ours = dict(model.named_parameters())
    assert set(ours) == set(names)
    for name, parameter in ours.items():
        parameter.data.view(-1)[: names[name].numel()].copy_(names[name].reshape(-1))


def test_logits_of_the_gpt_recipe_equal_those_of_gpt2(measured):
    difference, largest = measured["gpt2_logits"]
    assert largest > 1
    assert difference < 1e-5 * largest


SHAPES: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "llama, untied": LLAMA | {"share_embeddings_and_output_weights": False},
    "llama, query and key norms": LLAMA | {"qk_layernorm": True},
    "llama, biases of query, key, value": LLAMA | {"add_qkv_bias": True},
    "gpt": GPT,
    "gpt, no positions": GPT | {"position_embedding_type": "none"},
}


def counts() -> dict[str, tuple[int, int]]:
    """By shape: parameters of the built model, and of the estimate that a dry run prints."""
    from megatron.core import parallel_state

    from trainwright.recipes import ResolvedRun, estimate
    from trainwright.runner.models import build_model

    found = {}
    for name, model in SHAPES.items():
        config = configuration(model)
        start_groups(config)
        (built,) = build_model(config, vocab_size=VOCABULARY)
        resolved = ResolvedRun(
            config=config,
            recipe="",
            mode="pretrain",
            step_func="",
            world_size=1,
            device="cpu",
            sources={},
            warnings=(),
            canonical=False,
        )
        found[name] = sum(p.numel() for p in built.parameters()), estimate(resolved).parameters
        parallel_state.destroy_model_parallel()
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_the_estimate_counts_the_parameters_that_are_built(measured, shape):
    built, estimated = measured["counts"][shape]
    assert built == estimated


def sixteen_bits() -> tuple[str, float, float]:
    """Type of the weights in bf16, and the losses of bf16 and fp32 from the same seed."""
    from megatron.core import parallel_state
    from tests.runner.megatron_training import backward, build

    losses = []
    for bf16 in (True, False):
        config = configuration(GPT, mixed_precision={"bf16": bf16})
        start_groups(config)
        chunks, optimizer, _ = build(config, VOCABULARY)
        losses.append(backward(chunks, optimizer, [tokens(length=65)]))
        optimizer.step()
        if bf16:
            kind = str(next(iter(chunks[0].parameters())).dtype)
            parallel_state.destroy_model_parallel()
    return kind, *losses


def test_bf16_trains_in_bf16_and_near_fp32(measured):
    kind, half, single = measured["sixteen_bits"]
    assert kind == "torch.bfloat16"
    assert half != single
    assert half == pytest.approx(single, rel=1e-2)
