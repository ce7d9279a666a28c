"""Rotary embeddings in a `config.json`, as transformers 4 (`rope_theta`, `rope_scaling`) and 5 (`rope_parameters`)
write them."""

from __future__ import annotations

from typing import Any

from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.fields import REQUIRED, Fields

LLAMA3 = {
    "factor": "rope_scaling_factor",
    "low_freq_factor": "rope_scaling_low_freq_factor",
    "high_freq_factor": "rope_scaling_high_freq_factor",
    "original_max_position_embeddings": "rope_scaling_original_max_position_embeddings",
}
"""Their names and ours of Llama 3.1's scaling."""
IGNORED = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}


def parameters(fields: Fields, *, theta: float) -> dict[str, Any]:
    """All of it in one mapping, `rope_type` and `rope_theta` always there; `theta` is the class's default."""
    newer, older = fields.take("rope_parameters", {}), fields.take("rope_scaling", {})
    fields.only("rope_interleaved", (False,))
    for name, value in {"rope_parameters": newer, "rope_scaling": older}.items():
        if not isinstance(value, dict):
            raise RunRefused(f"{fields.where}: {name}={value!r} is no mapping")
    found = {"rope_theta": fields.take("rope_theta", theta), **older, **newer}
    return {**found, "rope_type": found.get("rope_type") or found.get("type") or "default"}


def read_rope(fields: Fields, *, theta: float = 10_000.0) -> dict[str, Any]:
    """Rotary fields of ours: plain, or scaled as in Llama 3.1.

    Raises:
        RunRefused: another scaling, or one that lacks or has further words.
    """
    found = parameters(fields, theta=theta)
    ours: dict[str, Any] = {"position_embedding_type": "rope", "rotary_base": float(found["rope_theta"])}
    match found["rope_type"]:
        case "default":
            return ours
        case "llama3":
            return ours | {"rope_scaling": True} | _scaling(found, LLAMA3, fields)
        case other:
            raise RunRefused(f"{fields.where}: rope_type={other!r} is not known here; it can be 'default' or 'llama3'")


def _scaling(found: dict[str, Any], names: dict[str, str], fields: Fields) -> dict[str, Any]:
    where = Fields(found, f"{fields.where}: the rotary embedding")
    unknown = sorted(found.keys() - names.keys() - IGNORED)
    if unknown:
        raise RunRefused(f"{where.where} has words not known here: {', '.join(unknown)}")
    taken = {ours: where.take(theirs, REQUIRED) for theirs, ours in names.items()}
    return {ours: value if ours.endswith("embeddings") else float(value) for ours, value in taken.items()}


def write_rope(model: ModelConfig) -> dict[str, Any]:
    """The same in the older words, which both read."""
    scaling = {theirs: getattr(model, ours) for theirs, ours in LLAMA3.items()} if model.rope_scaling else None
    return {
        "rope_theta": model.rotary_base,
        "rope_scaling": {"rope_type": "llama3", **scaling} if scaling else None,
    }
