# SPDX-License-Identifier: Apache-2.0
"""How a writer of a recording is started: as a process, or as a thread where none can be had."""

from __future__ import annotations

import importlib
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from subprocess import DEVNULL
from typing import Protocol

from nri_scope.errors import UsageError
from nri_scope.process.child import Child, keep_exit_statuses, spawn

THREAD_S = 30.0
"""For a thread, which cannot be ended, to end."""


class Helper(Protocol):
    """What writes, as its starter sees it."""

    socket: socket.socket
    """Our end of the channel."""

    def signal(self, number: int) -> None:
        """Send a signal, where it is a process."""
        ...

    def end(self, seconds: float) -> str:
        """Make sure that it is gone, which it may be by itself within so long; in words, how."""
        ...


def start_process(module: str, arguments: Sequence[str], *, shows: bool) -> Helper:
    """Start a process that runs ``main`` of ``module``. Raises UsageError.

    ``shows``: it prints where this one does.
    """
    keep_exit_statuses()
    output = 1 if shows and sys.stdout is not None else DEVNULL
    return _Process(
        spawn(
            module,
            *arguments,
            failure="the process that writes cannot be started",
            # It learns of that by its channel, but not while it is stopped.
            on_parents_death=signal.SIGCONT,
            output=(output, DEVNULL),
        )
    )


def start_thread(module: str, arguments: Sequence[str], *, shows: bool) -> Helper:
    """Have a thread do what the process would. Raises UsageError."""
    return _Thread(module, arguments)


class _Process:
    def __init__(self, child: Child) -> None:
        self.socket = child.socket
        self._child = child

    def signal(self, number: int) -> None:
        self._child.signal(number)

    def end(self, seconds: float) -> str:
        # One that was stopped would not hear of SIGTERM, and ignores it anyway.
        return f"the process that writes has ended, {self._child.stop(seconds, 0).words}"


class _Thread:
    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self.socket, theirs = socket.socketpair()
        self._thread = threading.Thread(
            target=importlib.import_module(module).main,
            args=(theirs.detach(), *arguments),
            name="nri-scope-recorder",
            daemon=True,
        )
        try:
            self._thread.start()
        except RuntimeError as error:
            raise UsageError(f"nothing can be written: {error}") from error

    def signal(self, number: int) -> None:
        """There is nothing to signal."""

    def end(self, seconds: float) -> str:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self._thread.join(max(seconds, THREAD_S))
        return "the thread that writes has ended"
