# SPDX-License-Identifier: Apache-2.0
"""Starting the keeper of a plugin, with the plugin's descriptors and ours."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nri_scope.errors import UsageError

from .command import Command
from .output import Stream

KEEPER = Path(__file__).with_name("keeper.py")


@dataclass(frozen=True, slots=True)
class Keeper:
    """What we hold of a keeper that runs; see there for what it does and tells."""

    pid: int
    control: socket.socket
    """Where it reports, one datagram each, until it ends. It ends everything once this is shut
    down."""
    pipes: Mapping[Stream, int]
    """To read what the plugin prints; they do not block."""


def spawn_keeper(command: Command, connection: socket.socket) -> Keeper:
    """Start a keeper that starts ``command`` with ``connection`` as its descriptor 3.

    Raises `UsageError` where the system refuses that.
    """
    with contextlib.ExitStack() as kept, contextlib.ExitStack() as passed:
        try:
            control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            kept.enter_context(control)
            passed.enter_context(theirs)
            control.setblocking(False)
            pipes: dict[Stream, int] = {}
            writing: list[int] = []
            for stream in Stream:
                reading, end = os.pipe()
                kept.callback(os.close, reading)
                passed.callback(os.close, end)
                os.set_blocking(reading, False)
                pipes[stream] = reading
                writing.append(end)
            order = passed.enter_context(tempfile.TemporaryFile())
            order.write(_order(command))
            order.seek(0)
            # In the order of the keeper's own: 1, 2, the plugin's 3, CONTROL, ORDER.
            descriptors = [*writing, connection.fileno(), theirs.fileno(), order.fileno()]
            keeper = Keeper(_spawn(command.argv[0], descriptors, passed), control, pipes)
        except OSError as error:
            raise UsageError(
                f"plugins cannot be launched: {(error.strerror or str(error)).lower()}"
            ) from error
        kept.pop_all()
        return keeper


def _spawn(plugin: str, descriptors: Sequence[int], passed: contextlib.ExitStack) -> int:
    if not sys.executable:
        raise UsageError("plugins cannot be launched: Python does not know its own program")
    actions: list[tuple[int, int, int] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
    ]
    for target, descriptor in enumerate(descriptors, 1):
        # Above all targets: none of them must overwrite what is still to be copied.
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, len(descriptors) + 1)
        passed.callback(os.close, high)
        actions.append((os.POSIX_SPAWN_DUP2, high, target))
    return os.posix_spawn(
        sys.executable,
        # Isolated and without site-packages, which is what makes it quick. The plugin's name is
        # for people who look at a list of processes.
        [sys.executable, "-I", "-S", str(KEEPER), plugin],
        os.environ,
        file_actions=actions,
        setsigmask=(),
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )


def _order(command: Command) -> bytes:
    order = {
        "path": _encoded(command.path),
        "argv": [_encoded(word) for word in command.argv],
        "environment": [_encoded(f"{name}={to}") for name, to in command.environment.items()],
        "cwd": _encoded(command.cwd),
    }
    return json.dumps(order).encode()


def _encoded(text: str) -> str:
    """Latin-1, one character for each byte: names of files need not be UTF-8."""
    return os.fsencode(text).decode("latin-1")
