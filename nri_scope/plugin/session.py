# SPDX-License-Identifier: Apache-2.0
"""One connection to a runtime, from its socket and register to close."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns
from typing import NamedTuple, Protocol

from google.protobuf.message import DecodeError

from nri_scope._gen.nri.api_pb2 import (
    ConfigureRequest,
    RegisterPluginRequest,
    SynchronizeResponse,
    UpdateContainersRequest,
    UpdateContainersResponse,
)
from nri_scope.end_reasons import NEW_SOCKET, RUNTIME
from nri_scope.errors import (
    ConnectError,
    ConnectionClosed,
    RemoteProtocolError,
    RpcError,
    UsageError,
)
from nri_scope.nri.events import (
    CONFIGURE,
    PLUGIN_CONN,
    REGISTER,
    RUNTIME_CONN,
    RUNTIME_SERVICE,
    SHUTDOWN,
    SYNCHRONIZE,
    UNSOLICITED,
)
from nri_scope.nri.runtime_setup import (
    NO_POLICY,
    FailurePolicy,
    check_failure_policy,
    configure_reply,
    nri_version_of,
)
from nri_scope.nri.session import ConnectionEnd, ConnectionState, MessageKind
from nri_scope.nri.versions import NriVersion
from nri_scope.transport import Link, Notice, RequestHandler, adopt_descriptor, connect_unix
from nri_scope.transport.sockets import SocketFile, made_anew, socket_file
from nri_scope.wire import Code, Connection, RequestReceived

Connect = Callable[[RequestHandler, Callable[[Notice], None]], Awaitable[Link]]
"""Opens a link to the runtime, with callbacks for its requests and for notices."""


@dataclass(frozen=True, slots=True)
class UnixSocket:
    """`Connect` for the runtime's socket at ``path``, which can be repeated."""

    path: str | Path

    async def __call__(
        self, on_request: RequestHandler, on_notice: Callable[[Notice], None]
    ) -> Link:
        """Connect to the socket."""
        return await connect_unix(self.path, lambda: _link(on_request, on_notice))


def unix_socket(path: str | Path) -> Connect:
    """Return a `Connect` for the runtime's socket at ``path``."""
    return UnixSocket(path)


def inherited(descriptor: int) -> Connect:
    """Return a `Connect` for the connected socket inherited from the runtime; it works once."""
    return lambda on_request, on_notice: adopt_descriptor(
        descriptor, lambda: _link(on_request, on_notice)
    )


def _link(on_request: RequestHandler, on_notice: Callable[[Notice], None]) -> Link:
    return Link(Connection(serves=PLUGIN_CONN, calls=RUNTIME_CONN), on_request, on_notice, RUNTIME)


def with_hint(error: ConnectError) -> ConnectError:
    """Return the error about a runtime's socket with a hint to use ``doctor`` or ``--wait``."""
    hint = "run `nri-scope doctor` to see why, or use --wait to wait for it"
    return ConnectError(error.path, error.problem, error.hint or hint)


@dataclass(frozen=True, slots=True)
class Identity:
    """Index and name that a plugin registers."""

    index: str
    """Two digits: the place in the chain."""
    name: str


