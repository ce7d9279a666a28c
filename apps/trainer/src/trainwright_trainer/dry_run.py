"""`run-recipe --dry-run`: the configuration goes to stdout, how large the run is goes to stderr."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.recipes.words import UsageError
from trainwright_trainer.sizes import binary

if TYPE_CHECKING:
    from trainwright.recipes import ResolvedRun


def show(resolved: ResolvedRun) -> None:
    """Print the configuration as YAML to stdout and a summary to stderr.

    Writes one file, and only where `logger.save_config_filepath` names it.
    """
    from trainwright.recipes import to_yaml

    text = to_yaml(resolved.config)
    saved = resolved.config.logger.save_config_filepath
    if saved is not None:
        save(Path(saved), text)
    sys.stdout.write(text)
    sys.stdout.flush()
    for line in summary(resolved):
        print(line, file=sys.stderr)


def save(path: Path, text: str) -> None:
    """Write the configuration; parents are created. An older configuration there is replaced, any other file is not.

    Raises:
        UsageError: it cannot be written, or the file that is there is something else.
    """
    from trainwright.recipes import ConfigError, from_yaml
    from trainwright.runner.directory import write_atomically

    word = f"logger.save_config_filepath={path}"
    try:
        if path.exists():
            from_yaml(path.read_text(encoding="utf-8"))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    except (ConfigError, UnicodeDecodeError):
        raise UsageError(f"{word} is there already and is no configuration; name another file") from None
    except OSError as error:
        raise UsageError(f"{word} cannot be written: {error.strerror}") from None


def summary(resolved: ResolvedRun) -> list[str]:
    """Lines that say how large the run is, and what made it differ from its recipe."""
    return [f"{name:<10}  {text}" for name, text in described(resolved).items()]


def described(resolved: ResolvedRun) -> dict[str, str]:
    """The same by name: what the run is, how it is laid out, how large it is."""
    from trainwright.recipes import estimate

    size, model, train = estimate(resolved), resolved.config.model, resolved.config.train
    held = size.memory
    grid = (
        f"TP {model.tensor_model_parallel_size}, PP {model.pipeline_model_parallel_size}, "
        f"CP {model.context_parallel_size}, DP {resolved.data_parallel_size}"
    )
    if model.num_moe_experts is not None:
        grid += f", EP {model.expert_model_parallel_size}, ETP {model.expert_tensor_parallel_size}"
    active = f", {size.active_parameters:,} of them for each token" if model.num_moe_experts is not None else ""
    typed = [f"{field} ({source})" for field, source in resolved.sources.items() if source.startswith(("flag", "over"))]
    return {
        "recipe": f"{resolved.recipe}, {resolved.mode}, {resolved.step_func}" + ", canonical" * resolved.canonical,
        "ranks": f"{resolved.world_size} on {resolved.device}: {grid}",
        "changed": ", ".join(typed) or "nothing",
        "updates": f"{train.train_iters:,} of {train.global_batch_size:,} sequences, "
        f"{resolved.num_microbatches:,} micro-batches of {train.micro_batch_size} on each rank",
        "samples": f"{size.samples:,}",
        "tokens": f"{size.tokens:,}",
        "operations": f"{size.operations_per_update:.4g} model FLOPs in an update, "
        f"{size.operations_per_update / resolved.world_size:.4g} on each rank",
        "parameters": f"{size.parameters:,}{active}, {held.parameters:,} on the fullest rank",
        "trainable": size.trainable,
        "memory": f"{binary(held.total)} on the fullest rank: {binary(held.weights)} weights, "
        f"{binary(held.gradients)} gradients, {binary(held.optimizer)} optimizer, {binary(held.activations)} "
        "activations; libraries come on top",
    }
