"""Work through several processes."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from trainwright.datasets import DataError
from trainwright.datasets.workers import in_order


def slow_first(number: int) -> int:
    """The first item takes longest."""
    time.sleep(0.2 if number == 0 else 0)
    return number * number


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_the_order_of_the_items(workers: int) -> None:
    assert list(in_order(slow_first, range(20), workers)) == [(number, number * number) for number in range(20)]


@pytest.mark.parametrize("workers", [1, 3])
def test_the_first_item_that_fails_ends_it_with_its_error(workers: int) -> None:
    def fail(number: int) -> int:
        if number in (7, 8):
            raise DataError(f"row {number}")
        return number

    done: list[int] = []
    with pytest.raises(DataError, match="row 7"):
        done += (item for item, _ in in_order(fail, range(20), workers))


def test_a_worker_that_is_killed_is_one_line() -> None:
    def die(number: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(DataError, match="a worker was killed"):
        list(in_order(die, range(4), 2))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_what_stops_a_job_stops_no_worker(number: signal.Signals) -> None:
    """Slurm signals every process; a rank finishes what it is at."""

    def stopped(item: int) -> int:
        os.kill(os.getpid(), number)
        return item

    assert list(in_order(stopped, range(4), 2)) == [(item, item) for item in range(4)]


class Cancelled(Exception):
    pass


_send: list[int] = []


def _interrupt() -> None:
    """Between a fork and its return in the parent, where Python drops exceptions."""
    if _send:
        os.kill(os.getpid(), _send.pop())


os.register_at_fork(after_in_parent=_interrupt)


@pytest.fixture
def cancelling() -> Iterator[None]:
    def cancel(_number: int, _frame: object) -> None:
        raise Cancelled

    before = signal.signal(signal.SIGTERM, cancel)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("cancelling")
def test_a_signal_in_the_midst_of_a_fork_is_not_lost() -> None:
    _send.append(signal.SIGTERM)
    with pytest.raises(Cancelled):
        list(in_order(slow_first, range(4), 2))
    assert not _send
