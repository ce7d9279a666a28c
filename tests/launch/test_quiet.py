"""What a talkative library prints is kept; a terminal shows that it is at work."""

import os
import pty
import subprocess
import sys

KEPT = """\
import os, subprocess, sys
from trainwright.launch.quiet import kept_output, text_of
print("before")
with kept_output() as kept:
    print("of Python"); print("to stderr", file=sys.stderr)
    subprocess.run(["echo", "of a child"])
    os.write(2, b"of C\\n")
    said = text_of(kept)
print("after", sorted(said.splitlines()))
"""
AT_WORK = """\
import time
from trainwright.launch.quiet import at_work, kept_output
with at_work("loading"), kept_output():
    print("chatter")
    time.sleep(0.3)
"""


def test_everything_is_kept_and_nothing_after_it() -> None:
    """Of Python, of children, of C; on both streams."""
    done = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "before\nafter ['of C', 'of Python', 'of a child', 'to stderr']\n"
    assert done.stderr == ""


def test_a_terminal_shows_that_something_is_done_and_is_clean_afterwards() -> None:
    """Also while everything else is kept from it."""
    reader, terminal = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", AT_WORK], stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = b""
    while True:
        try:
            chunk = os.read(reader, 1024)
        except OSError:  # what Linux answers when the other side is closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(reader)
    assert child.wait(timeout=60) == 0
    assert shown.count(b"loading") >= 2
    assert shown.endswith(b"\r\x1b[K")
    assert b"chatter" not in shown


def test_a_pipe_shows_nothing() -> None:
    """Logs stay plain."""
    done = subprocess.run([sys.executable, "-c", AT_WORK], capture_output=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"", b"")
