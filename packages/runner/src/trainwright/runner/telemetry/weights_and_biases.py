"""The optional copy of a run's scalars at Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from trainwright.runner.errors import RunRefused
from trainwright.runner.telemetry.redaction import redact

if TYPE_CHECKING:
    from trainwright.recipes import ConfigContainer

STEP = "step"


def require(config: ConfigContainer) -> None:
    """Find out, before anything is started, whether what `logger.wandb_project` asks for can be done.

    Raises:
        RunRefused: the wandb package is not installed.
    """
    if config.logger.wandb_project is not None:
        _package()


def _package() -> Any:
    try:
        import wandb
    except ImportError as error:
        raise RunRefused(
            f"logger.wandb_project needs the wandb package, which cannot be imported ({error}): "
            "install wandb, or set logger.wandb_project=null"
        ) from None
    return wandb


class WandbRun:
    """One run of the W&B project, continued by each session; offline with `WANDB_MODE=offline`."""

    def __init__(self, run: Any) -> None:
        self._run = run

    @classmethod
    def start(cls, config: ConfigContainer, run_dir: Path, *, run_id: str) -> Self:
        """Start the run, or continue the one with this id.

        Raises:
            RunRefused: wandb is missing, or does not let us in.
        """
        wandb = _package()
        logger = config.logger
        try:
            run = wandb.init(
                project=logger.wandb_project,
                entity=logger.wandb_entity,
                name=logger.wandb_exp_name or run_id,
                id=run_id,
                resume="allow",
                dir=str(run_dir),
                config=redact(config.model_dump(mode="json")),
            )
        except Exception as error:  # wandb has no common base for what it raises
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise RunRefused(f"Weights & Biases cannot be started (logger.wandb_project): {reason}") from None
        # Our own step axis: wandb drops points whose step goes back, as it does after a restart from a checkpoint.
        run.define_metric(STEP)
        run.define_metric("*", step_metric=STEP)
        return cls(run)

    def write(self, step: int, scalars: Mapping[str, float], /) -> None:
        """Hand one point of each tag to wandb, which sends it in the background."""
        self._run.log({STEP: step, **scalars})

    def close(self, *, exit_code: int) -> None:
        """Send what is left, and mark the run as done (0) or failed."""
        self._run.finish(exit_code=exit_code)
