"""How far a run has come."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass
class Progress:
    """Counters over the whole run; a checkpoint holds them and a resume continues them."""

    step: int = 0
    """Successful updates."""
    consumed_samples: int = 0
    """Sequences, or rows packed beforehand, of all attempted updates: where the data goes on."""
    skipped_updates: int = 0
    tokens: int = 0
    """Nominal positions of all attempted updates, padding included."""
    consecutive_skips: int = 0
    data: str | None = None
    """Digest of the rows that are trained on; null where the configuration alone says what is read."""

    def count(self, *, applied: bool, samples: int, tokens: int) -> None:
        """Count one attempted update."""
        self.consumed_samples += samples
        self.tokens += tokens
        if applied:
            self.step += 1
            self.consecutive_skips = 0
        else:
            self.skipped_updates += 1
            self.consecutive_skips += 1

    def state_dict(self) -> dict[str, int | str | None]:
        """What a checkpoint holds of it."""
        return asdict(self)
