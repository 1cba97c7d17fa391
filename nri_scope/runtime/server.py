# SPDX-License-Identifier: Apache-2.0
"""Emulated runtime: admits plugins, one at a time, sends them requests, and ends them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import UpdateContainersRequest, UpdateContainersResponse
from nri_scope.end_reasons import RUNTIME, RUNTIME_ENDED, RUNTIME_RESTARTS, closed_by
from nri_scope.errors import (
    ConnectError,
    ConnectionClosed,
    LocalProtocolError,
    NriScopeError,
    RpcError,
    UsageError,
    reason_of,
)
from nri_scope.nri.events import EventKind
from nri_scope.process.private_folders import make_private_folder
from nri_scope.transport import Server, listen_unix
from nri_scope.wire import Code

from . import plugin_setup
from .answer import Answer, Rejection, SetupStage
from .command import command_of
from .external_plugin import ExternalPlugin
from .operations import Chain, Dispatch, OperationResult, event_of
from .output import OnOutput
from .plugin import Plugin
from .plugin_process import Process, launch
from .plugin_setup import PART_MAX, ProfileSetUp
from .profile import Profile

Update = Callable[[Plugin, UpdateContainersRequest], UpdateContainersResponse]
"""Return the reply to a plugin's UpdateContainers, or raise the `RpcError` to reply with."""

FORMER_KEPT = 1000
"""Maximum number of former plugins, and of rejections, stored: a plugin may reconnect endlessly."""

UNKNOWN_METHOD = "CheckpointContainer"
"""RPC of an event that no NRI version has."""
UNKNOWN_EVENT = b"\x08\x63"
"""Request of an event that no NRI version has: a StateChange with event 99."""

EXIT_GRACE_S = 2.0
"""Seconds in which a launched plugin that closed its connection must end, and may print why, before
it is killed. (Real runtimes kill it at the next event.)"""


