"""Sessions that are told what happened, without training: for the tests of what telemetry makes of it."""

import contextlib
import io
import json
import time
from functools import cache

import torch

from trainwright.metrics_audit.writer import SessionLog
from trainwright.recipes import Selection, resolve
from trainwright.runner.telemetry import Attempt, Telemetry, Totals

# One update is 4 sequences of 16 tokens: 1 sequence on each of 2 ranks, 2 micro-batches.
TOKENS = 64
SETTINGS = (
    "train.micro_batch_size=1",
    "train.global_batch_size=4",
    "train.train_iters=10",
    "dataset.seq_length=16",
    "scheduler.lr_warmup_iters=0",
    "logger.log_interval=4",
)


class Meter:
    """A device that reports the memory peaks it was given, then stays at the last."""

    kind = "cpu"
    torch_device = torch.device("cpu")

    def __init__(self, *peaks):
        self.peaks = list(peaks) or [(1000, 2000)]

    def memory(self):
        allocated, reserved = self.peaks.pop(0) if len(self.peaks) > 1 else self.peaks[0]
        return {"allocated_bytes": allocated, "reserved_bytes": reserved}


@cache
def resolved(*overrides):
    return resolve(Selection(recipe="vanilla_gpt_pretrain_config"), [*SETTINGS, *overrides], world_size=2, device="cpu")


def applied(loss, *, grad_norm=1.0, clipped=False, seconds=0.5, lr=0.001, **more):
    rates = more.pop("learning_rates", {"default": lr})
    return Attempt(loss, grad_norm, True, clipped, TOKENS, TOKENS - 4, seconds, rates, **more)


def skipped(*, grad_norm=float("inf"), loss=None, seconds=0.5, **more):
    return Attempt(loss, grad_norm, False, False, TOKENS, TOKENS - 4, seconds, {"default": 0.001}, **more)


@contextlib.contextmanager
def session(run_dir, *overrides, start=(0, 0, 0), device=None, elapsed=10.0, stream=None, **options):
    """An open session of the run, which began `elapsed` seconds ago."""
    with (
        SessionLog.open(run_dir, run_id="run-1") as log,
        Telemetry.open(
            run_dir,
            resolved(*overrides),
            run_id=log.run_id,
            log=log,
            start=Totals(*start),
            device=device or Meter(),
            session_clock_start=time.monotonic() - elapsed,
            stream=stream or io.StringIO(),
            **options,
        ) as telemetry,
    ):
        yield telemetry


def records(run_dir, event=None):
    lines = (run_dir / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if event in (None, record["event"])]
