# SPDX-License-Identifier: Apache-2.0
"""Plugins that the runtime starts itself, from files named ``NN-name``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from pathlib import Path

from nri_scope.errors import UsageError

PLUGIN_DESCRIPTOR = 3
"""On which a launched plugin finds its end of the connection."""


class Process:
    """A launched plugin's process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    async def kill(self) -> None:
        """End it in the only way that runtimes know, SIGKILL, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        descriptor = os.pidfd_open(self.pid)
        loop = asyncio.get_running_loop()
        gone: asyncio.Future[None] = loop.create_future()
        loop.add_reader(descriptor, self._reap, gone)
        try:
            await gone
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)

    def _reap(self, gone: asyncio.Future[None]) -> None:
        os.waitpid(self.pid, 0)
        gone.set_result(None)


def launch(path: str | Path, index: str, name: str) -> tuple[Process, socket.socket]:
    """Start a plugin and return the runtime's end of the connection.

    The plugin gets descriptor 3 and three environment variables and nothing else: no PATH, no
    HOME, and what it prints is thrown away. Raises `UsageError` when it cannot be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    environment = {
        "NRI_PLUGIN_NAME": name,
        "NRI_PLUGIN_IDX": index,
        "NRI_PLUGIN_SOCKET": str(PLUGIN_DESCRIPTOR),
    }
    with theirs:
        try:
            pid = os.posix_spawn(
                path,
                [os.fspath(path)],
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), PLUGIN_DESCRIPTOR),
                    *((os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)),
                ],
                # Python ignores these, and ignoring survives an exec.
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        except OSError as error:
            ours.close()
            raise UsageError(
                f"{os.fspath(path)}: cannot be launched: {(error.strerror or str(error)).lower()}",
                "a plugin is an executable file",
            ) from error
    return Process(pid), ours


def read_config(folder: str | Path, index: str, name: str) -> str:
    """The configuration of a launched plugin: ``NN-name.conf``, else ``name.conf``, else ""."""
    for file_name in (f"{index}-{name}.conf", f"{name}.conf"):
        path = Path(folder) / file_name
        with contextlib.suppress(FileNotFoundError):
            try:
                return path.read_text(encoding="utf-8")
            except (PermissionError, UnicodeDecodeError, IsADirectoryError) as error:
                raise UsageError(f"{path}: cannot be read: {error}") from error
    return ""
