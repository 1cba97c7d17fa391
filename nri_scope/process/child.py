# SPDX-License-Identifier: Apache-2.0
"""A helper process, as the process sees it that has started it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nri_scope.errors import UsageError

START = Path(__file__).with_name("start.py")
TERMINATE_S = 2.0
"""For a process that did not end when its channel was closed, and got SIGTERM."""


class ChildEnd(NamedTuple):
    """How a helper process ended."""

    code: int
    """As of `os.waitstatus_to_exitcode`: -9 for SIGKILL."""
    needed: int
    """The signal that `Child.stop` had to send for it; 0 for none."""

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
        """Send a signal, unless it has ended."""
        self._popen.send_signal(number)

    def stop(self, seconds: float, terminate_s: float = TERMINATE_S) -> ChildEnd:
        """Have it end: close the channel and, where that does not do, send SIGTERM, then SIGKILL.

        ``seconds`` and ``terminate_s`` are what it may take before the one and the other. Returns
        when it has ended, and again the same when called again.
        """
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
    """Start a process that runs ``main(descriptor, *arguments)`` of ``module``.

    It gets one end of a channel as ``descriptor``, ``descriptors`` under the same numbers, and
    ``output`` as its standard output and error. It has a session of its own, as what a terminal
    sends is for the process that starts it, which knows what to make of it. When that process, or
    the thread that calls this, dies it gets the signal ``on_parents_death``; in any case the
    channel is closed then.

    ``with_site``: whether it needs packages beside the standard library and this one. Raises
    UsageError, which begins with
    ``failure``.
    """
    if not sys.executable:
        raise UsageError(f"{failure}: Python does not know its own program")
    _let_children_be_waited_for()
    ours, theirs = socket.socketpair()
    try:
        popen = subprocess.Popen(
            [
                sys.executable,
                # Isolated: what is not in our path is not in its path either.
                *("-I", *(() if with_site else ("-S",))),
                *(("-B",) if sys.dont_write_bytecode else ()),
                str(START),
                module,
                str(theirs.fileno()),
                str(os.getpid()),
                str(int(on_parents_death)),
                json.dumps(sys.path),
                *arguments,
            ],
            pass_fds=(theirs.fileno(), *descriptors),
            stdin=subprocess.DEVNULL,
            stdout=output[0],
            stderr=output[1],
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        words = f"{sys.executable}: {(error.strerror or str(error)).lower()}"
        raise UsageError(f"{failure}: {words}") from error
    finally:
        theirs.close()
    return Child(popen, ours)


def _let_children_be_waited_for() -> None:
    """Take SIGCHLD back from who ignores it, as some do who start programs.

    The system would forget how children ended.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def exit_words(code: int) -> str:
    """An exit code, negative for a signal, in words: ``exit status 3``, ``killed by SIGSEGV``."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
