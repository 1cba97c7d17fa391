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

from nri_scope.end_reasons import EXIT_STATUS
from nri_scope.errors import UsageError, reason_of

from .signals import STOP_SIGNALS

START = Path(__file__).with_name("child_start.py")
TERMINATE_S = 2.0
"""Seconds to wait between SIGTERM and SIGKILL."""


class ChildExit(NamedTuple):
    """Exit of a helper process."""

    code: int
    """The exit code in the form of `os.waitstatus_to_exitcode`: -9 for SIGKILL."""
    stop_signal: int
    """The last signal that `Child.stop` had to send, or 0 for none."""

    @property
    def description(self) -> str:
        """``exit status 3`` or ``killed by SIGSEGV``."""
        return describe_exit(self.code)


class Child:
    """A helper process started by `spawn`."""

    def __init__(self, popen: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self.pid = popen.pid
        self.socket = channel
        """This process's end of the channel, for a `LoopChannel` or `ThreadChannel`."""
        self._popen = popen

    def signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        self._popen.send_signal(number)

    def stop(self, seconds: float, terminate_s: float = TERMINATE_S) -> ChildExit:
        """Close the channel and wait for the exit; if needed, send SIGTERM and then SIGKILL.

        ``seconds`` is the time to wait before SIGTERM, ``terminate_s`` the further time before
        SIGKILL. Returns when the process has ended; later calls return the same result.
        """
        with contextlib.suppress(OSError):
            # Closing alone does not shut down the socket while a thread is reading from it.
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for number, timeout_s in ((0, seconds), (signal.SIGTERM, terminate_s)):
            if number:
                self.signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return ChildExit(self._popen.wait(timeout_s), number)
        self.signal(signal.SIGKILL)
        return ChildExit(self._popen.wait(), signal.SIGKILL)


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
    ``output`` as its standard output and error. It has its own process group, so that signals from
    a terminal only reach the parent, which decides how to handle them. It does not have its own
    session: Linux gives each session an equal share of the processors (autogroup), regardless of
    the niceness of its processes. When the parent or the thread that calls this function dies, the
    process gets the signal ``on_parents_death``, and its channel is closed.

    Without ``with_site``, the module can only import the standard library and nri-scope. Raises
    UsageError with a message that begins with ``failure``.
    """
    if not sys.executable:
        raise UsageError(f"{failure}: the path of the Python interpreter is unknown")
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as cleanup:
        # The process inherits the blocked signals. Otherwise, SIGINT during Python's startup would
        # end it with status 1, like a failure.
        cleanup.callback(
            signal.pthread_sigmask,
            signal.SIG_SETMASK,
            signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS),
        )
        try:
            with theirs:
                inherited = [_copy(source, cleanup) for source in (theirs.fileno(), *descriptors)]
            popen = subprocess.Popen(
                [
                    sys.executable,
                    # Isolated: Python adds no folders of its own; sys.path is passed below.
                    *("-I", *(() if with_site else ("-S",))),
                    *(("-B",) if sys.dont_write_bytecode else ()),
                    str(START),
                    module,
                    str(os.getpid()),
                    str(int(on_parents_death)),
                    json.dumps(sys.path),
                    *map(str, inherited),
                    *arguments,
                ],
                pass_fds=inherited,
                stdin=subprocess.DEVNULL,
                stdout=output[0],
                stderr=output[1],
                process_group=0,
            )
        except OSError as error:
            ours.close()
            raise UsageError(f"{failure}: {sys.executable}: {reason_of(error)}") from error
    return Child(popen, ours)


def _copy(descriptor: int, cleanup: contextlib.ExitStack) -> int:
    """Return a copy of a descriptor with a number above the standard streams.

    If this process has closed its standard streams, a descriptor may have one of their numbers,
    which the new process needs.
    """
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    cleanup.callback(os.close, copy)
    return copy


def keep_exit_statuses() -> None:
    """Restore the default action of SIGCHLD if this process was started with SIGCHLD ignored.

    While SIGCHLD is ignored, the system discards the exit statuses of helper processes. Only for
    commands: nri-scope as a library must not change a program's signal handling.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def describe_exit(code: int) -> str:
    """Return the description of an exit code, such as ``exit status 3``; negative: a signal."""
    if code >= 0:
        return f"{EXIT_STATUS} {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
