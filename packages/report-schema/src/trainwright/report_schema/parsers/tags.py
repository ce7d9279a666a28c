"""Which TensorBoard tag of which framework is which metric."""

import re
from collections.abc import Callable, Mapping

type MetricTags = Mapping[str, tuple[str, ...]]
"""For each metric its tag, and the tags of older releases."""

NEMO_RUN_TAGS: MetricTags = {
    "step_time_sec": ("train_step_timing in s",),
    "loss": ("reduced_train_loss",),
    # NeMo up to 2.3 logged the second name of each, from 2.4 on the first; all are bytes, peaks since the start.
    "memory_reserved_bytes": ("max_memory_reserved", "peak_memory_usage"),
    "memory_allocated_bytes": ("max_memory_allocated", "memory_allocated"),
    "tflops_per_gpu": ("TFLOPS_per_GPU",),
}
MEGATRON_RUN_TAGS: MetricTags = {
    "step_time_sec": ("iteration-time",),
    "loss": ("lm loss",),
    "memory_reserved_bytes": ("mem-reserved-bytes",),
    "memory_allocated_bytes": ("mem-allocated-bytes",),
    "tflops_per_gpu": ("throughput",),
}
MEGATRON_BRIDGE_TAGS: MetricTags = {
    "step_time_sec": ("iteration-time",),
    "loss": ("lm loss",),
    "memory_reserved_bytes": ("memory/mem-reserved-gigabytes",),
    "memory_allocated_bytes": ("memory/mem-allocated-gigabytes",),
    "tflops_per_gpu": ("throughput/tflops/device",),
}
MEGATRON_BRIDGE_SCALE = {"memory_reserved_bytes": 1e9, "memory_allocated_bytes": 1e9}
"""Megatron Bridge logs gigabytes of 10^9 bytes (not GiB), rounded to five significant digits."""

_TEXT_SUFFIX = "/text_summary"


def metric_lookup(tags: MetricTags) -> Callable[[str], str | None]:
    """The metric of a tag, in the framework's spelling or as tensorboardX cleans it; ``None`` for any other tag.

    Tags that end in `` vs samples`` are none of these: their steps count samples.
    """
    metrics = {
        spelling: metric for metric, names in tags.items() for name in names for spelling in (name, _clean(name))
    }
    return metrics.get


def text_or_metric_lookup(tags: MetricTags) -> Callable[[str], str | None]:
    """Like :func:`metric_lookup`; a text written by ``add_text(name, ...)`` is called ``text:name``."""
    metric_of = metric_lookup(tags)

    def name_of(tag: str) -> str | None:
        return f"text:{tag.removesuffix(_TEXT_SUFFIX)}" if tag.endswith(_TEXT_SUFFIX) else metric_of(tag)

    return name_of


def _clean(tag: str) -> str:
    """A tag as tensorboardX writes it: characters that are not allowed in a TensorFlow name become underscores."""
    return re.sub(r"[^-/\w.]", "_", tag).lstrip("/")
