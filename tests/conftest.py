"""Settings of the whole suite."""

import signal

from hypothesis import settings

# A test that fails because the machine was busy proves nothing.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

# A shell starts what it sends to the background with Ctrl-C ignored, and children inherit that; the tests that press
# Ctrl-C in a child must find what a person at a terminal has.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
