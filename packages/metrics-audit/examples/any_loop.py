import sys
import time
from pathlib import Path

from trainwright.metrics_audit.writer import SessionLog

recipe = {"name": "mine", "mode": "pretrain", "batch_size": 4, "seq_len": 128, "gradient_accumulation_steps": 2}
hardware = {"device": "cpu", "world_size": 1, "nodes": 1}
total = {"step": 0, "tokens": 0, "skipped_updates": 0}
with SessionLog.open(Path(sys.argv[1] if sys.argv[1:] else "runs/mine"), run_id="mine-1") as log:
    log.start_session(start=total, recipe={**recipe, "qk_clip_threshold": None}, hardware=hardware, optimizers=["sgd"])
    begin = time.perf_counter()
    for step in range(1, 51):
        before = time.perf_counter()
        loss, grad_norm = 4 / step, 1.0  # your training step
        now = time.perf_counter()
        total = {"step": step, "tokens": step * 4 * 128 * 2, "skipped_updates": 0}
        clock = {"elapsed_seconds": now - begin, "tokens": total["tokens"], "profiling_seconds": 0.0}
        clock["tokens_per_second"] = total["tokens"] / (now - begin)
        memory = {"allocated_bytes": 0, "reserved_bytes": 0}
        qk_clip = {"threshold": None, "max_logit": None, "clipped_head_updates": 0, "observed_head_updates": 0}
        log.write(
            "train", step=step, updates=1, skipped_updates=0, attempted_updates=1, tokens=4 * 128 * 2,
            train_seconds=now - before, loss=loss, learning_rates={"default": 0.1}, grad_norm=grad_norm,
            grad_norm_max=grad_norm, nonfinite_grad_norms=0, gradient_clipped_fraction=0.0, qk_clip=qk_clip,
            total=total, session=clock, memory=memory,
        )  # fmt: skip
    log.write("session_end", step=50, total=total, session=clock, memory=memory)
