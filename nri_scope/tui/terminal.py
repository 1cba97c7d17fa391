# SPDX-License-Identifier: Apache-2.0
"""The terminal of the user interface, which may disappear at any time.

A connection to another machine breaks, a window is closed: writing to the terminal then
fails, and reading from it returns the end at once. Some terminals send SIGHUP, and the kernel
sends SIGCONT right after it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack

from textual.drivers.linux_driver import LinuxDriver

from nri_scope.process.signals import END_SIGNALS, stop_signals


def is_gone() -> bool:
    """Return whether the terminal is gone."""
    stream = sys.__stdin__
    return stream is None or not os.isatty(stream.fileno())


class TerminalDriver(LinuxDriver):
    """Textual's driver, for terminals that disappear.

    The thread that writes ends after the first failed write. Textual continues to fill its
    queue, which takes 30 writes, and then waits for it forever.
    """

    def write(self, data: str) -> None:
        """Write, unless the terminal is gone."""
        if not is_gone():
            super().write(data)

    def close(self) -> None:
        """Flush the rest of the output; without a terminal, nothing is left to do."""
        if not is_gone():
            super().close()


class EndSignals:
    """Signals that end the program as a key would.

    The terminal is restored, and the recording is closed properly.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        """Set up the guard. ``end``: called in the current event loop."""
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._handled = ExitStack()
        self._handled.callback(signal.signal, signal.SIGCONT, signal.getsignal(signal.SIGCONT))
        self._handled.enter_context(stop_signals(self._came, signals=END_SIGNALS))

    def _came(self, number: int, _words: str) -> None:
        if number == signal.SIGHUP:
            # Textual would take over the terminal again. This handler runs before that of SIGCONT,
            # which has the higher number.
            signal.signal(signal.SIGCONT, signal.SIG_IGN)
        self._loop.call_soon_threadsafe(self._end)

    def restore(self) -> None:
        """Restore the earlier signal handlers."""
        self._handled.close()
