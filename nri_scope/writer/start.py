# SPDX-License-Identifier: Apache-2.0
"""Start the writer of a recording: as a process, or as a thread if that is impossible."""

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
"""Maximum time in seconds to wait for the end of a thread, which cannot be killed."""


class Helper(Protocol):
    """Handle of a writer, for its starter."""

    socket: socket.socket
    """The starter's end of the channel."""

    def signal(self, number: int) -> None:
        """Send a signal to the process; no effect on a thread."""
        ...

    def end(self, seconds: float) -> str:
        """Wait ``seconds`` for the writer to exit, then kill it; describe how it ended.

        A thread cannot be killed: unless ``seconds`` is 0, it has `THREAD_S` seconds to end.
        """
        ...


def start_process(module: str, arguments: Sequence[str], *, prints: bool) -> Helper:
    """Start a process that runs the function "main" of ``module``. Raises UsageError.

    ``prints``: whether it prints to this process's standard output.
    """
    keep_exit_statuses()
    output = 1 if prints and sys.stdout is not None else DEVNULL
    return _Process(
        spawn(
            module,
            *arguments,
            failure="the writer process cannot be started",
            # The child also notices the end of the channel, but not while it is stopped.
            on_parents_death=signal.SIGCONT,
            output=(output, DEVNULL),
        )
    )


def start_thread(module: str, arguments: Sequence[str], *, prints: bool) -> Helper:
    """Start a thread instead of a process. Raises UsageError."""
    return _Thread(module, arguments)


class _Process:
    def __init__(self, child: Child) -> None:
        self.socket = child.socket
        self._child = child

    def signal(self, number: int) -> None:
        self._child.signal(number)

    def end(self, seconds: float) -> str:
        # Without SIGTERM: the writer ignores it, or is stopped and would not receive it.
        return f"the writer process ended, {self._child.stop(seconds, 0).description}"


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
            raise UsageError(f"the writer thread cannot be started: {error}") from error

    def signal(self, number: int) -> None:
        """Do nothing: a thread has no signals."""

    def end(self, seconds: float) -> str:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self._thread.join(THREAD_S if seconds else 0)
        return "the thread that writes has ended"
