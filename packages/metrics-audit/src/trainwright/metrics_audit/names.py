"""The names of the session log, version 1: what its files, events and keys are called.

The writer and the audit share this module and nothing else, so it holds no arithmetic and no validation.
"""

MANIFEST_FILE = "run.json"
METRICS_FILE = "metrics.jsonl"
TORN_FILE_PREFIX = "metrics.jsonl.torn-"
SCHEMA_VERSION = 1

TRAIN = "train"
VAL = "val"
CHECKPOINT = "checkpoint"
SESSION_END = "session_end"
SESSION_INTERRUPTED = "session_interrupted"

POINT_KEYS = ("step", "tokens", "skipped_updates")
"""A place in the run, in the form of a session's ``start`` and of a record's ``total``."""

MANIFEST_KEYS = ("schema_version", "run_id", "created_at", "sessions")
SESSION_KEYS = ("session_id", "started_at", "start", "recipe", "hardware", "optimizers")
RECIPE_KEYS = ("name", "mode", "batch_size", "seq_len", "gradient_accumulation_steps", "qk_clip_threshold")
HARDWARE_KEYS = ("device", "world_size", "nodes")

STAMP_KEYS = ("event", "run_id", "session_id", "time", "step")
"""What the writer itself puts on every record."""

COMMON_KEYS = (*STAMP_KEYS, "session", "memory")
SESSION_CLOCK_KEYS = ("elapsed_seconds", "tokens", "tokens_per_second", "profiling_seconds")
MEMORY_KEYS = ("allocated_bytes", "reserved_bytes")
PENDING_KEYS = ("skipped_updates", "tokens")
QK_CLIP_KEYS = ("threshold", "max_logit", "clipped_head_updates", "observed_head_updates")

EVENT_KEYS = {
    TRAIN: (
        "updates",
        "skipped_updates",
        "attempted_updates",
        "tokens",
        "train_seconds",
        "loss",
        "learning_rates",
        "grad_norm",
        "grad_norm_max",
        "nonfinite_grad_norms",
        "gradient_clipped_fraction",
        "qk_clip",
        "total",
    ),
    VAL: ("loss",),
    CHECKPOINT: ("path", "seconds", "total", "pending"),
    SESSION_END: ("total",),
    SESSION_INTERRUPTED: ("total", "pending", "reason"),
}
"""What each event holds besides the common keys."""
