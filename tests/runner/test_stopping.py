"""Reasons to stop early."""

import os
import signal
import time

import pytest

from trainwright.runner.stopping import StopRequest


def request(**options):
    defaults = {"handle_signals": True, "minutes": None, "session_started": time.monotonic()}
    return StopRequest(**defaults | options)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_is_remembered_and_the_old_handler_comes_back(number):
    before = signal.getsignal(number)
    with request() as stop:
        assert stop.reason is None
        os.kill(os.getpid(), number)
        assert stop.reason == signal.Signals(number).name
    assert signal.getsignal(number) is before


def test_signals_are_left_alone_when_not_asked_for():
    before = signal.getsignal(signal.SIGTERM)
    with request(handle_signals=False):
        assert signal.getsignal(signal.SIGTERM) is before


def test_the_time_limit_leaves_room_for_the_longest_thing_seen():
    stop = request(minutes=1, session_started=time.monotonic() - 50)
    assert stop.reason is None
    stop.expect(2)
    assert stop.reason is None
    stop.expect(6)
    assert "exit_duration_in_mins" in stop.reason