class EmulatedRuntime:
    """Emulated runtime, as an async context manager that ends all plugins on exit.

    As in real runtimes, requests after Configure are serial, under one lock: events in the order of
    the calls, each to one plugin after the other in index order, with the Synchronize of new
    plugins in between. Plugins of equal index are asked in the order of their arrival; in real
    runtimes that order is undefined.
    """

    def __init__(
        self,
        setup: ProfileSetUp | Profile,
        *,
        on_update: Update = lambda plugin, request: UpdateContainersResponse(),
        on_new: Callable[[Plugin], None] = lambda plugin: None,
        on_ready: Callable[[Plugin], None] = lambda plugin: None,
        on_end: Callable[[Plugin], None] = lambda plugin: None,
        sync_part_max: int | None = None,
        grace_s: float = 0.0,
    ) -> None:
        """Create a runtime with these hooks.

        ``on_new`` is called for each connection before any request is sent, to set the hooks of
        `Plugin`; ``on_ready`` for each plugin when it is admitted; ``on_end`` for each connection
        that has ended, admitted or not.

        If this runtime splits Synchronize, parts have at most ``sync_part_max`` bytes, unless a
        single object is larger.

        At the end of the context, launched plugins have ``grace_s`` to end after their connections
        were closed, see `Process.stop`. With 0, and at any other time, they are killed before that,
        as real runtimes do.
        """
        self._setup = ProfileSetUp(setup) if isinstance(setup, Profile) else setup
        self.profile = self._setup.profile
        """Behaviour of this runtime."""
        self._chain = Chain(by_name=self.profile.dispatch_rules.orders_by_name)
        self._on_update = on_update
        self._on_new = on_new
        self._on_ready = on_ready
        self._on_end = on_end
        self._sync_part_max = sync_part_max or PART_MAX
        self._grace_s = grace_s
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watches: set[asyncio.Task[None]] = set()
        self._registering = asyncio.Lock()
        self._connected: dict[Plugin, Process | None] = {}
        self._changed = asyncio.Event()
        self._down_reason = ""
        self.rejections: deque[Rejection] = deque(maxlen=FORMER_KEPT)
        """Plugins that failed before they got events, with the reasons."""
        self.rejected = 0
        """Total number of rejections, including those no longer kept."""
        self.former: deque[Plugin] = deque(maxlen=FORMER_KEPT)
        """Plugins whose connection has ended; `Plugin.end_reason` is the reason."""
        self._servers: list[Server] = []
        self._paths: list[str] = []
        self._launches: dict[str, Callable[[], Awaitable[Plugin]]] = {}
        self._externals: dict[str, ExternalPlugin] = {}
        """The external plugins that were started here, by the paths of their sockets."""

    async def __aenter__(self) -> Self:
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

    # -- requests to plugins ------------------------------------------------------------------

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plugins that get events, in the order in which they are asked."""
        return self._chain.plugins

    async def operate(
        self, event: EventKind, request: Message, *, timeout_ns: int = 0, undoes: bool = False
    ) -> OperationResult:
        """Perform ``event`` as this runtime does, with all consequences of the answers.

        ``request`` is the event's own request message, with the container as it is before any
        plugin adjusts it. Replies are merged, and validators are asked if there are any.
        ``timeout_ns`` is each plugin's deadline (0: the profile's). An event that ``undoes`` a
        failed request has the container in the state of that request.
        """
        timeout_ns, profile = timeout_ns or self._request_timeout_ns, self.profile
        if undoes:
            profile = replace(profile, lifecycle_rules=replace(profile.lifecycle_rules, states={}))
        return await Dispatch(self._chain, profile, event, request, timeout_ns).perform()

    async def send(self, method: str, payload: bytes, *, timeout_ns: int = 0) -> list[Answer]:
        """Send a request byte for byte, with the deadline ``timeout_ns`` (0: the profile's).

        It is sent to the subscribers of its event, or without a known event to every plugin.
        """
        timeout_ns = timeout_ns or self._request_timeout_ns
        return await self._chain.send(method, payload, event_of(method, payload), timeout_ns)

    async def send_unknown(self) -> list[Answer]:
        """Send every plugin an event that no NRI version has, as a later runtime might.

        It has its own RPC. Plugins that do not implement that RPC, and all plugins on a runtime
        before NRI 0.12, get it as a StateChange. An error does not end the chain. (A real runtime
        would send it only to subscribers: to plugins with an empty mask.)
        """
        if not self.profile.dedicated_rpcs:
            return await self._send_unknown("StateChange")
        answers: list[Answer] = []
        for answer in await self._send_unknown(UNKNOWN_METHOD):
            if isinstance(answer.error, RpcError) and answer.error.code == Code.UNIMPLEMENTED:
                answers += await self._send_unknown("StateChange", answer.plugin) or [answer]
            else:
                answers.append(answer)
        return answers

    async def _send_unknown(self, method: str, plugin: str = "") -> list[Answer]:
        timeout_ns = self._request_timeout_ns
        return await self._chain.send(
            method, UNKNOWN_EVENT, None, timeout_ns, only=plugin, ignore_errors=True
        )

    @property
    def _request_timeout_ns(self) -> int:
        return self.profile.request_timeout_ms * 1_000_000

    # -- start of plugins --------------------------------------------------------------------

    async def listen(self, path: str | Path) -> None:
        """Accept plugins at a unix socket; create its folder (mode 0700) if missing.

        The socket is removed when the runtime ends. Raises `ConnectError`.
        """
        folder = Path(path).parent
        try:
            make_private_folder(folder)
        except OSError as error:
            raise ConnectError(path, f"its folder cannot be created: {reason_of(error)}") from error
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
        passed to ``on_output``. `Plugin.process` has its exit status. Raises
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
            if plugin.stage is not SetupStage.REGISTRATION:
                self._launches[plugin.id] = lambda: self.launch_command(
                    argv, index, name, config, environment, on_output
                )

    async def launch_external(self, external: ExternalPlugin, timeout_s: float) -> list[Plugin]:
        """Start a plugin that connects by itself; return its connections once they get events.

        It must connect within ``timeout_s``. A plugin that registers several times has opened its
        other connections by the time the first gets events; those are awaited. A restart of the
        runtime does not end it. Raises `UsageError` if it cannot be started or does not connect,
        and `ConnectionClosed` like `launch_command`.
        """
        self._externals[external.socket.path] = external
        await self.listen(external.socket.path)
        await external.start()
        await self._admitted(await external.connection(timeout_s))
        await self.wait_for(lambda: all(each.settled for each in external.connections))
        return [each for each in external.connections if each.admitted]

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

    async def restart(self) -> None:
        """Restart the runtime: `shut_down`, then `start_again`."""
        await self.shut_down()
        await self.start_again()

    async def shut_down(self) -> None:
        """Close the sockets and connections, and kill launched plugins.

        Events reach no plugin until `start_again`.
        """
        self._down_reason = RUNTIME_RESTARTS
        self._paths += [server.path for server in self._servers]
        for server in self._servers:
            await server.close()
        self._servers.clear()
        self._disconnect(RUNTIME_RESTARTS, graceful=False)
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
                self._reject(Rejection(plugin, SetupStage.LAUNCH, str(error)))
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
                self._reject(Rejection("", SetupStage.LAUNCH, str(error)))

    # -- admission and end --------------------------------------------------------------------

    def _new_plugin(self, identity: tuple[str, str] | None = None) -> Plugin:
        plugin = Plugin(lambda *update: self._keep(self._tasks, self._update(*update)), identity)
        self._on_new(plugin)
        return plugin

    async def _admitted(self, plugin: Plugin) -> Plugin:
        await self.wait_for(lambda: plugin.settled)
        if not plugin.admitted:
            raise ConnectionClosed(plugin.end_reason) from plugin.failure
        return plugin

    def _take(self, plugin: Plugin, process: Process | None = None, config: str = "") -> Plugin:
        if self._down_reason:
            # Accepted just before the socket was closed. Do not wait: the event loop may never
            # establish the link.
            plugin.drop(self._down_reason)
            return plugin
        self._connected[plugin] = process
        self._keep(self._tasks, self._admit(plugin, config))
        self._keep(self._watches, self._watch(plugin, process))
        return plugin

    async def _admit(self, plugin: Plugin, config: str) -> None:
        """Register, configure and synchronize a plugin. Other new connections wait to register."""
        try:
            async with self._registering:
                stream_id = await plugin_setup.register(plugin, self.profile)
                plugin.link.respond(stream_id)
                await plugin_setup.configure(plugin, self._setup, config)
                async with self._chain.lock:
                    if plugin.identity is None or self.profile.synchronizes_launched:
                        await self._synchronize(plugin)
                    if plugin.link.closed:
                        # The connection ended during the wait for the lock.
                        raise ConnectionClosed(await plugin.link.wait_closed())
                    self._chain.add(plugin)
        except NriScopeError as error:
            reason, plugin.failure = str(error), error
            if not self._down_reason:
                self._reject(Rejection(plugin.registered, plugin.stage, reason, plugin.error_sent))
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
            await plugin_setup.synchronize(plugin, self._setup, self._sync_part_max)
        except NriScopeError as error:
            if not plugin.link.closed and self.profile.dispatch_rules.keeps_unsynchronized:
                return
            if not self.profile.closes_unsynchronized:
                plugin.leave(str(error))
            raise

    async def _watch(self, plugin: Plugin, process: Process | None) -> None:
        try:
            reason = await plugin.link.wait_closed()
            if process is not None:
                if process.closing:
                    await process.stop(self._grace_s)
                elif not process.ending:
                    await process.wait_exit(EXIT_GRACE_S)
                process.end()
                await process.wait_exit()
            elif plugin.process is not None and not plugin.process.closing:
                # The end of the connection may end the process, or result from its end.
                await plugin.process.wait_exit(EXIT_GRACE_S)
            self._ended(plugin, reason)
        finally:
            if process is not None:
                await process.kill()

    def _ended(self, plugin: Plugin, reason: str) -> None:
        plugin.end(reason)
        if plugin.process is not None:
            plugin.end_reason = plugin.process.explain(plugin.end_reason)
        del self._connected[plugin]
        self.former.append(plugin)
        self._on_end(plugin)
        self._notify()

    async def drop(self, plugin: str, reason: str = closed_by(RUNTIME)) -> None:
        """Close the connections of ``plugin`` (``NN-name``); return once they are closed.

        Raises `UsageError` if no plugin of that name is connected.
        """
        named = [connected for connected in self._connected if connected.id == plugin]
        if not named:
            connected = ", ".join(connection.id for connection in self.plugins) or "none"
            raise UsageError(
                f"no plugin {plugin!r} is connected", f"connected plugins: {connected}"
            )
        for connection in named:
            connection.drop(reason)
        await self.wait_for(lambda: not any(connection in self._connected for connection in named))

    async def wait_for(self, predicate: Callable[[], bool]) -> None:
        """Wait until ``predicate`` is true; it is called when an admission or a connection ends."""
        while not predicate():
            await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _keep(self, tasks: set[asyncio.Task[None]], work: Coroutine[None, None, None]) -> None:
        task = self._group.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _disconnect(self, reason: str, *, graceful: bool) -> None:
        for plugin in self._connected:
            if graceful and self._grace_s:
                plugin.close(reason)
            else:
                plugin.drop(reason)

    # -- requests of plugins ------------------------------------------------------------------

    async def _update(
        self, plugin: Plugin, stream_id: int, request: UpdateContainersRequest
    ) -> None:
        # Under the lock, as in real runtimes: a plugin that waits for this reply inside the handler
        # of another request causes a deadlock until that request's deadline.
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

    async def _close(self) -> None:
        self._down_reason = RUNTIME_ENDED
        for server in self._servers:
            await server.close()
        for task in self._tasks:
            task.cancel()
        processes = [e.process for e in self._externals.values() if e.process is not None]
        for process in processes:
            process.closing = process.running
        self._disconnect(RUNTIME_ENDED, graceful=True)
        stopping = (asyncio.ensure_future(process.stop(self._grace_s)) for process in processes)
        if ending := [*self._watches, *stopping]:
            await asyncio.wait(ending)
