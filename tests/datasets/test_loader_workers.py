"""Workers that ignore SIGTERM end all the same when the process ends that started them."""

import subprocess
import sys

import pytest

HOLDS = """
import multiprocessing, sys
from torch.utils.data import DataLoader
from trainwright.datasets.loader_workers import ignore_stop_signals, started

def hold():
    global held
    held = started(DataLoader(list(range(64)), num_workers=2, worker_init_fn=ignore_stop_signals))
    print(next(held).item(), flush=True)
    if sys.argv[2] == "let go at the last moment":
        import atexit
        atexit.register(globals().pop, "held")

if sys.argv[1] == "main process":
    hold()
else:
    child = multiprocessing.get_context("fork").Process(target=hold)
    child.start()
    child.join()
    print(child.exitcode)
"""


@pytest.mark.parametrize("held", ["to the end", "let go at the last moment"])
@pytest.mark.parametrize(("process", "says"), [("main process", "0\n"), ("forked process", "0\n0\n")])
def test_a_process_ends_whose_loader_somebody_still_holds(process: str, says: str, held: str) -> None:
    """As after an error, whose traceback holds it. With Python's own ending of workers this waits for ever."""
    done = subprocess.run([sys.executable, "-c", HOLDS, process, held], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, says, "")
