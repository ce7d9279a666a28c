"""Runs of a tiny Llama on real bytes, for the tests that train."""

import json
import os
import signal
import threading
import time
from pathlib import Path

# Small enough for seconds, and with everything that parallelism can get wrong: grouped query attention, scaled rotary
# frequencies, SwiGLU, RMSNorm, tied embeddings.
TINY = (
    "model.num_layers=4",
    "model.hidden_size=64",
    "model.num_attention_heads=8",
    "model.num_query_groups=4",
    "model.kv_channels=8",
    "model.ffn_hidden_size=128",
    "model.rope_scaling_original_max_position_embeddings=32",
    "model.make_vocab_size_divisible_by=8",
    "tokenizer.tokenizer_type=ByteLevelTokenizer",
    "tokenizer.vocab_size=null",
    "dataset.seq_length=64",
    "dataset.split='100,0,0'",
    "validation.eval_interval=null",
    "train.global_batch_size=8",
    "train.micro_batch_size=2",
    "train.train_iters=10",
    "scheduler.lr_warmup_iters=0",
    "optimizer.lr=0.003",
    "optimizer.min_lr=0.003",
    "logger.log_interval=1",
    "mixed_precision=fp32",
    "ddp.use_distributed_optimizer=false",
    "ddp.overlap_grad_reduce=false",
    "ddp.overlap_param_gather=false",
    "ddp.average_in_collective=false",
)


def corpus(folder: Path) -> str:
    """A few files of the standard library as indexed bytes; returns the prefix."""
    from trainwright.datasets.prepare import prepare
    from trainwright.recipes.config.data import TokenizerConfig

    library = Path(os.__file__).parent
    prefix = folder / "corpus"
    tokenizer = TokenizerConfig(tokenizer_type="ByteLevelTokenizer")
    prepare([library / "argparse.py", library / "ast.py", library / "inspect.py"], prefix, tokenizer, workers=1)
    return str(prefix)


def train(
    run_dir: Path, data: str, *words: str, world_size: int = 1, recipe: str = "llama32_1b_pretrain_config"
) -> int:
    """One session on this rank; returns the exit code. To be called by `run_ranks`."""
    from trainwright.recipes import Selection, resolve
    from trainwright.runner.run import run

    overrides = [*TINY, f"dataset.data_path={data}", *words]
    selection = Selection(recipe=recipe, mode="pretrain", dataset="megatron-indexed")
    return run(resolve(selection, overrides, world_size=world_size, device="cpu"), run_dir=run_dir)


def train_on(world_size: int, run_dir: Path, data: str, *words: str) -> int:
    """`train` on one of `world_size` ranks."""
    return train(run_dir, data, *words, world_size=world_size)


def train_until(when: str, world_size: int, run_dir: Path, data: str, *words: str) -> int:
    """Like `train`, and every rank is hit on the way.

    `when` is `SIGTERM 3`: that signal once three updates are in the log; `SIGKILL 3 0.05`: fifty milliseconds later; or
    `SIGKILL saving 0.01`: ten milliseconds into the writing of a checkpoint.
    """
    name, moment, *delay = when.split()

    def come() -> bool:
        if moment == "saving":
            return any((run_dir / "checkpoints").glob(".partial_*/*"))
        return steps_logged(run_dir) >= int(moment)

    def hit() -> None:
        while not come():
            time.sleep(0.001)
        time.sleep(float(delay[0]) if delay else 0)
        os.kill(os.getpid(), getattr(signal, name))

    threading.Thread(target=hit, daemon=True).start()
    return train(run_dir, data, *words, world_size=world_size)


def records(run_dir: Path) -> list[dict]:
    """The committed lines of the session log."""
    path = run_dir / "metrics.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def steps_logged(run_dir: Path) -> int:
    """The newest update in the log."""
    return max((record["step"] for record in records(run_dir) if record["event"] == "train"), default=0)


def losses(run_dir: Path) -> dict[int, float]:
    """Loss by step; where a session repeats what a crash rolled back, its own."""
    return {record["step"]: record["loss"] for record in records(run_dir) if record["event"] == "train"}
