# SPDX-License-Identifier: Apache-2.0
"""A plugin as the runtime sees it: one connection, what it may ask and how it is asked."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns

from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri.api_pb2 import RegisterPluginRequest, UpdateContainersRequest
from nri_scope.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    NriScopeError,
    ProtocolError,
    RemoteProtocolError,
    RpcError,
)
from nri_scope.nri.events import Event
from nri_scope.nri.identity import plugin_id
from nri_scope.nri.methods import (
    METHODS,
    PLUGIN_CONN,
    PLUGIN_SERVICE,
    RUNTIME_CONN,
    RUNTIME_SERVICE,
    STATE_CHANGE_EVENTS,
)
from nri_scope.nri.session import MessageKind, Role, Session
from nri_scope.nri.session import State as SessionState
from nri_scope.transport import Link, Notice
from nri_scope.wire import Code, Connection, RequestReceived

from .answer import Answer
from .process import Process
from .rejection import Stage
from .state_change import state_change_of

NOTICES_KEPT = 100
"""A peer can cause any number of them."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what came back, as on the wire; those of the set-up included."""

    method: str
    service: str
    request: bytes
    reply: bytes
    """Empty where there is an error."""
    error: NriScopeError | None
    started_ns: int
    """Monotonic clock."""
    took_ns: int
    timeout_ns: int
    """The deadline that was sent along."""


def _no_time(method: str, payload: bytes) -> int:
    return 0


def _unobserved(plugin: Plugin, exchange: Exchange) -> None:
    pass


