# SPDX-License-Identifier: Apache-2.0
"""Tap a wrapped plugin: a runtime launches the wrapper in place of the plugin.

Runtimes send SIGKILL to the one process that they launched as soon as a plugin fails, before what
it did last could be recorded. So the launched process only waits, and a child taps the plugin. When
the launched process is killed, the child ends the plugin and completes the recording.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Any

from nri_scope.errors import UsageError
from nri_scope.process.child import keep_exit_statuses
from nri_scope.process.signals import STOP_SIGNALS

TAKEN = b"\0"
"""Message of the child: it uses the runtime's connection from now on. Other messages are errors."""
ERROR_BYTES_MAX = 4096


def run_wrapped(*values: Any) -> None:
    """Tap a plugin that the runtime launched, and exit with its status.

    ``values``: the fields of `WrappedPlugin`, which the launched process does not import.
    Returns or raises only if the runtime's connection was not used: the caller must then execute
    the plugin itself.
    """
    if not os.environ.get("NRI_PLUGIN_SOCKET"):
        # Started by a user, for example for --help, not by a runtime.
        return
    keep_exit_statuses()
    signals = {*STOP_SIGNALS, signal.SIGCHLD}
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    ours, theirs = socket.socketpair()
    with ours:
        child = os.fork()
        if not child:
            try:
                ours.close()
                # The launched process forwards the signals of a terminal.
                os.setpgid(0, 0)
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
                # Imported here, as the launched process does not need it.
                from .wrapped_tap import WrappedPlugin, tap_wrapped

                tap_wrapped(theirs, lambda: theirs.send(TAKEN), WrappedPlugin(*values))
            except BaseException as error:  # noqa: BLE001 - the launched process handles it
                theirs.sendall(str(error).encode(errors="replace")[:ERROR_BYTES_MAX])
            finally:
                os._exit(1)
        theirs.close()
        message = ours.recv(ERROR_BYTES_MAX)
        if message[:1] != TAKEN:
            os.waitpid(child, 0)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
            raise UsageError(message.decode(errors="replace") or "the tap ended before its start")
        # The connection must be closed when the child closes it.
        os.close(int(os.environ["NRI_PLUGIN_SOCKET"]))
        os._exit(_wait(child, signals))


def _wait(child: int, signals: set[signal.Signals]) -> int:
    """Forward stop signals to the child until it exits; return its exit status as a shell does."""
    while True:
        number = signal.sigwait(signals)
        if number != signal.SIGCHLD:
            os.kill(child, number)
            continue
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
