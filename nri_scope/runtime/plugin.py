# SPDX-License-Identifier: Apache-2.0
"""The runtime's end of one plugin connection, with the requests in both directions."""

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
from nri_scope.nri.events import (
    METHODS,
    PLUGIN_CONN,
    PLUGIN_SERVICE,
    REGISTER,
    RUNTIME_CONN,
    RUNTIME_SERVICE,
    STATE_CHANGE_EVENTS,
    UNSOLICITED,
    EventKind,
)
from nri_scope.nri.identity import plugin_id
from nri_scope.nri.runtime_setup import NO_POLICY
from nri_scope.nri.session import ConnectionEnd, ConnectionState, MessageKind
from nri_scope.nri.session import SetupState as SessionState
from nri_scope.transport import Link, Notice
from nri_scope.wire import Code, Connection, RequestReceived

from .answer import Answer, SetupStage
from .lifecycle import state_change_of
from .plugin_process import Process

NO_DEADLINE_MS = 10**12
"""A timeout of 31 years, which stands for none: requests have no deadline then. Plugins find it in
Configure, where 0 would mean that they have no time at all."""

NOTICES_KEPT = 100
"""Maximum number of notices stored per plugin, as a peer can cause any number of them."""


@dataclass(frozen=True, slots=True)
class PluginExchange:
    """One request to the plugin and its reply, as bytes; also of the set-up."""

    method: str
    service: str
    request: bytes
    reply: bytes
    """The reply's payload; empty after an error."""
    error: NriScopeError | None
    started_ns: int
    """Start of the request, on the monotonic clock."""
    took_ns: int
    timeout_ns: int
    """The deadline that was sent with the request; 0 if there was none."""


def _is_endless(timeout_ns: int) -> bool:
    """Return whether a timeout stands for none, even if a part of it was spent."""
    return timeout_ns > NO_DEADLINE_MS * 500_000


