# SPDX-License-Identifier: Apache-2.0
"""One connection to a runtime, from register to close."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from time import monotonic_ns
from typing import NamedTuple, Protocol

from google.protobuf.message import DecodeError

from nri_scope._gen.nri.api_pb2 import (
    ConfigureRequest,
    ConfigureResponse,
    RegisterPluginRequest,
    SynchronizeResponse,
    UpdateContainersRequest,
    UpdateContainersResponse,
)
from nri_scope.errors import ConnectionClosed, RemoteProtocolError, RpcError, UsageError
from nri_scope.nri.methods import RUNTIME_SERVICE
from nri_scope.nri.session import MessageKind, Role, Session
from nri_scope.transport import Link
from nri_scope.wire import Code, RequestReceived

from .endpoint import Connect, Identity

REGISTER_TIMEOUT = 30.0
"""Seconds to wait for the registration. A runtime registers one plugin at a time and waits 5 s for
a mute one, so with some of those before us the reply may take longer than 5 s.
"""

CONFIGURE_TIMEOUT = 10.0
"""Seconds from the reply to RegisterPlugin to Configure, which Go's runtimes send at once. iSulad
may lose the registration that it has just answered, and then leaves the connection open forever.
"""

FAILURES_TOLD = 20
"""Maximum number of different internal errors reported in one session; each event may cause one."""

NRI_VERSION = "v0.12.2"
"""The API version sent to runtimes that ask (NRI 0.12 on): our messages are complete up to it."""


_CONVERSATION = {
    "Configure": (MessageKind.CONFIGURE, MessageKind.CONFIGURE_REPLY),
    "Synchronize": (MessageKind.SYNCHRONIZE, MessageKind.SYNCHRONIZE_REPLY),
    "Shutdown": (MessageKind.SHUTDOWN,),
}
"""The requests that advance a session; all others are events."""


class Exchange(NamedTuple):
    """One request and its answer; created after the answer was written to the socket."""

    request: RequestReceived
    reply: bytes
    code: int
    message: str
    arrived_ns: int
    """Time of arrival, on the monotonic clock."""
    took_ns: int


class AnswerLater(Exception):
    """Raised by a `Plugin` that cannot answer yet: it is asked again once ``done`` is done.

    Not an error, only a request for time; other requests are accepted meanwhile.
    """

    def __init__(self, done: asyncio.Future[bytes]) -> None:
        super().__init__(done)
        self.done = done


class Plugin(Protocol):
    """The interface of a plugin to its session. All of it runs in the socket's read callback."""

    def configure(self, request: ConfigureRequest) -> int:
        """Return the event mask to subscribe to. `UsageError` refuses, and ends the session.

        `AnswerLater` requests time, here and in `answer`.
        """
        ...

    def answer(self, request: RequestReceived) -> bytes:
        """Return the reply's payload for any other request. `RpcError` is sent as a status."""
        ...

    def answered(self, exchange: Exchange) -> None:
        """Do slow work: the reply is on its way."""
        ...

    def noticed(self, text: str) -> None:
        """Report a violation of the protocol by the runtime; ``text`` describes it."""
        ...


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """The progress of a session, and the reason of its end."""

    reason: str
    configured: bool
    synchronized: bool


