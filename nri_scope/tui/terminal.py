# SPDX-License-Identifier: Apache-2.0
"""The terminal of the user interface, which may disappear at any time.

When a remote connection breaks or a window is closed, writing to the terminal fails, and reading
from it returns end of file immediately. Some terminals also send SIGHUP, followed by SIGCONT from
the kernel.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from textual.drivers.linux_driver import LinuxDriver

from nri_scope.process.signals import END_SIGNALS, stop_signals

from .sent_screen import SentScreen


def is_gone() -> bool:
    """Return whether the terminal has disappeared."""
    stream = sys.__stdin__
    return stream is None or not os.isatty(stream.fileno())


class TerminalDriver(LinuxDriver):
    """Textual's driver, for terminals that disappear.

    Textual's writer thread ends after the first failed write, but Textual continues to fill its
    queue of 30 writes, and then blocks forever.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sent = SentScreen()
        """The cells of the screen."""

    def start_application_mode(self) -> None:
        """Take over the terminal."""
        self.sent.forget()
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def suspend(self) -> bool:
        """Stop the process group and return True once continued; False if no shell would notice.

        Programs that wait for this one, such as ``sh -c``, are of the group; helpers are not. The
        terminal is restored first, because the shell uses it as soon as one of them has stopped.
        """
        if os.getsid(0) == os.getpgrp():
            return False
        self.suspend_application_mode()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.killpg(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        return True

    def write(self, data: str) -> None:
        """Write, unless the terminal has disappeared."""
        if not is_gone():
            super().write(data)

    def close(self) -> None:
        """Flush the output, unless the terminal has disappeared."""
        if not is_gone():
            super().close()


class EndSignals:
    """Handlers of the signals that end the program.

    They end it as the quit key does, restoring the terminal and closing the recording.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        """Install the handlers. ``end`` is called in the current event loop."""
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._handled = ExitStack()
        self._handled.callback(signal.signal, signal.SIGCONT, signal.getsignal(signal.SIGCONT))
        self._handled.enter_context(stop_signals(self._on_signal, signals=END_SIGNALS))

    def _on_signal(self, number: int, _words: str) -> None:
        if number == signal.SIGHUP:
            # On SIGCONT, Textual would take over the terminal again. SIGHUP is handled first, as it
            # has the lower number.
            signal.signal(signal.SIGCONT, signal.SIG_IGN)
        self._loop.call_soon_threadsafe(self._end)

    def restore(self) -> None:
        """Restore the previous signal handlers."""
        self._handled.close()
