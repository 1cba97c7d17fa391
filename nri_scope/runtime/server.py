# SPDX-License-Identifier: Apache-2.0
"""An emulated runtime: it takes plugins in, one at a time, and dispatches requests to them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from nri_scope._gen.nri.api_pb2 import (
    SynchronizeResponse,
    UpdateContainersRequest,
    UpdateContainersResponse,
)
from nri_scope.errors import (
    ConnectError,
    ConnectionClosed,
    LocalProtocolError,
    NriScopeError,
    RpcError,
    UsageError,
)
from nri_scope.nri.identity import parse_plugin_file, plugin_id
from nri_scope.transport import Server, listen_unix
from nri_scope.wire import Code

from . import admission
from .command import command_of
from .dispatcher import Dispatcher
from .output import OnOutput
from .plugin import Plugin
from .plugin_setup import ProfileSetUp, SetUp
from .process import Process, launch
from .profile import Profile
from .rejection import Rejection, Stage

Update = Callable[[Plugin, UpdateContainersRequest], UpdateContainersResponse]
"""Answers a plugin's UpdateContainers; `RpcError` answers with its status."""

FORMER_KEPT = 1000
"""Plugins that are gone and still known; a plugin may reconnect without end."""

ENDED = "the runtime has ended"
"""Why a plugin's connection ends with the runtime."""

RESTARTS = "the runtime restarts"
"""Why a plugin's connection ends while the runtime is away."""

EXIT_GRACE_S = 2.0
"""A launched plugin that closed its connection may be about to end, and to say why, before it is
killed. (Real runtimes kill it when the next event comes.)"""


