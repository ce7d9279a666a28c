"""How fast is the runner's training step beside the loops it replaces?

    python benchmarks/train_step.py [--pairs 9] [--threads 2] [model.hidden_size=256 ...]

Prints tokens/s of the runner's own step (`trainwright.runner.step.train_step`) and of

(a) a plain PyTorch loop over transformers' Llama: same sizes, same token ids, float32, PyTorch's
    `scaled_dot_product_attention`, gradient clipping, AdamW with the fused kernel (the fastest PyTorch has);
(b) Megatron Core's schedule and optimizer step on the runner's model, without the runner's loop;
(c) for information, Megatron Core's own local layers in the place of the runner's, also without the loop.

One rank, so many threads, each reference in turn with the runner's step; a pair's ratio is the reference's time over
the runner's, and the median over the pairs is printed. Aims: at least 1.0 of (a), at least 0.95 of (b). Other work on
the machine slows both of a pair, but not by the same: look at the spread, and repeat on a quiet machine.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

SIZES = (
    "model.num_layers=4",
    "model.hidden_size=512",
    "model.num_attention_heads=8",
    "model.num_query_groups=4",
    "model.ffn_hidden_size=1536",
    "tokenizer.vocab_size=8192",
    "dataset.seq_length=512",
    "train.micro_batch_size=1",
    "train.global_batch_size=2",
    "scheduler.lr_warmup_iters=0",
    "optimizer.lr=0.0001",
    "optimizer.min_lr=0.0001",
    "train.train_iters=1000",
    # Nothing to share and nothing to overlap with on one rank.
    "ddp.use_distributed_optimizer=false",
    "ddp.overlap_grad_reduce=false",
    "ddp.overlap_param_gather=false",
)
"""Llama 3.2 1B's architecture at a size that two threads do a step of in under a second."""

Step = Callable[[list[Any]], object]
"""Does one update with a list of micro-batches."""


def configuration(overrides: Sequence[str]) -> Any:
    """Return the resolved run: the library recipe with the sizes above and what was typed."""
    from trainwright.recipes import Selection, resolve

    return resolve(
        Selection(recipe="llama32_1b_pretrain_config", mode="pretrain"),
        [*SIZES, *overrides],
        world_size=1,
        device="cpu",
    )


def batch(resolved: Any, seed: int) -> list[Any]:
    """Return the micro-batches of one update, random token ids, as the loader makes them."""
    import torch

    config = resolved.config
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(resolved.num_microbatches):
        shape = (config.train.micro_batch_size, config.dataset.seq_length + 1)
        ids = torch.randint(0, config.tokenizer.vocab_size, shape, generator=generator)
        tokens, labels = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
        positions = torch.arange(config.dataset.seq_length).expand_as(tokens)
        mask = torch.ones_like(tokens, dtype=torch.float32)
        made.append({"tokens": tokens, "labels": labels, "loss_mask": mask, "position_ids": positions})
    return made


def runner_step(resolved: Any, device: Any) -> Step:
    """Return the runner's own step."""
    from trainwright.runner.build import build_trainer
    from trainwright.runner.step import train_step

    trainer, _ = build_trainer(resolved, device)
    return lambda batches: train_step(trainer, iter(batches))


def transformers_step(resolved: Any) -> Step:
    """Return (a): the loop that somebody writes around transformers."""
    import torch
    import torch.nn.functional as F
    from transformers import LlamaConfig, LlamaForCausalLM

    config, model = resolved.config, resolved.config.model
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.tokenizer.vocab_size,
            hidden_size=model.hidden_size,
            intermediate_size=model.ffn_hidden_size,
            num_hidden_layers=model.num_layers,
            num_attention_heads=model.num_attention_heads,
            num_key_value_heads=model.num_query_groups,
            head_dim=model.kv_channels,
            max_position_embeddings=model.max_position_embeddings,
            tie_word_embeddings=model.share_embeddings_and_output_weights,
            attn_implementation="sdpa",
            use_cache=False,
        )
    ).train()
    optimizer = torch.optim.AdamW(llama.parameters(), lr=config.optimizer.lr, betas=(0.9, 0.95), fused=True)

    def step(batches: list[Any]) -> float:
        optimizer.zero_grad()
        total = 0.0
        for micro in batches:
            logits = llama(input_ids=micro["tokens"], position_ids=micro["position_ids"]).logits
            loss = F.cross_entropy(logits.flatten(0, 1), micro["labels"].flatten())
            (loss / len(batches)).backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(llama.parameters(), config.optimizer.clip_grad)
        optimizer.step()
        return total / len(batches)

    return step


