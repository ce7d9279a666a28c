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
YARN = {
    "factor": "yarn_rotary_scaling_factor",
    "original_max_position_embeddings": "yarn_original_max_position_embeddings",
    "beta_fast": "yarn_beta_fast",
    "beta_slow": "yarn_beta_slow",
    "truncate": "yarn_correction_range_round_to_int",
}
"""Of YaRN (arXiv:2309.00071)."""
LATENT_YARN = {
    "factor": "rotary_scaling_factor",
    "original_max_position_embeddings": "original_max_position_embeddings",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "mscale": "mscale",
    "mscale_all_dim": "mscale_all_dim",
}
"""Of YaRN under multi-latent attention."""
DEFAULTS = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True, "mscale": 1.0, "mscale_all_dim": 0.0}
ELSEWHERE = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}


def parameters(fields: Fields, *, theta: float, share: float = 1.0) -> dict[str, Any]:
    """All of it in one mapping, `rope_type`, `rope_theta` and `partial_rotary_factor` always there.

    `theta` and `share` are the class's defaults.
    """
    newer, older = fields.take("rope_parameters", {}), fields.take("rope_scaling", {})
    fields.only("rope_interleaved", (False,))
    for name, value in {"rope_parameters": newer, "rope_scaling": older}.items():
        if not isinstance(value, dict):
            raise RunRefused(f"{fields.where}: {name}={value!r} is no mapping")
    found = {
        "rope_theta": fields.take("rope_theta", theta),
        "partial_rotary_factor": fields.take("partial_rotary_factor", share),
        **older,
        **newer,
    }
    return {**found, "rope_type": found.get("rope_type") or found.get("type") or "default"}


def read_rope(fields: Fields, *, theta: float = 10_000.0, share: float = 1.0) -> dict[str, Any]:
    """Rotary fields of ours: plain, or scaled as in Llama 3.1.

    Raises:
        RunRefused: another scaling, or one that lacks or has further words.
    """
    found = parameters(fields, theta=theta, share=share)
    ours = {
        "position_embedding_type": "rope",
        "rotary_base": float(found["rope_theta"]),
        "rotary_percent": float(found["partial_rotary_factor"]),
    }
    match found["rope_type"]:
        case "default":
            return ours
        case "llama3":
            return ours | {"rope_scaling": True} | _scaling(found, LLAMA3, fields)
        case "yarn":
            return ours | {"position_embedding_type": "yarn"} | _scaling(found, YARN, fields)
        case _:
            raise _unknown(found, fields, "'default', 'llama3' or 'yarn'")


def write_rope(model: ModelConfig) -> dict[str, Any]:
    """The same in the older words, which both read."""
    if model.position_embedding_type == "yarn":
        return write_yarn(model)
    scaling = {theirs: getattr(model, ours) for theirs, ours in LLAMA3.items()} if model.rope_scaling else None
    return {
        "rope_theta": model.rotary_base,
        "rope_scaling": {"rope_type": "llama3", **scaling} if scaling else None,
    }


def read_yarn(fields: Fields, *, theta: float) -> dict[str, Any]:
    """Rotary fields of ours where a family always has YaRN."""
    found = parameters(fields, theta=theta)
    if found["rope_type"] != "yarn":
        raise _unknown(found, fields, "'yarn'")
    ours = {"position_embedding_type": "yarn", "rotary_base": float(found["rope_theta"])}
    return ours | _scaling(found, YARN, fields)


def write_yarn(model: ModelConfig) -> dict[str, Any]:
    """The same back."""
    scaling = {theirs: getattr(model, ours) for theirs, ours in YARN.items()}
    return {"rope_theta": model.rotary_base, "rope_scaling": {"rope_type": "yarn", **scaling}}


def read_latent_rope(fields: Fields) -> dict[str, Any]:
    """Rotary fields of ours under multi-latent attention: plain or YaRN."""
    found = parameters(fields, theta=10_000.0)
    ours = {"position_embedding_type": "rope", "rotary_base": float(found["rope_theta"])}
    match found["rope_type"]:
        case "default":
            return ours | {"rope_type": "rope"}
        case "yarn":
            return ours | {"rope_type": "yarn"} | _scaling(found, LATENT_YARN, fields)
        case _:
            raise _unknown(found, fields, "'default' or 'yarn'")


def write_latent_rope(model: ModelConfig) -> dict[str, Any]:
    """The same back."""
    scaling = {theirs: getattr(model, ours) for theirs, ours in LATENT_YARN.items()}
    return {
        "rope_theta": model.rotary_base,
        "rope_scaling": {"rope_type": "yarn", **scaling} if model.rope_type == "yarn" else None,
    }


def _scaling(found: dict[str, Any], names: dict[str, str], fields: Fields) -> dict[str, Any]:
    where = Fields(found, f"{fields.where}: the rotary embedding")
    unknown = sorted(found.keys() - names.keys() - ELSEWHERE)
    if unknown:
        raise RunRefused(f"{where.where} has words not known here: {', '.join(unknown)}")
    taken = {theirs: where.take(theirs, DEFAULTS.get(theirs, REQUIRED)) for theirs in names}
    whole = ("original_max_position_embeddings", "truncate")
    return {names[theirs]: value if theirs in whole else float(value) for theirs, value in taken.items()}


def _unknown(found: dict[str, Any], fields: Fields, allowed: str) -> RunRefused:
    return RunRefused(f"{fields.where}: rope_type={found['rope_type']!r} is not known here; it can be {allowed}")