class Runtime(Dispatcher):
    """The runtime's role. Use it as an async context manager; leaving it ends every plugin.

    Everything that goes to plugins after their registration is serial, under one lock, as in real
    runtimes: events in the order of `dispatch` and `send`, each to one plugin after the other in
    the order of their indices, and a new plugin's Synchronize in between. Plugins of equal index
    are asked in the order of their arrival; real runtimes promise no order there.
    """

    def __init__(
        self,
        setup: SetUp | Profile,
        *,
        on_update: Update = lambda plugin, request: UpdateContainersResponse(),
        on_new: Callable[[Plugin], None] = lambda plugin: None,
        on_ready: Callable[[Plugin], None] = lambda plugin: None,
        on_synchronized: Callable[[Plugin, SynchronizeResponse], None] = lambda plugin, reply: None,
        on_end: Callable[[Plugin], None] = lambda plugin: None,
        configure_first: bool = False,
        sync_part_max: int | None = None,
    ) -> None:
        """Listen for connections with these hooks. ``on_new`` is called for each connection before
        anything is sent, to set its own hooks (`transit_ns`, `on_exchange`); ``on_ready`` for each
        plugin from which on it gets events; ``on_end`` for each connection that has ended, ready or
        not. ``on_synchronized`` gets replies to Synchronize before any other request is sent;
        real runtimes carry out the updates in them one by one, and merge nothing.

        With ``configure_first`` Configure is sent before RegisterPlugin is answered, as a real
        runtime may or may not do. Parts of Synchronize have at most ``sync_part_max`` bytes,
        where an object is not larger by itself. Raises `UsageError` for a runtime without parts.
        """
        self._setup: SetUp = ProfileSetUp(setup) if isinstance(setup, Profile) else setup
        super().__init__(self._setup.profile)
        self._on_update = on_update
        self._on_new = on_new
        self._on_ready = on_ready
        self._on_end = on_end
        self._on_synchronized = on_synchronized
        self._configure_first = configure_first
        if sync_part_max is not None and not self.profile.split_sync:
            raise UsageError(
                f"{self.profile.title} never sends Synchronize in parts",
                "take the profile of a runtime with NRI 0.7 or later",
            )
        self._sync_part_max = sync_part_max
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[Server] = []
        self._registering = asyncio.Lock()
        self._connected: dict[Plugin, Process | None] = {}
        self._changed = asyncio.Event()
        self._away = ""
        self._paths: list[str] = []
        self._launches: dict[str, Callable[[], Awaitable[Plugin]]] = {}
        self.rejections: deque[Rejection] = deque(maxlen=FORMER_KEPT)
        """Who did not come so far as to get events, and why."""
        self.rejected = 0
        """How many these were, with those that are not kept any more."""
        self.former: deque[Plugin] = deque(maxlen=FORMER_KEPT)
        """Plugins whose connection has ended; `Plugin.end_reason` says why."""

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close()
        # An exception of the body is the body's: the group would wrap it. It has to know of a
        # cancellation, which may be its own doing after a background task failed.
        if kind is None or not issubclass(kind, asyncio.CancelledError):
            kind = error = traceback = None
        await self._group.__aexit__(kind, error, traceback)

    # -- plugins come and go ------------------------------------------------------------------

    async def listen(self, path: str | Path) -> None:
        """Take plugins in at a unix socket, whose folder is made (0700) if it is missing.

        Raises `ConnectError`. The socket is removed in the end.
        """
        folder = Path(path).parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConnectError(
                path, f"its folder cannot be made: {(error.strerror or str(error)).lower()}"
            ) from error
        self._servers.append(await listen_unix(path, lambda: self._take(self._new_plugin()).link))

    async def adopt(self, connected: socket.socket, config: str = "") -> Plugin:
        """Take in the plugin at the other end of ``connected``; returns once it gets events.

        Real runtimes have no ``config`` for plugins that they did not launch. Raises
        `ConnectionClosed` with the reason where it does not come so far.
        """
        return await self._connect(connected, self._new_plugin(), None, config)

    async def launch(self, path: str | Path, *, config: str = "") -> Plugin:
        """Start the plugin at ``path``, a file named ``NN-name``; returns once it gets events.

        Raises `UsageError` for a file that cannot be one, and `ConnectionClosed` as `adopt`.
        """
        file = Path(path)
        index, name = parse_plugin_file(file.name)
        # With a slash in it the command is not looked for in PATH.
        return await self.launch_command([f"{file.parent}/{file.name}"], index, name, config)

    async def launch_command(
        self,
        argv: Sequence[str],
        index: str,
        name: str,
        config: str = "",
        environment: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        on_output: OnOutput | None = None,
    ) -> Plugin:
        """Start a plugin by a command line; returns once it gets events.

        It is launched as real runtimes do it, but for ``environment``, which is added to its three
        variables, and its output, which is kept and passed to ``on_output``. `Plugin.process` says
        how it ended. Raises `UsageError` for a command that cannot be run, and `ConnectionClosed`
        as `adopt`, with the exit status and last words of a plugin that ended; it is the last one
        of `former` then.
        """
        command = command_of(argv, index, name, environment, cwd)
        process, connected = await launch(command, on_output)
        self._launches[plugin_id(index, name)] = lambda: self.launch_command(
            argv, index, name, config, environment, cwd, on_output
        )
        plugin = self._new_plugin((index, name))
        plugin.process = process
        return await self._connect(connected, plugin, process, config)

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
        if self._away:
            if process is not None:
                await process.kill()
            raise ConnectionClosed(self._away)
        await self.wait_for(lambda: plugin.settled)
        if not plugin.admitted:
            raise ConnectionClosed(plugin.end_reason)
        return plugin

    def _new_plugin(self, identity: tuple[str, str] | None = None) -> Plugin:
        plugin = Plugin(self._queue_update, identity)
        self._on_new(plugin)
        return plugin

    def _take(self, plugin: Plugin, process: Process | None = None, config: str = "") -> Plugin:
        if self._away:
            # Accepted just before the socket was closed: the event loop may make the link yet, or
            # may not, so it is not waited for.
            plugin.drop(self._away)
            return plugin
        self._connected[plugin] = process
        self._spawn(self._admit(plugin, config))
        self._group.create_task(self._watch(plugin, process))
        return plugin

    async def _admit(self, plugin: Plugin, config: str) -> None:
        """Register, configure and synchronize a plugin; the connections after this one wait."""
        try:
            async with self._registering:
                stream_id = await admission.register(plugin, self.profile)
                if self._configure_first:
                    # Runs once the call below has sent its request and waits for the reply.
                    asyncio.get_running_loop().call_soon(plugin.link.respond, stream_id)
                else:
                    plugin.link.respond(stream_id)
                await admission.configure(plugin, self._setup, config)
                async with self._chain.lock:
                    if plugin.identity is None or self.profile.synchronizes_launched:
                        await self._synchronize(plugin)
                    if plugin.link.closed:
                        # It left while others had their turn.
                        raise ConnectionClosed(await plugin.link.wait_closed())
                    self._chain.add(plugin)
        except NriScopeError as error:
            reason = str(error)
            if not self._away:
                self._reject(Rejection(plugin.registered, plugin.stage, reason, plugin.told))
            if not plugin.refused:
                plugin.drop(reason)
        else:
            plugin.admitted = True
            self._on_ready(plugin)
        self._notify()

    def _reject(self, rejection: Rejection) -> None:
        self.rejections.append(rejection)
        self.rejected += 1

    async def _synchronize(self, plugin: Plugin) -> None:
        try:
            reply = await admission.synchronize(plugin, self._setup, self._sync_part_max)
        except NriScopeError as error:
            if not plugin.link.closed and self.profile.conduct.keeps_unsynchronized:
                return
            if not self.profile.closes_unsynchronized:
                plugin.leave(str(error))
            raise
        self._on_synchronized(plugin, reply)

    async def _watch(self, plugin: Plugin, process: Process | None) -> None:
        try:
            reason = await plugin.link.wait_closed()
            # What it is asked from here on would fail; why it ended may take a moment to learn.
            self._chain.remove(plugin)
            if process is not None:
                if not process.ending:
                    await process.wait_exit(EXIT_GRACE_S)
                process.end()
                await process.wait_exit()
            self._ended(plugin, reason)
        finally:
            if process is not None:
                await process.kill()

    def _ended(self, plugin: Plugin, reason: str) -> None:
        plugin.end(reason)
        if plugin.process is not None:
            plugin.end_reason = plugin.process.explain(plugin.end_reason)
        self._chain.remove(plugin)
        del self._connected[plugin]
        self.former.append(plugin)
        self._on_end(plugin)
        self._notify()

    # -- what happens to runtimes -------------------------------------------------------------

    async def restart(self) -> None:
        """Restart: `go_down` and `come_back`."""
        await self.go_down()
        await self.come_back()

    async def go_down(self) -> None:
        """End the runtime for a while: no socket, no connection and no launched plugin is left.

        Events that happen meanwhile reach no plugin.
        """
        self._away = RESTARTS
        self._paths += [server.path for server in self._servers]
        for server in self._servers:
            await server.close()
        self._servers.clear()
        for plugin in self._connected:
            plugin.drop(RESTARTS)
        await self.wait_for(lambda: not self._connected)

    async def come_back(self) -> None:
        """Start the runtime again: it launches its plugins first, and listens then.

        External plugins have to connect by themselves. A launched one that does not come so far
        again is among the `rejections`. (Up to NRI 0.6 a real runtime would not start without it.)
        Raises `ConnectError` for a socket that cannot be made.
        """
        self._away = ""
        for plugin, launch_again in sorted(self._launches.items()):
            try:
                await launch_again()
            except ConnectionClosed:
                pass
            except UsageError as error:
                self._reject(Rejection(plugin, Stage.LAUNCH, str(error)))
        while self._paths:
            await self.listen(self._paths.pop(0))

    async def drop(self, plugin: str, reason: str = "closed by the runtime") -> None:
        """Close the connection of ``plugin`` (``NN-name``); returns once it is gone.

        Raises `UsageError` if there is none of that name.
        """
        found = [one for one in self._connected if one.id == plugin]
        if not found:
            there = ", ".join(one.id for one in self.plugins) or "no plugin"
            raise UsageError(f"no plugin {plugin!r} is connected", f"there is {there}")
        for one in found:
            one.drop(reason)
        await self.wait_for(lambda: not any(one in self._connected for one in found))

    async def wait_for(self, predicate: Callable[[], bool]) -> None:
        """Wait until ``predicate`` holds; it is asked whenever a plugin becomes ready or ends."""
        while not predicate():
            await self._changed.wait()

    async def wait_plugins(self, count: int) -> None:
        """Wait until at least ``count`` plugins get events."""
        await self.wait_for(lambda: len(self.plugins) >= count)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # -- what plugins ask ---------------------------------------------------------------------

    def _queue_update(
        self, plugin: Plugin, stream_id: int, request: UpdateContainersRequest
    ) -> None:
        self._spawn(self._update(plugin, stream_id, request))

    async def _update(
        self, plugin: Plugin, stream_id: int, request: UpdateContainersRequest
    ) -> None:
        # Under the lock, as in real runtimes: asked for by a plugin that is handling a request and
        # waits for this answer before it gives its own, both get nowhere until the deadline.
        async with self._chain.lock:
            if plugin.link.closed:
                return
            try:
                reply = self._on_update(plugin, request)
                plugin.link.respond(stream_id, reply.SerializeToString())
            except RpcError as error:
                plugin.link.respond_error(stream_id, error.code, error.message)
            except LocalProtocolError as error:
                plugin.link.respond_error(stream_id, Code.INTERNAL, error.problem)

    # -- inside -------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close(self) -> None:
        self._away = ENDED
        for server in self._servers:
            await server.close()
        for task in self._tasks:
            task.cancel()
        for plugin in self._connected:
            plugin.drop(ENDED)