def megatron_step(resolved: Any, model: Any) -> Step:
    """Return Megatron Core's schedule and optimizer on a model of its classes, and nothing around them."""
    import torch
    from megatron.core.pipeline_parallel import get_forward_backward_func

    from trainwright.runner.build import connect, wrap_for_data_parallelism
    from trainwright.runner.optim import build_optimizer, build_scheduler

    config = resolved.config
    chunks = wrap_for_data_parallelism([model], config)
    optimizer = build_optimizer(config, chunks)
    scheduler = build_scheduler(config, optimizer)
    connect(chunks, optimizer, config)
    schedule = get_forward_backward_func()

    def forward(batches: Any, chunk: Any) -> tuple[Any, Any]:
        micro = next(batches)
        losses = chunk(micro["tokens"], micro["position_ids"], None, labels=micro["labels"])
        return losses, lambda losses: (losses.sum(), torch.tensor(losses.numel()).int(), losses.detach().mean())

    def step(batches: list[Any]) -> None:
        chunks[0].zero_grad_buffer()
        optimizer.zero_grad()
        schedule(
            forward_step_func=forward,
            data_iterator=iter(batches),
            model=chunks[0],
            num_microbatches=len(batches),
            seq_length=config.dataset.seq_length,
            micro_batch_size=config.train.micro_batch_size,
            forward_only=False,
        )
        optimizer.step()
        scheduler.step(config.train.global_batch_size)

    return step


def runner_model(resolved: Any) -> Any:
    """Return the model of (b), the runner's."""
    from trainwright.runner.models import build_model

    return build_model(resolved.config, vocab_size=resolved.config.tokenizer.vocab_size)[0]


def megatron_model(resolved: Any) -> Any:
    """Return the model of (c): Megatron Core's GPT with its local layers, attention and norm."""
    import dataclasses

    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    from trainwright.recipes.parameters import padded_vocabulary
    from trainwright.runner.models import transformer_config

    config, model = resolved.config, resolved.config.model
    return GPTModel(
        config=dataclasses.replace(
            transformer_config(config),
            num_layers=model.num_layers,
            is_hybrid_model=False,
            use_te_activation_func=False,
            output_layer_init_method=None,
        ),
        transformer_layer_spec=get_gpt_layer_local_spec(normalization=model.normalization),
        vocab_size=padded_vocabulary(model, config.tokenizer.vocab_size),
        max_sequence_length=model.max_position_embeddings,
        share_embeddings_and_output_weights=model.share_embeddings_and_output_weights,
        position_embedding_type="rope",
        rotary_base=model.rotary_base,
    )


def timed(step: Step, batches: list[Any]) -> float:
    """Return the seconds of one update."""
    started = time.perf_counter()
    step(batches)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="changes of the sizes")
    words = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(words.threads)
    resolved = configuration(words.overrides)

    from trainwright.runner.distributed import place
    from trainwright.runner.run import come_up

    device = come_up(resolved, place(), deterministic=False)
    import torch

    torch.set_num_threads(words.threads)
    ours = runner_step(resolved, device)
    references = {
        "(a) PyTorch loop over transformers": transformers_step(resolved),
        "(b) Megatron Core without our loop": megatron_step(resolved, runner_model(resolved)),
        "(c) Megatron Core's own layers": megatron_step(resolved, megatron_model(resolved)),
    }
    tokens = resolved.config.train.global_batch_size * resolved.config.dataset.seq_length
    for step in (ours, *references.values()):  # caches fill, memory is mapped
        for seed in range(2):
            step(batch(resolved, seed))
    print(f"{tokens} tokens an update, {words.threads} threads, median of {words.pairs} pairs")
    batches = [batch(resolved, seed) for seed in range(words.pairs)]
    found = {name[1]: compare(name, ours, step, batches, tokens) for name, step in references.items()}
    print(json.dumps({"benchmark": "train_step", "threads": words.threads, "ratios": found}))


def compare(name: str, ours: Step, reference: Step, batches: list[list[Any]], tokens: int) -> float:
    """Time both on each batch, the first turn alternating; print the medians and return that of the ratios."""
    pairs = []
    for number, data in enumerate(batches):
        if number % 2:
            theirs, mine = timed(reference, data), timed(ours, data)
        else:
            mine, theirs = timed(ours, data), timed(reference, data)
        pairs.append((mine, theirs))
    ratios = sorted(theirs / mine for mine, theirs in pairs)
    mine, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(ratios)
    print(
        f"{name:36} {tokens / theirs:8.0f} tokens/s, the runner {tokens / mine:8.0f}: "
        f"{ratio:.3f} times (pairs from {ratios[0]:.3f} to {ratios[-1]:.3f})"
    )
    return round(ratio, 3)


if __name__ == "__main__":
    main()
