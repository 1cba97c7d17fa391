# SPDX-License-Identifier: Apache-2.0
"""Plugins that the runtime starts itself."""

from __future__ import annotations

import socket

from .command import Command
from .output import OnOutput
from .process import Process


async def launch(
    command: Command, on_output: OnOutput | None = None, *, pass_output: bool = False
) -> tuple[Process, socket.socket]:
    """Start a plugin and return the runtime's end of the connection.

    The plugin gets descriptor 3, its environment and nothing else from us. What it prints, which
    real runtimes throw away, goes to `Process.output`, and only to ``on_output`` with
    ``pass_output``. Raises `UsageError` when it cannot be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        try:
            process = await Process.start(command, theirs, on_output, pass_output=pass_output)
            return process, ours
        except BaseException:
            ours.close()
            raise
