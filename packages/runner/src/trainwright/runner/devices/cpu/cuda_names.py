"""What `torch.cuda` answers inside Megatron Core when the device is the CPU.

Work on a CPU is done when the call returns, so streams and events have nothing to order and nothing to wait for.
Every public name here is a name of the real `torch.cuda` (a test compares them); a name that is not here is refused
with its name instead of reaching for a GPU that may be absent, or present and not chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch

FloatTensor = torch.FloatTensor
HalfTensor = torch.HalfTensor
BFloat16Tensor = torch.BFloat16Tensor
OutOfMemoryError = torch.cuda.OutOfMemoryError


class Stream:
    """A queue of work; on a CPU it is always empty."""

    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def wait_stream(self, stream: Stream) -> None: ...

    def wait_event(self, event: Event) -> None: ...

    def synchronize(self) -> None: ...

    def record_event(self, event: Event | None = None) -> Event:
        return event or Event()

    def query(self) -> bool:
        return True


class Event:
    """A point in a queue; on a CPU it is always reached."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def record(self, stream: Stream | None = None) -> None: ...

    def wait(self, stream: Stream | None = None) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True


_STREAM = Stream()


def current_device() -> torch.device:
    return torch.device("cpu")


def device_count() -> int:
    return 0


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def is_current_stream_capturing() -> bool:
    return False


def current_stream(device: Any = None) -> Stream:
    return _STREAM


def default_stream(device: Any = None) -> Stream:
    return _STREAM


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    yield


def set_stream(stream: Stream) -> None: ...


def synchronize(device: Any = None) -> None: ...


def empty_cache() -> None: ...


def manual_seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)


def get_rng_state(device: Any = None) -> torch.Tensor:
    return torch.get_rng_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    torch.set_rng_state(new_state)


def __getattr__(name: str) -> NoReturn:
    # Names with underscores come from introspection, which expects an ordinary answer.
    raise AttributeError(f"torch.cuda.{name} has no meaning on the CPU, the device of this process")
