# SPDX-License-Identifier: Apache-2.0
"""For all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys

import pytest
from hypothesis import settings

from tests.amount import EXAMPLES

# No deadlines: how long an example takes is a matter of the machine, not of the code.
settings.register_profile(
    "nri-scope",
    deadline=None,
    derandomize=EXAMPLES in ("fixed", "few"),
    max_examples={"fixed": 40, "few": 10}.get(EXAMPLES, 100),
)
settings.load_profile("nri-scope")

# Most of what tests make is small and soon gone: with Python's thresholds, the search for cycles
# took a fifteenth of their time.
gc.set_threshold(50_000, 20, 50)

# A shell's `&` may have the tests ignore ^C, and `nohup` a hangup; so would every command that they
# start. Commands end with these signals, and the tests see that they do.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """What there is of all tests stays to the end: not looked through each time for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _stop_signals_handled() -> None:
    """Commands that tests and fixtures call in this process leave signals ignored afterwards."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)


# A command called in this process would slow down all later tests and what they start, as a process
# without privileges cannot take its niceness back: `diff --live` made one of three workers wait for
# the others, until its tests timed out.
os.nice = lambda _increment: 0

# A user's commands buffer what they write, and start from byte code, in half the time; so do the
# tests.
os.environ.pop("PYTHONUNBUFFERED", None)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How wide output is laid out where it goes to no terminal is not for whoever runs the tests to say.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)