class Plugin:
    """One plugin connection. Index and name are placeholders until it registers."""

    def __init__(
        self,
        on_update: Callable[[Plugin, int, UpdateContainersRequest], None],
        identity: tuple[str, str] | None = None,
    ) -> None:
        self.session = ConnectionState(ConnectionEnd.RUNTIME)
        self.identity = identity
        """Index and name of a launched plugin, which its registration cannot change; else None."""
        self.index, self.name = identity or ("??", "plugin")
        self.nri_version = ""
        """NRI version that the plugin sent when registering; "" up to 0.11."""
        self.mask = 0
        self.failure_policy = NO_POLICY
        """What this runtime does if the plugin does not answer; the default before NRI 0.12.4."""
        self.ignored_policy = NO_POLICY
        """Failure policy in its Configure reply that this runtime does not know."""
        self.registered = ""
        """``NN-name`` as registered, valid or not; "" before that."""
        self.stage = SetupStage.REGISTRATION
        """Current stage of the set-up."""
        self.admitted = False
        """Whether the plugin gets events while it is connected."""
        self.refused = False
        """Whether the plugin never gets events although it is connected. Like real runtimes, we
        do not close the connection."""
        self.error_sent = ""
        """Error text sent in reply to its registration; "" if none."""
        self.end_reason = ""
        self.failure: NriScopeError | None = None
        """Error of the set-up, as which it was not admitted."""
        self.process: Process | None = None
        """Process of a plugin that was started here, with its output and exit status."""
        self.state_change_only = False
        """Whether it answered an event's RPC with Unimplemented, and so gets StateChange for all
        nine events."""
        self.notices: deque[Notice] = deque(maxlen=NOTICES_KEPT)
        """Latest protocol violations that did not end the connection."""
        self.registration: asyncio.Future[tuple[int, RegisterPluginRequest]] = (
            asyncio.get_running_loop().create_future()
        )
        """Stream id and request of RegisterPlugin, which waits while other plugins register."""
        # Retrieve the exception, which asyncio would log if `register` never waits for it.
        self.registration.add_done_callback(
            lambda future: None if future.cancelled() else future.exception() and None
        )
        self.transit_ns: Callable[[str, bytes], int] = lambda method, payload: 0
        """Return an additional delay, in ns, of the reply to a request (its method and payload)."""
        self.on_exchange: Callable[[Plugin, PluginExchange], None] = lambda plugin, exchange: None
        """Called after every request, answered or not."""
        self.on_sent: Callable[[], None] | None = None
        """Called when a request has been sent, before its reply arrives."""
        self.substitute: tuple[EventKind, bytes] | None = None
        """An event, and the serialised reply to use without asking the plugin; None to ask it."""
        self._on_update = on_update
        self.link: Link = _PluginLink(self)

    @property
    def id(self) -> str:
        """``NN-name``."""
        return plugin_id(self.index, self.name)

    @property
    def is_launched(self) -> bool:
        """Whether it inherited its connection, with which its process ends."""
        return self.identity is not None

    @property
    def settled(self) -> bool:
        """Whether the plugin gets events, or never will."""
        return self.admitted or self.refused or self.session.state is SessionState.CLOSED

    def subscribes(self, event: EventKind | None) -> bool:
        """Return whether the plugin subscribes to ``event``; True for None, an unknown event."""
        return event is None or bool(self.mask & event.bit)

    def leave(self, reason: str) -> None:
        """Stop sending requests, but leave the connection open."""
        self.refused = True
        self.end_reason = self.end_reason or reason

    def close(self, reason: str) -> None:
        """Close the connection, and let a launched plugin end by itself."""
        if self.process is not None and self.is_launched:
            self.process.closing = True
        self.end_reason = self.end_reason or reason
        self.link.abort(reason)

    def drop(self, reason: str) -> None:
        """Kill a launched plugin, and close the connection, now or once it is established."""
        self.end_reason = self.end_reason or reason
        if self.process is not None and self.is_launched and not self.link.closed:
            # Kill it before closing the connection: otherwise the plugin may or may not react to
            # the close, and results would vary.
            self.process.end()
        self.link.abort(reason)

    def end(self, reason: str) -> None:
        """Mark the connection as ended."""
        self.session.close()
        self.end_reason = self.end_reason or reason
        if not self.registration.done():
            self.registration.set_exception(ConnectionClosed(self.end_reason))

    # -- requests of the runtime --------------------------------------------------------------

    async def deliver(
        self, method: str, payload: bytes, *, event: EventKind | None, timeout_ns: int
    ) -> Answer:
        """Send one request and wait for its answer; errors of the plugin are returned in it.

        If the plugin does not implement an event's own RPC, the event is sent again as StateChange;
        one deadline covers both attempts. A plugin that misses the deadline is dropped, unless its
        failure policy keeps it connected.
        """
        started_ns = monotonic_ns()
        reply: Message | None = None
        data = b""
        problem: NriScopeError | None = None
        try:
            if self.substitute is not None and self.substitute[0] is event:
                data = self.substitute[1]
            elif event is not None and event in STATE_CHANGE_EVENTS and method == event.name:
                if not self.state_change_only:
                    try:
                        data = await self.call(method, payload, timeout_ns)
                    except RpcError as error:
                        if error.code != Code.UNIMPLEMENTED:
                            raise
                        self.state_change_only = True
                if self.state_change_only:
                    method, payload = "StateChange", state_change_of(event, payload)
                    spent_ns = monotonic_ns() - started_ns
                    data = await self.call(method, payload, timeout_ns - spent_ns)
            else:
                data = await self.call(method, payload, timeout_ns)
            if self.process is not None:
                self.process.output.crash_output.forget_before(started_ns)
            reply = _decode_reply(method, data)
        except (ConnectionClosed, DeadlineExceeded, ProtocolError, RpcError) as error:
            problem = error
        took_ns = monotonic_ns() - started_ns
        if _is_endless(timeout_ns):
            timeout_ns = 0
        answer = Answer(
            self.id,
            method,
            reply,
            data,
            problem,
            took_ns,
            payload,
            timeout_ns,
            policy=self.failure_policy,
        )
        if answer.dropped:
            self.drop(str(problem))
        return answer

    async def call(self, method: str, payload: bytes, timeout_ns: int) -> bytes:
        """Send one request, with ``timeout_ns`` as its deadline, and return the reply's payload.

        `NO_DEADLINE_MS` is sent as no deadline. Raises the errors of `Link.call`.
        """
        if timeout_ns <= 0:
            # The deadline is shared by several calls, and passed before this one.
            raise DeadlineExceeded(method, 0)
        deadline_ns = 0 if _is_endless(timeout_ns) else timeout_ns
        started_ns = monotonic_ns()
        data, problem = b"", None
        try:
            data = await self.link.call(
                PLUGIN_SERVICE,
                method,
                payload,
                timeout=deadline_ns / 1e9 if deadline_ns else None,
                on_sent=self.on_sent,
            )
            delay_ns = self.transit_ns(method, payload)
            left_ns = timeout_ns - (monotonic_ns() - started_ns)
            if delay_ns:
                await asyncio.sleep(min(delay_ns, max(left_ns, 0)) / 1e9)
            # A reply can be read before a timer that is due in the same turn of the event loop.
            if delay_ns >= left_ns:
                raise DeadlineExceeded(method, timeout_ns / 1e9)
        except NriScopeError as error:
            data, problem = b"", error
            raise
        finally:
            took_ns = monotonic_ns() - started_ns
            self.on_exchange(
                self,
                PluginExchange(
                    method, PLUGIN_SERVICE, payload, data, problem, started_ns, took_ns, deadline_ns
                ),
            )
        return data

    # -- requests of the plugin ---------------------------------------------------------------

    def serve(self, link: Link, request: RequestReceived, arrived_ns: int) -> None:
        """Answer one request of the plugin, or queue it."""
        try:
            if request.service != RUNTIME_SERVICE:
                raise RpcError(Code.UNIMPLEMENTED, f"no service {request.service!r} here")
            elif request.method == REGISTER:
                registration = RegisterPluginRequest.FromString(request.payload)
                self.session.feed(MessageKind.REGISTER)
                self.registration.set_result((request.stream_id, registration))
            elif request.method == UNSOLICITED:
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
            # Go servers reply with this code.
            link.respond_error(request.stream_id, Code.INTERNAL, f"undecodable request: {error}")


class _PluginLink(Link):
    """A link that can be dropped before the event loop has established it."""

    def __init__(self, plugin: Plugin) -> None:
        connection = Connection(serves=RUNTIME_CONN, calls=PLUGIN_CONN)
        super().__init__(connection, plugin.serve, plugin.notices.append)
        self._plugin = plugin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._plugin.end_reason:
            self.abort(self._plugin.end_reason)


def _decode_reply(method: str, payload: bytes) -> Message | None:
    rpc = METHODS.get(method)
    if rpc is None:
        return None
    try:
        return rpc.reply.FromString(payload)
    except DecodeError as error:
        raise RemoteProtocolError(f"{method}: the reply cannot be decoded: {error}") from error
