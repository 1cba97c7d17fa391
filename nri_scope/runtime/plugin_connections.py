# SPDX-License-Identifier: Apache-2.0
"""Connections of plugins, from their admission to their end, and the requests sent to them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import (
    UpdateContainersRequest,
    UpdateContainersResponse,
)
from nri_scope.errors import (
    ConnectionClosed,
    LocalProtocolError,
    NriScopeError,
    RpcError,
    UsageError,
)
from nri_scope.nri.events import Event
from nri_scope.wire import Code

from . import plugin_setup
from .answer import Answer, Rejection
from .operations import Chain, Operation, Outcome, event_of
from .plugin import Plugin
from .plugin_process import Process
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


class PluginConnections:
    """Admits plugins, one at a time, sends them requests and ends them: the base of `Runtime`."""

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

        Parts of Synchronize have at most ``sync_part_max`` bytes, unless a single object is larger;
        raises `UsageError` if the runtime does not split Synchronize.

        At the end of the context, and before a graceful restart, launched plugins have ``grace_s``
        to end after their connections were closed, see `Process.stop`. With 0, and at any other
        time, they are killed before that, as real runtimes do.
        """
        self._setup = ProfileSetUp(setup) if isinstance(setup, Profile) else setup
        self.profile = self._setup.profile
        """Behaviour of this runtime."""
        self._chain = Chain(by_name=self.profile.dispatch_rules.orders_by_name)
        self._on_update = on_update
        self._on_new = on_new
        self._on_ready = on_ready
        self._on_end = on_end
        if sync_part_max is not None and not self.profile.split_sync:
            raise UsageError(
                f"{self.profile.title} never sends Synchronize in parts",
                "use the profile of a runtime with NRI 0.7 or later",
            )
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

    # -- requests to plugins ------------------------------------------------------------------

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plugins that get events, in the order in which they are asked."""
        return self._chain.plugins

    async def operate(self, event: Event, request: Message, *, timeout_ns: int = 0) -> Outcome:
        """Perform ``event`` as this runtime does, with all consequences of the answers.

        ``request`` is the event's own request message, with the container as it is before any
        plugin adjusts it. Replies are merged, and validators are asked if there are any.
        ``timeout_ns`` is each plugin's deadline (0: the profile's).
        """
        timeout_ns = timeout_ns or self._request_timeout_ns
        return await Operation(self._chain, self.profile, event, request, timeout_ns).perform()

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

    # -- admission and end --------------------------------------------------------------------

    def _new_plugin(self, identity: tuple[str, str] | None = None) -> Plugin:
        plugin = Plugin(self._queue_update, identity)
        self._on_new(plugin)
        return plugin

    async def _admitted(self, plugin: Plugin) -> Plugin:
        await self.wait_for(lambda: plugin.settled)
        if not plugin.admitted:
            raise ConnectionClosed(plugin.end_reason)
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
            reason = str(error)
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
                # It may exit because of that, or be why the connection ended.
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

    async def drop(self, plugin: str, reason: str = "closed by the runtime") -> None:
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

    def _queue_update(
        self, plugin: Plugin, stream_id: int, request: UpdateContainersRequest
    ) -> None:
        self._keep(self._tasks, self._update(plugin, stream_id, request))

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
