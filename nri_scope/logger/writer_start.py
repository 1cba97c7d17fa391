# SPDX-License-Identifier: Apache-2.0
"""Start a recording's writer: as a process, or as a thread if no process can be started."""

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
"""Maximum time in seconds for a thread to end, as it cannot be killed."""


class Helper(Protocol):
    """A handle of a writer, for its starter."""

    socket: socket.socket
    """The starter's end of the channel."""

    def signal(self, number: int) -> None:
        """Send a signal, if it is a process."""
        ...

    def end(self, seconds: float) -> str:
        """Wait ``seconds`` for its end, then kill it; return a description of how it ended."""
        ...


def start_process(module: str, arguments: Sequence[str], *, shows: bool) -> Helper:
    """Start a process that runs ``main`` of ``module``. Raises UsageError.

    ``shows``: it prints to this process's standard output.
    """
    keep_exit_statuses()
    output = 1 if shows and sys.stdout is not None else DEVNULL
    return _Process(
        spawn(
            module,
            *arguments,
            failure="the process that writes cannot be started",
            # The channel's end shows it, too, but a stopped process does not read the channel.
            on_parents_death=signal.SIGCONT,
            output=(output, DEVNULL),
        )
    )


def start_thread(module: str, arguments: Sequence[str], *, shows: bool) -> Helper:
    """Start a thread instead of a process. Raises UsageError."""
    return _Thread(module, arguments)


class _Process:
    def __init__(self, child: Child) -> None:
        self.socket = child.socket
        self._child = child

    def signal(self, number: int) -> None:
        self._child.signal(number)

    def end(self, seconds: float) -> str:
        # No time for SIGTERM: a stopped process would not receive it, and others ignore it.
        return f"the process that writes has ended, {self._child.stop(seconds, 0).description}"


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
        """Do nothing: a thread has no signals."""

    def end(self, seconds: float) -> str:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self._thread.join(max(seconds, THREAD_S))
        return "the thread that writes has ended"
