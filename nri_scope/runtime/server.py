# SPDX-License-Identifier: Apache-2.0
"""Emulated runtime that admits plugins, one at a time, and sends them requests."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from nri_scope.errors import (
    ConnectError,
    ConnectionClosed,
    UsageError,
)
from nri_scope.transport import Server, listen_unix

from .answer import Rejection, Stage
from .command import command_of
from .external_plugin import ExternalPlugin
from .output import OnOutput
from .plugin import Plugin
from .plugin_connections import PluginConnections
from .plugin_process import Process, launch

ENDED = "the runtime has ended"
"""End reason of connections when the runtime ends."""

RESTARTS = "the runtime restarts"
"""End reason of connections when the runtime restarts."""


class Runtime(PluginConnections):
    """Emulated runtime, as an async context manager that ends all plugins on exit.

    As in real runtimes, requests after Configure are serial, under one lock: events in the order of
    the calls, each to one plugin after the other in index order, with the Synchronize of new
    plugins in between. Plugins of equal index are asked in the order of their arrival; in real
    runtimes that order is undefined.
    """

    async def __aenter__(self) -> Self:
        self._servers: list[Server] = []
        self._paths: list[str] = []
        self._launches: dict[str, Callable[[], Awaitable[Plugin]]] = {}
        self._externals: dict[str, ExternalPlugin] = {}
        """The external plugins that were started here, by the paths of their sockets."""
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._close()
        except asyncio.CancelledError as cancelled:
            # Cancelling the tasks kills the plugins.
            kind, error = asyncio.CancelledError, cancelled
        for external in self._externals.values():
            await external.remove()
        # Do not pass an exception of the body to the group, which would wrap it. Do pass a
        # cancellation: the group may have caused it after a background task failed.
        if kind is None or not issubclass(kind, asyncio.CancelledError):
            kind = error = traceback = None
        await self._group.__aexit__(kind, error, traceback)

    # -- start of plugins --------------------------------------------------------------------

    async def listen(self, path: str | Path) -> None:
        """Accept plugins at a unix socket; create its folder (mode 0700) if missing.

        The socket is removed when the runtime ends. Raises `ConnectError`.
        """
        folder = Path(path).parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConnectError(
                path, f"its folder cannot be created: {(error.strerror or str(error)).lower()}"
            ) from error
        self._servers.append(await listen_unix(path, lambda: self._accept(os.fspath(path)).link))

    async def adopt(self, connected: socket.socket, config: str = "") -> Plugin:
        """Admit the plugin at the other end of ``connected``; return once it gets events.

        Real runtimes send no ``config`` to plugins that they did not launch. Raises
        `ConnectionClosed` with the reason if the plugin fails before that.
        """
        return await self._connect(connected, self._new_plugin(), None, config)

    async def launch_command(
        self,
        argv: Sequence[str],
        index: str,
        name: str,
        config: str = "",
        environment: Mapping[str, str] | None = None,
        on_output: OnOutput | None = None,
    ) -> Plugin:
        """Start a plugin by a command line; return once it gets events.

        Unlike in real runtimes, ``environment`` is added to its three variables, and its output is
        stored and passed to ``on_output``. `Plugin.process` has its exit status. Raises
        `UsageError` for a command that cannot be run, and `ConnectionClosed` like `adopt`, with the
        exit status and last lines of a plugin that ended, which is then the last of `former`.
        """
        command = command_of(argv, index, name, environment)
        process, connected = await launch(command, on_output)
        plugin = self._new_plugin((index, name))
        plugin.process = process
        try:
            return await self._connect(connected, plugin, process, config)
        finally:
            if plugin.stage is not Stage.REGISTRATION:
                self._launches[plugin.id] = lambda: self.launch_command(
                    argv, index, name, config, environment, on_output
                )

    async def launch_external(self, external: ExternalPlugin, timeout_s: float) -> Plugin:
        """Start a plugin that connects by itself; return once it gets events.

        It must connect within ``timeout_s``. A restart of the runtime does not end it. Raises
        `UsageError` if it cannot be started or does not connect, and `ConnectionClosed` like
        `launch_command`.
        """
        self._externals[external.socket.path] = external
        await self.listen(external.socket.path)
        await external.start()
        return await self._admitted(await external.connection(timeout_s))

    def _accept(self, path: str) -> Plugin:
        plugin = self._new_plugin()
        if path in self._externals:
            self._externals[path].connected(plugin)
        return self._take(plugin)

    async def _connect(
        self, connected: socket.socket, plugin: Plugin, process: Process | None, config: str
    ) -> Plugin:
        connected.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            await loop.create_unix_connection(lambda: plugin.link, sock=connected)
        except BaseException:
            if process is not None:
                await process.kill()
            raise
        self._take(plugin, process, config)
        if self._down_reason:
            if process is not None:
                await process.kill()
            raise ConnectionClosed(self._down_reason)
        return await self._admitted(plugin)

    # -- restarts of the runtime --------------------------------------------------------------

    async def restart(self, *, graceful: bool = False) -> None:
        """Restart the runtime: `shut_down`, then `start_again`."""
        await self.shut_down(graceful=graceful)
        await self.start_again()

    async def shut_down(self, *, graceful: bool = False) -> None:
        """Close the sockets and connections, and kill launched plugins.

        If ``graceful``, they first get the runtime's grace. Events reach no plugin until
        `start_again`.
        """
        self._down_reason = RESTARTS
        self._paths += [server.path for server in self._servers]
        for server in self._servers:
            await server.close()
        self._servers.clear()
        self._disconnect(RESTARTS, graceful=graceful)
        await self.wait_for(lambda: not self._connected)

    async def start_again(self) -> None:
        """Start the runtime after `shut_down`: launch its plugins, then listen.

        External plugins must reconnect. Launched plugins that fail before they get events are added
        to `rejections`. (Up to NRI 0.6 a real runtime would not start.) Raises `ConnectError` for a
        socket that cannot be created.
        """
        self._down_reason = ""
        for plugin, launch_again in sorted(self._launches.items()):
            try:
                await launch_again()
            except ConnectionClosed:
                pass
            except UsageError as error:
                self._reject(Rejection(plugin, Stage.LAUNCH, str(error)))
        while self._paths:
            await self.listen(self._paths.pop(0))
        await self.start_externals()

    async def start_externals(self) -> None:
        """Start the external plugins that have ended, as a service manager does.

        Those that fail are added to `rejections`.
        """
        for external in self._externals.values():
            try:
                await external.start()
            except UsageError as error:
                self._reject(Rejection("", Stage.LAUNCH, str(error)))

    # -- the end ------------------------------------------------------------------------------

    async def _close(self) -> None:
        self._down_reason = ENDED
        for server in self._servers:
            await server.close()
        for task in self._tasks:
            task.cancel()
        processes = [e.process for e in self._externals.values() if e.process is not None]
        for process in processes:
            process.closing = process.running
        self._disconnect(ENDED, graceful=True)
        stopping = (asyncio.ensure_future(process.stop(self._grace_s)) for process in processes)
        if ending := [*self._watches, *stopping]:
            await asyncio.wait(ending)
