"""The learning rate and weight decay of each update against their formulas, and what the optimizer decays."""

import math
from typing import Any

import pytest
from tests.runner.small_models import GPT, VOCABULARY, configuration, start_groups

from trainwright.runner.optim import build_scheduler
from trainwright.runner.testing import run_ranks

PEAK, LOW, WARMUP, DECAY, BATCH = 0.01, 0.001, 4, 10, 8


class Groups:
    """All that a schedule touches of an optimizer."""

    def __init__(self) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": [], "wd_mult": 1.0}, {"params": [], "wd_mult": 0.0}]


def schedule(updates: int = 12, **changes: Any) -> list[dict[str, float]]:
    """The first group before each update, and the last entry after them all."""
    weight_decay = {name: changes.pop(name) for name in list(changes) if "weight_decay" in name}
    config = configuration(
        GPT,
        optimizer={"lr": PEAK, "min_lr": LOW, "weight_decay": 0.1},
        scheduler={"lr_warmup_iters": WARMUP, "lr_decay_iters": DECAY} | changes | weight_decay,
        train={"train_iters": 10, "global_batch_size": BATCH},
    )
    optimizer = Groups()
    scheduler = build_scheduler(config, optimizer)  # type: ignore[arg-type]
    seen = [dict(optimizer.param_groups[0])]
    for _ in range(updates):
        scheduler.step(BATCH)
        seen.append(dict(optimizer.param_groups[0]))
    assert optimizer.param_groups[1]["weight_decay"] == 0
    return seen


def linear(progress: float) -> float:
    return 1 - progress


def cosine(progress: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * progress))


@pytest.mark.parametrize(("style", "shape"), [("linear", linear), ("cosine", cosine), ("constant", lambda _: 1.0)])
def test_the_rate_warms_up_decays_and_stays(style, shape):
    rates = [group["lr"] for group in schedule(lr_decay_style=style)]
    low = PEAK if style == "constant" else LOW
    for update, rate in enumerate(rates):
        if update <= WARMUP:
            expected = PEAK * update / WARMUP
        else:
            expected = low + (PEAK - low) * shape(min(1, (update - WARMUP) / (DECAY - WARMUP)))
        assert rate == pytest.approx(expected, rel=1e-12)


def test_the_rate_starts_where_warmup_says():
    rates = [group["lr"] for group in schedule(lr_decay_style="constant", lr_warmup_init=0.002)]
    assert rates[:5] == pytest.approx([0.002, 0.004, 0.006, 0.008, 0.01])


def test_the_rate_falls_only_at_the_end_under_wsd():
    rates = [g["lr"] for g in schedule(lr_decay_style="WSD", lr_wsd_decay_iters=2, lr_wsd_decay_style="linear")]
    assert rates[4:9] == pytest.approx([PEAK] * 5)
    assert rates[9:11] == pytest.approx([(PEAK + LOW) / 2, LOW])


def test_the_rate_falls_with_the_root_of_the_updates():
    rates = [group["lr"] for group in schedule(lr_decay_style="inverse-square-root", lr_decay_iters=100)]
    assert rates[9] == pytest.approx(PEAK * math.sqrt(WARMUP / 9))


def test_the_run_is_the_decay_where_none_is_given():
    assert schedule(lr_decay_style="linear", lr_decay_iters=None)[10]["lr"] == pytest.approx(LOW)


def test_weight_decay_stays_or_grows():
    assert {group["weight_decay"] for group in schedule()} == {0.1}
    grown = schedule(start_weight_decay=0.0, end_weight_decay=0.2, weight_decay_incr_style="linear")
    assert [group["weight_decay"] for group in grown[:11]] == pytest.approx([0.02 * update for update in range(11)])


def test_the_same_samples_give_the_same_rate_at_another_batch_size():
    """Steps count sequences: a run resumed with half the batch goes on where it was."""
    config = configuration(GPT, optimizer={"lr": PEAK}, train={"global_batch_size": BATCH})
    whole, halves = Groups(), Groups()
    build_scheduler(config, whole).step(4 * BATCH)  # type: ignore[arg-type]
    for scheduler in [build_scheduler(config, halves)]:  # type: ignore[arg-type]
        for _ in range(8):
            scheduler.step(BATCH // 2)
    assert whole.param_groups[0]["lr"] == halves.param_groups[0]["lr"]


def groups_by_kind() -> dict[str, Any]:
    """On one rank: which parameters decay, and the type of optimizer for each kind."""
    from tests.runner.megatron_training import build

    from trainwright.runner.devices.cpu.adam import GroupStepAdam

    found = {}
    for kind, section in {
        "adam": {"optimizer": "adam"},
        "sgd": {"optimizer": "sgd", "sgd_momentum": 0.5},
        "sharded": {"use_distributed_optimizer": True},
    }.items():
        sharded = section.get("use_distributed_optimizer", False)
        config = configuration(
            GPT, optimizer={"lr": PEAK, "weight_decay": 0.1} | section, ddp={"use_distributed_optimizer": sharded}
        )
        start_groups(config)
        _, optimizer, _ = build(config, VOCABULARY)
        inner = optimizer.chained_optimizers[0] if hasattr(optimizer, "chained_optimizers") else optimizer
        found[kind] = {
            "wrapper": type(inner).__name__,
            "group step": isinstance(inner.optimizer, GroupStepAdam),
            "momentum": inner.optimizer.param_groups[0].get("momentum"),
            "decays": [
                (group["weight_decay"], sorted({p.dim() for p in group["params"]})) for group in optimizer.param_groups
            ],
        }
        from megatron.core import parallel_state

        parallel_state.destroy_model_parallel()
    return found


@pytest.mark.distributed
def test_matrices_decay_and_vectors_do_not_whatever_the_optimizer():
    found = run_ranks(groups_by_kind, 1)[0]
    for kind in ("adam", "sgd"):
        assert found[kind]["decays"] == [(0.1, [2]), (0.0, [1])]
    assert found["adam"]["group step"] and not found["sgd"]["group step"]
    assert found["sgd"]["momentum"] == 0.5
    assert found["sharded"]["wrapper"] == "DistributedOptimizer"
    assert [decay for decay, _ in found["sharded"]["decays"]] == [0.1, 0.0]
