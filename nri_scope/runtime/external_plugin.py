# SPDX-License-Identifier: Apache-2.0
"""Plugins that are started with a private socket, to which they connect by themselves."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from nri_scope.errors import ConnectionClosed, UsageError
from nri_scope.nri.events import DEFAULT_SOCKET
from nri_scope.transport.sockets import UNIX_PATH_MAX

from .command import SOCKET, external_command_of
from .output import LAST_KEPT, OnOutput, Stream
from .plugin import Plugin
from .plugin_process import Process

_OWN_IDENTITY = re.compile(r"plugin (ID|name) already set", re.IGNORECASE)
"""Error of upstream's stub, if the plugin sets an index besides the one of its environment."""


class PrivateSocket:
    """Path for a socket, in a temporary folder that only this user can access."""

    def __init__(self) -> None:
        name = PurePath(DEFAULT_SOCKET).name
        prefix = "nri-scope-"
        self._folder = tempfile.TemporaryDirectory(prefix=prefix)
        if len(os.fsencode(f"{self._folder.name}/{name}")) > UNIX_PATH_MAX:
            self._folder.cleanup()
            self._folder = tempfile.TemporaryDirectory(prefix=prefix, dir="/tmp")
        self.path = f"{self._folder.name}/{name}"

    def remove(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


class ExternalPlugin:
    """A plugin's command, its private socket and its process."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str] | None = None,
        on_output: OnOutput | None = None,
        *,
        pass_output: bool = False,
    ) -> None:
        """Create the socket's folder. The arguments are those of `external_command_of` and
        `Process.start`. Raises `UsageError` for a command that cannot be run.
        """
        self.socket = PrivateSocket()
        try:
            self._command = external_command_of(argv, self.socket.path, environment)
        except UsageError:
            self.socket.remove()
            raise
        self._on_output = on_output
        self._pass_output = pass_output
        self.process: Process | None = None
        self.connections: list[Plugin] = []
        """Its connections that were open at the last one; it may register several times."""
        self._has_connected = asyncio.Event()

    async def start(self) -> Process:
        """Start the plugin, unless it is running. Raises `UsageError` if that fails."""
        if self.process is not None:
            if self.process.running:
                return self.process
            await self.process.kill()
        self.process = process = await Process.start(
            self._command, None, self._on_output, pass_output=self._pass_output
        )
        for connection in self.connections:
            # The plugin connected before the keeper's report of its start was read.
            connection.process = connection.process or process
        return process

    def connected(self, connection: Plugin) -> None:
        """Store a new connection."""
        still_open = (each for each in self.connections if not each.link.closed)
        self.connections = [*still_open, connection]
        connection.process = self.process
        self._has_connected.set()

    async def connection(self, timeout_s: float) -> Plugin:
        """Wait until the started plugin connects, and return its latest connection.

        Raises `ConnectionClosed` if it exits before that, and `UsageError` after ``timeout_s``.
        """
        assert self.process is not None
        waiting = [
            asyncio.ensure_future(awaited)
            for awaited in (self._has_connected.wait(), self.process.wait_exit())
        ]
        try:
            await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        if self.connections:
            return self.connections[-1]
        if self.process.running:
            raise self.not_connected(timeout_s)
        raise ConnectionClosed(self.process.explain("it did not connect"))

    def not_connected(self, seconds: float) -> UsageError:
        """Return an error for a plugin that is running and has not connected."""
        return UsageError(
            f"{self._command.argv[0]} did not connect to its socket within {seconds:g} s",
            self.socket_hint,
        )

    @property
    def has_connected(self) -> bool:
        """Whether the plugin has connected at least once."""
        return self._has_connected.is_set()

    @property
    def socket_hint(self) -> str:
        """What to do if the plugin does not find its socket."""
        named = f"{SOCKET} in its arguments"
        if self._command.folders:
            return f"write {named} where they name its socket, unless that is {DEFAULT_SOCKET}"
        return f"{named} must be where they name its socket"

    async def remove(self) -> None:
        """Kill the plugin if it is running, and remove the socket's folder."""
        if self.process is not None:
            await self.process.kill()
        self.socket.remove()


def registers_itself(process: Process) -> bool:
    """Return whether a launched plugin ended because it registers an index or a name of its own.

    Runtimes cannot launch such a plugin; it can only be started as an external one.
    """
    return not process.running and any(
        _OWN_IDENTITY.search(line)
        for stream in Stream
        for line in process.output.last(stream, LAST_KEPT)
    )