class Plugin:
    """One connection. Index and name are known once it has registered."""

    def __init__(
        self,
        on_update: Callable[[Plugin, int, UpdateContainersRequest], None],
        identity: tuple[str, str] | None = None,
    ) -> None:
        self.session = Session(Role.RUNTIME)
        self.identity = identity
        """Index and name of a plugin that the runtime launched itself: it keeps them, whatever it
        registers as."""
        self.index, self.name = identity or ("??", "plugin")
        self.nri_version = ""
        """As it said when registering; "" up to 0.11."""
        self.mask = 0
        self.registered = ""
        """``NN-name`` as it registered, right or wrong; "" as long as it did not."""
        self.stage = Stage.REGISTRATION
        """How far it has come on its way in."""
        self.admitted = False
        """It gets events, as long as it is connected."""
        self.refused = False
        """It will never get events, though it is connected: as real runtimes do, we leave it to the
        plugin to close the connection."""
        self.told = ""
        """The error that it got for its registration."""
        self.end_reason = ""
        self.process: Process | None = None
        """Of a plugin that the runtime launched; how it ended and what it printed stay known."""
        self.state_change_only = False
        """It answered the RPC of an event with Unimplemented: all nine come as StateChange now."""
        self.notices: deque[Notice] = deque(maxlen=NOTICES_KEPT)
        """What it did beside the rules without ending the connection; the latest ones."""
        self.registration: asyncio.Future[tuple[int, RegisterPluginRequest]] = (
            asyncio.get_running_loop().create_future()
        )
        """Stream id and request of RegisterPlugin, unanswered yet: its turn may be later."""
        # There may be no waiter for it when the connection ends.
        self.registration.add_done_callback(
            lambda future: None if future.cancelled() else future.exception() and None
        )
        self.transit_ns: Callable[[str, bytes], int] = _no_time
        """How long the reply to a request (its method and payload) spends on its way to us, on top
        of what it really takes."""
        self.on_exchange: Callable[[Plugin, Exchange], None] = _unobserved
        """Hears of every request once it was answered, or was not."""
        self._on_update = on_update
        self.link: Link = _PluginLink(self)

    @property
    def id(self) -> str:
        """``NN-name``."""
        return plugin_id(self.index, self.name)

    @property
    def settled(self) -> bool:
        """Ready for events, or sure never to be."""
        return self.admitted or self.refused or self.session.state is SessionState.CLOSED

    def subscribes(self, event: Event | None) -> bool:
        """Return whether it subscribed to ``event``. Requests without a known event go to every
        plugin.
        """
        return event is None or bool(self.mask & event.bit)

    def leave(self, reason: str) -> None:
        """Send nothing any more, and leave the connection open."""
        self.refused = True
        self.end_reason = self.end_reason or reason

    def drop(self, reason: str) -> None:
        """Close the connection at once, or as soon as it is made."""
        self.end_reason = self.end_reason or reason
        if self.process is not None and not self.link.closed:
            # First, so that it is the same every time: it would react to the connection's end, or
            # not come to that.
            self.process.end()
        self.link.abort(reason)

    def end(self, reason: str) -> None:
        """Note that the connection has ended."""
        self.session.close()
        self.end_reason = self.end_reason or reason
        if not self.registration.done():
            self.registration.set_exception(ConnectionClosed(self.end_reason))

    # -- what the runtime asks ----------------------------------------------------------------

    async def deliver(
        self,
        method: str,
        payload: bytes,
        *,
        event: Event | None,
        timeout_ns: int,
        service: str = PLUGIN_SERVICE,
    ) -> Answer:
        """Send one request and wait for its answer; never raises for what the plugin does.

        An event's own RPC becomes a StateChange for a plugin that does not implement it; one
        deadline covers both attempts. A plugin that answers late, or not at all, is dropped.
        """
        started_ns = monotonic_ns()
        reply: Message | None = None
        data = b""
        problem: NriScopeError | None = None
        try:
            if event is not None and event in STATE_CHANGE_EVENTS and method == event.name:
                if not self.state_change_only:
                    try:
                        data = await self.call(method, payload, timeout_ns, service)
                    except RpcError as error:
                        if error.code != Code.UNIMPLEMENTED:
                            raise
                        self.state_change_only = True
                if self.state_change_only:
                    method, payload = "StateChange", state_change_of(event, payload)
                    spent_ns = monotonic_ns() - started_ns
                    data = await self.call(method, payload, timeout_ns - spent_ns, service)
            else:
                data = await self.call(method, payload, timeout_ns, service)
            reply = _decode_reply(method, data)
        except (ConnectionClosed, DeadlineExceeded, ProtocolError, RpcError) as error:
            problem = error
        took_ns = monotonic_ns() - started_ns
        answer = Answer(
            self.id, method, reply, data, problem, took_ns, payload, timeout_ns, service
        )
        if answer.dropped:
            self.drop(str(problem))
        return answer

    async def call(
        self, method: str, payload: bytes, timeout_ns: int, service: str = PLUGIN_SERVICE
    ) -> bytes:
        """Send ``timeout_ns`` along as the deadline and wait that long for the reply's payload."""
        if timeout_ns <= 0:
            # Nothing is left of a deadline that several calls share.
            raise DeadlineExceeded(method, 0)
        started_ns = monotonic_ns()
        data, problem = b"", None
        try:
            data = await self.link.call(service, method, payload, timeout=timeout_ns / 1e9)
            delay_ns = self.transit_ns(method, payload)
            if delay_ns:
                left_ns = timeout_ns - (monotonic_ns() - started_ns)
                await asyncio.sleep(min(delay_ns, max(left_ns, 0)) / 1e9)
                if delay_ns >= left_ns:
                    raise DeadlineExceeded(method, timeout_ns / 1e9)
        except NriScopeError as error:
            data, problem = b"", error
            raise
        finally:
            took_ns = monotonic_ns() - started_ns
            self.on_exchange(
                self,
                Exchange(method, service, payload, data, problem, started_ns, took_ns, timeout_ns),
            )
        return data

    # -- what the plugin asks -----------------------------------------------------------------

    def serve(self, link: Link, request: RequestReceived, arrived_ns: int) -> None:
        """Answer one request of the plugin, now or in its turn."""
        try:
            if request.service != RUNTIME_SERVICE:
                raise RpcError(Code.UNIMPLEMENTED, f"no service {request.service!r} here")
            elif request.method == "RegisterPlugin":
                registration = RegisterPluginRequest.FromString(request.payload)
                self.session.feed(MessageKind.REGISTER)
                self.registration.set_result((request.stream_id, registration))
            elif request.method == "UpdateContainers":
                update = UpdateContainersRequest.FromString(request.payload)
                self.session.feed(MessageKind.UPDATE_CONTAINERS)
                self._on_update(self, request.stream_id, update)
            else:
                raise RpcError(Code.UNIMPLEMENTED, f"no method {request.method!r} here")
        except RpcError as error:
            link.respond_error(request.stream_id, error.code, error.message)
        except RemoteProtocolError as error:
            link.respond_error(request.stream_id, Code.FAILED_PRECONDITION, error.problem)
        except DecodeError as error:
            # The code that Go servers answer with.
            link.respond_error(request.stream_id, Code.INTERNAL, f"undecodable request: {error}")


class _PluginLink(Link):
    """A link that can be dropped while the event loop still is about to make it."""

    def __init__(self, plugin: Plugin) -> None:
        connection = Connection(serves=RUNTIME_CONN, calls=PLUGIN_CONN)
        super().__init__(connection, plugin.serve, plugin.notices.append)
        self._plugin = plugin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._plugin.end_reason:
            self.abort(self._plugin.end_reason)


def _decode_reply(method: str, payload: bytes) -> Message | None:
    known = METHODS.get(method)
    if known is None:
        return None
    try:
        return known.reply.FromString(payload)
    except DecodeError as error:
        raise RemoteProtocolError(f"{method}: the reply cannot be decoded: {error}") from error
