# SPDX-License-Identifier: Apache-2.0
"""Plugins that the runtime starts itself, and the configuration files of those."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from nri_scope.errors import UsageError

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


def read_config(folder: str | Path, index: str, name: str) -> str:
    """Return the configuration of a launched plugin: ``NN-name.conf``, else
    ``name.conf``, else "".
    """
    for file_name in (f"{index}-{name}.conf", f"{name}.conf"):
        path = Path(folder) / file_name
        with contextlib.suppress(FileNotFoundError):
            try:
                # A named pipe would wait for a writer.
                flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
                with os.fdopen(os.open(path, flags), encoding="utf-8") as file:
                    return file.read()
            except (PermissionError, UnicodeDecodeError, IsADirectoryError) as error:
                raise UsageError(f"{path}: cannot be read: {error}") from error
    return ""