@dataclass(frozen=True, slots=True)
class Launched:
    """Data that a runtime passes to a plugin that it launches."""

    descriptor: int
    identity: Identity


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """Read NRI_PLUGIN_SOCKET, _NAME and _IDX; return None if no runtime launched this process.

    Raises `UsageError` for a descriptor that is not a number.
    """
    text = environment.get("NRI_PLUGIN_SOCKET", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(
            f"NRI_PLUGIN_SOCKET={text!r} is not a descriptor number",
            "unset it to connect to a socket",
        )
    # The runtime uses the file name of a launched plugin and ignores what it registers.
    name = environment.get("NRI_PLUGIN_NAME") or "nri-scope"
    index = environment.get("NRI_PLUGIN_IDX") or "00"
    # iSulad sets it to NN-name.
    return Launched(int(text), Identity(name=name.removeprefix(f"{index}-") or name, index=index))


REGISTER_TIMEOUT = 30.0
"""Seconds to wait for the reply to RegisterPlugin. A runtime registers one plugin at a time and
waits up to 5 s for each, so several silent plugins may delay the reply.
"""

CONFIGURE_TIMEOUT = 10.0
"""Seconds from the reply to RegisterPlugin to Configure, which runtimes in Go send immediately.
iSulad may lose a registration after its reply, and then leaves the connection open forever.
"""

FAILURES_REPORTED = 20
"""Maximum number of different internal errors reported per session."""

NRI_VERSION = "v0.12.5"
"""NRI version sent in RegisterPlugin: that of our messages. Runtimes before 0.12 ignore it."""


_SETUP_KINDS = {
    CONFIGURE: (MessageKind.CONFIGURE, MessageKind.CONFIGURE_REPLY),
    SYNCHRONIZE: (MessageKind.SYNCHRONIZE, MessageKind.SYNCHRONIZE_REPLY),
    SHUTDOWN: (MessageKind.SHUTDOWN,),
}
"""Requests that change the session's state, with their kinds; all others are events."""


class HandledCall(NamedTuple):
    """One request and its reply; created after the reply was written to the socket."""

    request: RequestReceived
    reply: bytes
    code: int
    message: str
    arrived_ns: int
    """Time of arrival, on the monotonic clock."""
    took_ns: int


class AnswerLater(Exception):
    """Raised by `PluginCallbacks` that cannot reply yet: they are called again after ``done``.

    This is not an error. Other requests are handled in the meantime.
    """

    def __init__(self, done: asyncio.Future[bytes]) -> None:
        super().__init__(done)
        self.done = done


class PluginCallbacks(Protocol):
    """Callbacks of a session, which run in the socket's read callback."""

    def configure(self, request: ConfigureRequest) -> int:
        """Return the event mask to subscribe to.

        `UsageError` rejects the runtime and ends the session. `AnswerLater` defers the reply.
        """
        ...

    def answer(self, request: RequestReceived) -> bytes:
        """Return the reply's payload for any other request.

        `RpcError` is sent as the status. `AnswerLater` defers the reply.
        """
        ...

    def answered(self, exchange: HandledCall) -> None:
        """Process an exchange whose reply has been sent; this may be slow."""
        ...

    def noticed(self, text: str) -> None:
        """Process a notice: a protocol violation of the runtime, or an internal error."""
        ...


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """Summary of an ended session."""

    reason: str
    configured: bool
    synchronized: bool
    warning: str = ""
    """Consequence of the end for the runtime; "" for none."""
    observed_ns: int = 0
    """Time until which events came, on the monotonic clock; 0 for the end."""


class PluginSession:
    """One connection of a plugin: registers, and serves requests until it closes."""

    def __init__(
        self,
        identity: Identity,
        plugin: PluginCallbacks,
        failure_policy: FailurePolicy = NO_POLICY,
        *,
        requires_policy: bool = True,
    ) -> None:
        """Prepare a session. ``requires_policy`` rejects a runtime that does not know
        ``failure_policy``; otherwise that is only a notice.
        """
        self.identity = identity
        self._failure_policy = failure_policy
        self._requires_policy = requires_policy
        self._plugin = plugin
        self._link: Link | None = None
        self._order = ConnectionState(ConnectionEnd.PLUGIN)
        self._configuring = False
        self._configured = False
        self.synchronized = False
        """Whether the runtime has synchronized this plugin, and may send it events."""
        self.mask = 0
        """The event mask in the reply to Configure."""
        self.nri_version: NriVersion | None = None
        """The runtime's NRI version; None if neither sent nor inferable."""
        self._refused: UsageError | None = None
        self._failures: set[str] = set()
        self.registration = b""
        """The registration, once it was sent."""
        self.registered_ns = 0
        """Time at which it was sent, on the monotonic clock."""
        self._observed_ns = 0
        """See `SessionEnd`."""

    @property
    def open(self) -> bool:
        """Whether the link is open."""
        return self._link is not None and not self._link.closed

    def ended(self, reason: str) -> SessionEnd:
        """Return the summary of this session, which ended for ``reason``."""
        return SessionEnd(
            reason, self._configured, self.synchronized, observed_ns=self._observed_ns
        )

    async def run(self, connect: Connect, *, require_configure: bool = False) -> SessionEnd:
        """Connect, register and serve. Returns when the connection has ended.

        It ends, too, if the file of a `UnixSocket` is made anew: the runtime then listens there.
        ``require_configure`` closes it if no Configure arrives within `CONFIGURE_TIMEOUT`, for
        callers that can reconnect. Raises `ConnectError` if connecting fails; `RpcError`,
        `DeadlineExceeded` or `ConnectionClosed` if the registration fails; `UsageError` if the
        plugin rejects the runtime.
        """
        file = socket_file(connect.path) if isinstance(connect, UnixSocket) else None
        link = await connect(
            self._on_request, lambda notice: self._plugin.noticed(f"from the runtime: {notice}")
        )
        self._link = link
        self._order.feed(MessageKind.REGISTER)
        self.registration = RegisterPluginRequest(
            plugin_name=self.identity.name,
            plugin_idx=self.identity.index,
            NRI_version=NRI_VERSION,
        ).SerializeToString()
        self.registered_ns = monotonic_ns()
        watch: asyncio.Task[None] | None = None
        if isinstance(connect, UnixSocket):
            watch = asyncio.create_task(self._watch(connect.path, file, link))
        try:
            # The runtime may send Configure before this reply; _on_request handles that.
            await link.call(RUNTIME_SERVICE, REGISTER, self.registration, timeout=REGISTER_TIMEOUT)
            self._order.feed(MessageKind.REGISTER_REPLY)
            if require_configure:
                asyncio.get_running_loop().call_later(CONFIGURE_TIMEOUT, self._give_up, link)
            reason = await link.wait_closed()
        except (ConnectionClosed, RpcError) as error:
            if self._refused is not None:
                raise self._refused from None
            # The reply is sent by a separate goroutine, and may be lost if the runtime ends: it
            # accepted the registration if it sent Synchronize.
            if not (isinstance(error, ConnectionClosed) and self.synchronized):
                raise
            reason = str(error)
        finally:
            link.close()
            if watch is not None:
                watch.cancel()
        if self._refused is not None:
            raise self._refused
        return self.ended(reason)

    def close(self, reason: str) -> None:
        """Close the connection after pending replies."""
        if self._link is not None:
            self._link.close(reason)

    async def finish(self, reason: str) -> None:
        """Close our end after pending replies, and wait until the runtime has closed its end."""
        if self._link is not None:
            self._link.finish(reason)
            await self._link.wait_closed()

    async def update_containers(
        self, request: UpdateContainersRequest, timeout: float
    ) -> UpdateContainersResponse:
        """Request changes outside of an event; ``timeout`` in seconds.

        Raises `ConnectionClosed`, `LocalProtocolError` before the plugin is configured, and
        `RpcError` or `DeadlineExceeded` from the runtime. Do not await it before replying to a
        request: the runtime handles no update until then, so both would wait until the deadline.
        """
        if self._link is None or self._link.closed:
            raise ConnectionClosed("not connected to a runtime")
        self._order.feed(MessageKind.UPDATE_CONTAINERS)
        payload = request.SerializeToString()
        reply = await self._link.call(RUNTIME_SERVICE, UNSOLICITED, payload, timeout=timeout)
        try:
            return UpdateContainersResponse.FromString(reply)
        except DecodeError as error:
            raise RemoteProtocolError(f"UpdateContainers: undecodable reply: {error}") from error

    async def _watch(self, path: str | Path, file: SocketFile | None, link: Link) -> None:
        """Close the link when the runtime's socket, of which this was the file, is made anew."""
        self._observed_ns = await made_anew(path, file)
        link.close(NEW_SOCKET)

    def _give_up(self, link: Link) -> None:
        if not self._configuring:
            link.close(
                "registered, but never configured: the runtime sent no Configure within "
                f"{CONFIGURE_TIMEOUT:g} s"
            )

    def _on_request(self, link: Link, request: RequestReceived, arrived_ns: int) -> None:
        code, message, reply = 0, "", b""
        try:
            if request.method == CONFIGURE:
                reply = self._configure(request)
            else:
                reply = self._plugin.answer(request)
        except AnswerLater as later:
            self._answer_when_done(later, link, request, arrived_ns)
            return
        except RpcError as error:
            code, message = error.code, error.message
        except Exception as error:  # noqa: BLE001 - without a reply the runtime would disconnect
            code, message = Code.INTERNAL, f"{type(error).__name__}: {error}"
        if code:
            link.respond_error(request.stream_id, code, message)
        else:
            link.respond(request.stream_id, reply)
        took_ns = monotonic_ns() - arrived_ns
        try:
            self._plugin.answered(HandledCall(request, reply, code, message, arrived_ns, took_ns))
            if request.method in _SETUP_KINDS or not self.synchronized:
                self._follow(request.method, reply, code)
        except Exception as error:  # noqa: BLE001 - the reply is sent; the session continues
            self._report_failure(request.method, error)

    def _answer_when_done(
        self, later: AnswerLater, link: Link, request: RequestReceived, arrived_ns: int
    ) -> None:
        # Not in _on_request: a closure would make access to these variables slower there.
        later.done.add_done_callback(
            lambda _: None if link.closed else self._on_request(link, request, arrived_ns)
        )

    def _report_failure(self, method: str, error: Exception) -> None:
        text = f"internal error after {method}: {type(error).__name__}: {error}"
        if text in self._failures or len(self._failures) >= FAILURES_REPORTED:
            return
        self._failures.add(text)
        with contextlib.suppress(Exception):
            self._plugin.noticed(text)

    def _follow(self, method: str, reply: bytes, code: int) -> None:
        """Track the session's state after a reply.

        Messages out of order are reported as notices, and do not end the session.
        """
        kinds = _SETUP_KINDS.get(method, (MessageKind.EVENT,))
        if method == SYNCHRONIZE and SynchronizeResponse.FromString(reply).more:
            kinds = (MessageKind.SYNCHRONIZE_PART, MessageKind.SYNCHRONIZE_PART_REPLY)
        try:
            for kind in kinds[:1] if code else kinds:
                self._order.feed(kind)
        except RemoteProtocolError as error:
            self._plugin.noticed(str(error))
        self.synchronized = self.synchronized or self._order.ready

    def _configure(self, request: RequestReceived) -> bytes:
        self._configuring = True
        try:
            message = ConfigureRequest.FromString(request.payload)
        except DecodeError as error:
            raise RpcError(Code.INVALID_ARGUMENT, f"Configure cannot be decoded: {error}") from None
        try:
            policy = self._known_policy(message)
            self.mask = self._plugin.configure(message)
        except UsageError as error:
            self._refused = error
            raise RpcError(Code.INVALID_ARGUMENT, str(error)) from None
        self._configured = True
        self.nri_version, _ = nri_version_of(message)
        return configure_reply(self.mask, policy)

    def _known_policy(self, message: ConfigureRequest) -> FailurePolicy:
        """Return the failure policy if the runtime knows it, or else the default."""
        try:
            check_failure_policy(self._failure_policy, message)
        except UsageError as error:
            if self._requires_policy:
                raise
            # `PluginCallbacks.configure` may defer the reply; it is then called again.
            text = str(error)
            if text not in self._failures:
                self._failures.add(text)
                self._plugin.noticed(text)
            return NO_POLICY
        return self._failure_policy