class PluginSession:
    """Registers over one link and serves it until it closes."""

    def __init__(self, identity: Identity, plugin: Plugin) -> None:
        self._identity = identity
        self._plugin = plugin
        self._link: Link | None = None
        self._order = Session(Role.PLUGIN)
        self._configuring = False
        self._configured = False
        self._synchronized = False
        self._refused: UsageError | None = None
        self._failures: set[str] = set()

    @property
    def open(self) -> bool:
        """Whether there is a link that `close` would close."""
        return self._link is not None and not self._link.closed

    def ended(self, reason: str) -> SessionEnd:
        """Return a summary of this session once it is over."""
        return SessionEnd(reason, self._configured, self._synchronized)

    async def run(self, connect: Connect, *, impatient: bool = False) -> SessionEnd:
        """Connect, register and serve. Returns when the connection has ended.

        ``impatient`` ends it if no Configure comes, for callers that can connect again. Raises
        `ConnectError` if there is nothing to connect to, `RpcError`, `DeadlineExceeded` or
        `ConnectionClosed` if the registration fails, `UsageError` if the plugin does not work with
        this runtime.
        """
        link = await connect(
            self._on_request, lambda notice: self._plugin.noticed(f"from the runtime: {notice}")
        )
        self._link = link
        self._order.feed(MessageKind.REGISTER)
        try:
            # The runtime may configure us before it answers; _on_request is ready for that.
            await link.call(
                RUNTIME_SERVICE,
                "RegisterPlugin",
                RegisterPluginRequest(
                    plugin_name=self._identity.name,
                    plugin_idx=self._identity.index,
                    NRI_version=NRI_VERSION,
                ).SerializeToString(),
                timeout=REGISTER_TIMEOUT,
            )
            self._order.feed(MessageKind.REGISTER_REPLY)
            if impatient:
                asyncio.get_running_loop().call_later(CONFIGURE_TIMEOUT, self._give_up, link)
            reason = await link.wait_closed()
        except (ConnectionClosed, RpcError) as error:
            if self._refused is not None:
                raise self._refused from None
            # Go answers in a separate goroutine: a runtime that goes on and ends meanwhile had
            # accepted us.
            if not (isinstance(error, ConnectionClosed) and self._synchronized):
                raise
            reason = str(error)
        finally:
            link.close()
        if self._refused is not None:
            raise self._refused
        # To a plugin, its peer is the runtime.
        return self.ended(reason.replace("the peer", "the runtime"))

    def close(self, reason: str) -> None:
        """End the session from our side, after the pending answers."""
        if self._link is not None:
            self._link.close(reason)

    async def update_containers(
        self, request: UpdateContainersRequest, timeout: float
    ) -> UpdateContainersResponse:
        """Request changes outside of an event; ``timeout`` in seconds.

        Raises `ConnectionClosed`, `LocalProtocolError` before the plugin is configured, and
        `RpcError` or `DeadlineExceeded` from the runtime. The runtime handles nothing else between
        a request and the plugin's answer: if awaited there, both wait until the deadline.
        """
        if self._link is None or self._link.closed:
            raise ConnectionClosed("there is no connection to a runtime")
        self._order.feed(MessageKind.UPDATE_CONTAINERS)
        payload = request.SerializeToString()
        reply = await self._link.call(RUNTIME_SERVICE, "UpdateContainers", payload, timeout=timeout)
        try:
            return UpdateContainersResponse.FromString(reply)
        except DecodeError as error:
            raise RemoteProtocolError(f"UpdateContainers: undecodable reply: {error}") from error

    def _give_up(self, link: Link) -> None:
        if not self._configuring:
            link.close(f"the runtime did not configure us within {CONFIGURE_TIMEOUT:g} s")

    def _on_request(self, link: Link, request: RequestReceived, arrived_ns: int) -> None:
        code, message, reply = 0, "", b""
        try:
            if request.method == "Configure":
                reply = self._configure(request)
            else:
                reply = self._plugin.answer(request)
        except AnswerLater as later:
            self._ask_again(later, link, request, arrived_ns)
            return
        except RpcError as error:
            code, message = error.code, error.message
        except Exception as error:  # noqa: BLE001 - without an answer the runtime would drop us
            code, message = Code.INTERNAL, f"{type(error).__name__}: {error}"
        if code:
            link.respond_error(request.stream_id, code, message)
        else:
            link.respond(request.stream_id, reply)
        took_ns = monotonic_ns() - arrived_ns
        try:
            self._plugin.answered(Exchange(request, reply, code, message, arrived_ns, took_ns))
            if request.method in _CONVERSATION or not self._synchronized:
                self._follow(request.method, reply, code)
        except Exception as error:  # noqa: BLE001 - the answer is given; the session must go on
            self._tell_failure(request.method, error)

    def _ask_again(
        self, later: AnswerLater, link: Link, request: RequestReceived, arrived_ns: int
    ) -> None:
        # Not in _on_request: a closure would make each access to these variables slower there.
        later.done.add_done_callback(
            lambda _: None if link.closed else self._on_request(link, request, arrived_ns)
        )

    def _tell_failure(self, method: str, error: Exception) -> None:
        text = f"internal error after {method}: {type(error).__name__}: {error}"
        if text in self._failures or len(self._failures) >= FAILURES_TOLD:
            return
        self._failures.add(text)
        with contextlib.suppress(Exception):
            self._plugin.noticed(text)

    def _follow(self, method: str, reply: bytes, code: int) -> None:
        """Track the order of the conversation, after the answer.

        A passive plugin has no reason to end a session because of a runtime's behaviour: messages
        out of order are reported, not refused.
        """
        kinds = _CONVERSATION.get(method, (MessageKind.EVENT,))
        if method == "Synchronize" and SynchronizeResponse.FromString(reply).more:
            kinds = (MessageKind.SYNCHRONIZE_PART, MessageKind.SYNCHRONIZE_PART_REPLY)
        try:
            for kind in kinds[:1] if code else kinds:
                self._order.feed(kind)
        except RemoteProtocolError as error:
            self._plugin.noticed(str(error))
        self._synchronized = self._synchronized or self._order.ready

    def _configure(self, request: RequestReceived) -> bytes:
        self._configuring = True
        try:
            message = ConfigureRequest.FromString(request.payload)
        except DecodeError as error:
            raise RpcError(Code.INVALID_ARGUMENT, f"Configure cannot be decoded: {error}") from None
        try:
            mask = self._plugin.configure(message)
        except UsageError as error:
            self._refused = error
            raise RpcError(Code.INVALID_ARGUMENT, str(error)) from None
        self._configured = True
        return ConfigureResponse(events=mask).SerializeToString()
