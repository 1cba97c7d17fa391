# SPDX-License-Identifier: Apache-2.0
"""Start and stop helper processes: the side of the process that starts them."""

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

START = Path(__file__).with_name("child_start.py")
TERMINATE_S = 2.0
"""Time to end for a process that ignored the end of its channel and then got SIGTERM."""


class ChildEnd(NamedTuple):
    """How a helper process ended."""

    code: int
    """As `os.waitstatus_to_exitcode` returns it: -9 for SIGKILL."""
    needed: int
    """The signal that `Child.stop` had to send; 0 for none."""

    @property
    def words(self) -> str:
        """``exit status 3`` or ``killed by SIGSEGV``."""
        return exit_words(self.code)


class Child:
    """A running helper process. Make one with `spawn`."""

    def __init__(self, popen: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self.pid = popen.pid
        self.socket = channel
        """Our end of the channel, for a `LoopChannel` or `ThreadChannel`."""
        self._popen = popen

    def signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        self._popen.send_signal(number)

    def stop(self, seconds: float, terminate_s: float = TERMINATE_S) -> ChildEnd:
        """End the process: close the channel; where that does not do, send SIGTERM, then SIGKILL.

        ``seconds`` and ``terminate_s`` are the times to wait before the one and the other. Returns
        when the process has ended, and the same result when called again.
        """
        with contextlib.suppress(OSError):
            # Closing alone has no effect while a thread reads from the socket.
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

    It gets the descriptor of its end of a channel, copies of ``descriptors``, and ``output`` as its
    standard output and error. It has a session of its own, as a terminal's signals are for the
    process that starts it, which decides what to do about them. When that process, or the thread
    that calls this, dies it gets the signal ``on_parents_death``, and its channel is closed.

    ``with_site``: whether it needs packages beside the standard library and this one. Raises
    UsageError, which begins with ``failure``.
    """
    if not sys.executable:
        raise UsageError(f"{failure}: Python does not know its own program")
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as passed:
        try:
            with theirs:
                given = [_copy(one, passed) for one in (theirs.fileno(), *descriptors)]
            popen = subprocess.Popen(
                [
                    sys.executable,
                    # Isolated: no folder is in its path that is not in this process's path.
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
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            words = f"{sys.executable}: {(error.strerror or str(error)).lower()}"
            raise UsageError(f"{failure}: {words}") from error
    return Child(popen, ours)


def _copy(descriptor: int, passed: contextlib.ExitStack) -> int:
    """Return a copy of a descriptor, with a number above those of the standard streams.

    Those may be closed here, but not in the new process.
    """
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    passed.callback(os.close, copy)
    return copy


def keep_exit_statuses() -> None:
    """Reset SIGCHLD to its default where it is ignored, as some programs do that start others.

    While it is ignored, the system drops the exit statuses of helper processes. For commands only,
    not where nri-scope is a part of another program.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def exit_words(code: int) -> str:
    """Return an exit code, negative for a signal, in words, such as ``exit status 3``."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
