"""What a person sees of a run."""

import io
import re
import subprocess
import sys

import pytest
from tests.runner.telemetry_run import TOKENS, applied, session, skipped

from trainwright.runner.telemetry.display import Pace, duration, open_display


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


def test_elsewhere_than_on_a_terminal_each_window_is_one_plain_line(tmp_path):
    stream = io.StringIO()
    with session(tmp_path, stream=stream, dataset_samples=80) as telemetry:
        for step in range(1, 11):
            telemetry.attempt(applied(11.0 - step, grad_norm=2.0, flops=4e12))
        telemetry.finish()
    lines = stream.getvalue().splitlines()
    assert [re.search(r"step (\d+)/10", line)[1] for line in lines] == ["4", "8", "10"]
    pattern = (
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d step 4/10 \| loss 8\.5000 \| lr 1\.000e-03 \| grad norm 2\.000 "
        r"\| 128 tokens/s \(94% learnt\) \| 4 TFLOP/s/device \| epoch 0\.20 \| 0:00:0\d left"
    )
    assert re.fullmatch(pattern, lines[0])
    assert "\x1b" not in stream.getvalue() and "\r" not in stream.getvalue()


def test_what_is_not_known_is_not_shown(tmp_path):
    stream = io.StringIO()
    with session(tmp_path, "logger.log_interval=1", stream=stream) as telemetry:
        telemetry.attempt(applied(2.0))
    (line,) = stream.getvalue().splitlines()
    assert "TFLOP" not in line and "epoch" not in line and "skipped" not in line


def test_skips_validations_and_checkpoints_are_said(tmp_path):
    stream = io.StringIO()
    with session(tmp_path, "logger.log_interval=1", stream=stream) as telemetry:
        telemetry.attempt(skipped(grad_norm=float("inf"), loss_scale=1024.0))
        telemetry.attempt(applied(2.0))
        telemetry.validation(2.25, 1.5)
        telemetry.checkpoint(tmp_path / "checkpoints" / "step_1", 0.5)
    said = [line[20:] for line in stream.getvalue().splitlines()]
    assert said[0] == "step 1 | update skipped | grad norm inf, loss scale 1024"
    assert "| 1 skipped |" in said[1]
    assert said[2:] == ["step 1 | validation loss 2.2500 | 1.5 s", "step 1 | saved checkpoints/step_1 | 0.5 s"]


def test_the_epoch_counts_what_earlier_sessions_consumed(tmp_path):
    stream = io.StringIO()
    start = (3, 5 * TOKENS, 2)
    with session(tmp_path, stream=stream, start=start, dataset_samples=12) as telemetry:
        telemetry.attempt(applied(2.0))
    assert "epoch 2.00" in stream.getvalue()


def test_a_terminal_has_a_line_that_moves_and_remarks_above_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    stream = Terminal()
    with session(tmp_path, stream=stream) as telemetry:
        for step in range(1, 11):
            telemetry.attempt(applied(11.0 - step))
            if step == 5:
                telemetry.validation(2.25, 1.5)
        telemetry.finish()
    shown = stream.getvalue()
    assert "\x1b[" in shown
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert " 4/10 " in plain and "10/10" in plain and "loss 1.5000" in plain
    assert "step 5 | validation loss 2.2500 | 1.5 s\n" in plain
    assert shown.rstrip("\n").endswith("\x1b[?25h"), "the cursor comes back"


def test_a_narrow_terminal_cuts_the_line_and_does_not_wrap_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    with session(tmp_path, stream=stream, dataset_samples=10) as telemetry:
        for _ in range(4):
            telemetry.attempt(applied(2.0))
        telemetry.finish()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert max(map(len, re.split(r"[\r\n]", plain))) <= 60


def test_the_terminal_is_left_in_order_when_the_run_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with pytest.raises(RuntimeError), session(tmp_path, stream=stream) as telemetry:
        telemetry.attempt(applied(2.0))
        raise RuntimeError
    assert "\x1b[?25h" in stream.getvalue()


def test_streams_that_lead_elsewhere_are_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    before = sys.stdout, sys.stderr
    with session(tmp_path, stream=Terminal()):
        assert (sys.stdout, sys.stderr) == before


def test_no_thread_draws():
    """A thread that holds the screen's lock while a checkpoint forks its writer would hang it."""
    code = (
        "import sys, threading, io\n"
        "from trainwright.runner.telemetry.display import open_display\n"
        "stream = io.StringIO(); stream.isatty = lambda: True\n"
        "display = open_display(stream, step=0, train_iters=3)\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
        "display.close()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_pace_includes_pauses_and_forgets_the_first_slow_updates():
    pace = Pace()
    assert pace.seconds_for(5) is None
    pace.update(100.0, 100.0)
    assert pace.seconds_for(5) == 500.0
    for number in range(1, 101):
        pace.update(100.0 + 2 * number, 1.0)
    assert pace.seconds_for(5) == 10.0


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00:00"), (59.6, "0:01:00"), (3723, "1:02:03"), (360000, "100:00:00")]
)
def test_durations(seconds, shown):
    assert duration(seconds) == shown


def test_importing_telemetry_costs_nothing_heavy():
    code = (
        "import sys, trainwright.runner.telemetry, trainwright.runner.telemetry.redaction\n"
        "heavy = {'torch', 'tensorboard', 'numpy', 'rich', 'wandb', 'pydantic', 'google_crc32c'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_standard_output_is_the_default(capsys):
    open_display(None, step=0, train_iters=3).say("hello")
    assert capsys.readouterr().out.endswith(" hello\n")
