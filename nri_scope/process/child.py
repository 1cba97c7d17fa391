# SPDX-License-Identifier: Apache-2.0
"""Start and stop helper processes: the parent's side."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nri_scope.errors import UsageError

from .signals import STOP_SIGNALS

START = Path(__file__).with_name("child_start.py")
TERMINATE_S = 2.0
"""Seconds to wait for the end after SIGTERM, for a process that ignored the end of its channel."""


class ChildEnd(NamedTuple):
    """How a helper process ended."""

    code: int
    """The exit code in the form of `os.waitstatus_to_exitcode`: -9 for SIGKILL."""
    needed: int
    """The signal that `Child.stop` had to send, or 0 for none."""

    @property
    def words(self) -> str:
        """Return ``exit status 3`` or ``killed by SIGSEGV``."""
        return exit_words(self.code)


class Child:
    """A running helper process, made by `spawn`."""

    def __init__(self, popen: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self.pid = popen.pid
        self.socket = channel
        """This process's end of the channel, for a `LoopChannel` or `ThreadChannel`."""
        self._popen = popen

    def signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        self._popen.send_signal(number)

    def stop(self, seconds: float, terminate_s: float = TERMINATE_S) -> ChildEnd:
        """End the process: close the channel; if that is not enough, send SIGTERM, then SIGKILL.

        ``seconds`` and ``terminate_s`` are the times to wait before SIGTERM and before SIGKILL.
        Returns when the process has ended; later calls return the same result.
        """
        with contextlib.suppress(OSError):
            # Closing alone has no effect while a thread is reading from the socket.
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for number, patience in ((0, seconds), (signal.SIGTERM, terminate_s)):
            if number:
                self.signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return ChildEnd(self._popen.wait(patience), number)
        self.signal(signal.SIGKILL)
        return ChildEnd(self._popen.wait(), signal.SIGKILL)


def spawn(
    module: str,
    *arguments: str,
    failure: str,
    on_parents_death: int,
    descriptors: Sequence[int] = (),
    output: tuple[int, int] = (subprocess.DEVNULL, subprocess.DEVNULL),
    with_site: bool = True,
) -> Child:
    """Start a process that runs ``main(channel, *descriptors, *arguments)`` of ``module``.

    The process gets the descriptor of its end of a channel, copies of ``descriptors``, and
    ``output`` as its standard output and error. It has its own process group, because signals of a
    terminal are meant for the parent, which decides how to handle them; not its own session, which
    Linux gives an equal share of the processors (autogroup), whatever the niceness of its
    processes. When the parent or the thread that calls this dies, the process gets the signal
    ``on_parents_death``, and its channel is closed.

    ``with_site``: whether the module needs packages other than the standard library and this
    package. Raises UsageError with a message that begins with ``failure``.
    """
    if not sys.executable:
        raise UsageError(f"{failure}: Python does not know its own program")
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as passed:
        # The process inherits this mask: a Python that SIGINT interrupts while it starts ends with
        # status 1, like one that failed.
        passed.callback(
            signal.pthread_sigmask,
            signal.SIG_SETMASK,
            signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS),
        )
        try:
            with theirs:
                given = [_copy(one, passed) for one in (theirs.fileno(), *descriptors)]
            popen = subprocess.Popen(
                [
                    sys.executable,
                    # Isolated: its path contains only folders of this process's path.
                    *("-I", *(() if with_site else ("-S",))),
                    *(("-B",) if sys.dont_write_bytecode else ()),
                    str(START),
                    module,
                    str(os.getpid()),
                    str(int(on_parents_death)),
                    json.dumps(sys.path),
                    *map(str, given),
                    *arguments,
                ],
                pass_fds=given,
                stdin=subprocess.DEVNULL,
                stdout=output[0],
                stderr=output[1],
                process_group=0,
            )
        except OSError as error:
            ours.close()
            words = f"{sys.executable}: {(error.strerror or str(error)).lower()}"
            raise UsageError(f"{failure}: {words}") from error
    return Child(popen, ours)


def _copy(descriptor: int, passed: contextlib.ExitStack) -> int:
    """Return a copy of a descriptor, numbered above the standard streams.

    The standard streams may be closed in this process, but not in the new one.
    """
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    passed.callback(os.close, copy)
    return copy


def keep_exit_statuses() -> None:
    """Reset SIGCHLD to its default if the program that started this one set it to be ignored.

    While SIGCHLD is ignored, the system drops the exit statuses of helper processes. Only for
    commands, not for nri-scope as part of another program.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def exit_words(code: int) -> str:
    """Return an exit code (negative: a signal) in words, such as ``exit status 3``."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
