# SPDX-License-Identifier: Apache-2.0
"""Dispatch of a session's requests to a plugin's handlers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable

from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import NriScopeError, RpcError, UsageError
from nri_scope.nri import recording_clock
from nri_scope.nri.events import METHODS, PLUGIN_SERVICE, STATE_CHANGE_EVENTS, Event
from nri_scope.nri.no_change import no_change
from nri_scope.nri.runtime_setup import ConfigureRequest, introduction_of, negotiate
from nri_scope.nri.versions import runtime_words
from nri_scope.wire import Code, RequestReceived

from .deregistration import ValidatorSession
from .handle import CURRENT, Request, RuntimeHandle, log, log_failure, words_of
from .handlers import EVENT_HANDLERS, REPLIES, Handlers, ReplyOf, empty_reply, synchronize_reply
from .session import AnswerLater, Connect, Exchange, Identity, SessionEnd

QUIET = Event.RemovePodSandbox
"""Event subscribed to without event handlers, as an empty mask would subscribe to all events."""


async def serve(plugin: object, identity: Identity, connect: Connect) -> SessionEnd:
    """Run one session of ``plugin``, an object with handlers as in `BasePlugin`.

    A failure policy that the runtime does not know is not sent, which is logged. Returns when the
    connection has ended, after the handler `closed`. Raises the errors of `PluginSession.run`, and
    `UsageError` for an object that is not a plugin. To connect it to an emulated runtime in the
    same process, pass one end of a socket pair to the runtime and
    ``connect=inherited(other.detach())`` here.
    """
    session = HandlerSession(Handlers.of(plugin), identity)
    return await session.run(connect)


class HandlerSession:
    """`Plugin` of one session that calls handlers."""

    def __init__(
        self,
        handlers: Handlers,
        identity: Identity,
        config: str = "",
        *,
        requires_policy: bool = False,
    ) -> None:
        """Prepare a session. ``config``: passed to `configure` if the runtime sends none."""
        self._handlers = handlers
        self._config = config
        self._session = ValidatorSession(
            identity, self, handlers.failure_policy, requires_policy=requires_policy
        )
        self._runtime: RuntimeHandle | None = None
        self._parts = api.SynchronizeRequest()
        self._configuring: asyncio.Future[bytes] | None = None
        self._mask = 0
        self._working: dict[int, asyncio.Future[bytes]] = {}

    async def run(self, connect: Connect, *, require_configure: bool = False) -> SessionEnd:
        """Run the plugin; see `serve`, and `PluginSession.run`."""
        reason = ""
        try:
            end = await self._session.run(connect, require_configure=require_configure)
            reason = end.reason
            if warning := await self._session.left():
                log.warning("%s", warning)
            return end
        except (NriScopeError, asyncio.CancelledError) as error:
            reason = str(error)
            raise
        finally:
            await self._end(reason or "ended")

    def close(self, reason: str) -> bool:
        """End the session after pending replies; return False if no session is open."""
        if not self._session.open:
            return False
        self._session.close(reason)
        return True

    async def _end(self, reason: str) -> None:
        if self._runtime is None:
            # The session ended before `configure`.
            return
        self._runtime.end()
        unanswered = list(self._working.values())
        if self._configuring is not None:
            unanswered.append(self._configuring)
        for task in unanswered:
            task.cancel()
        # Retrieve the exceptions of tasks, which asyncio would log.
        await asyncio.gather(*unanswered, return_exceptions=True)
        handler = self._handlers.by_name.get("closed")
        if handler is None:
            return
        try:
            value = handler(reason)
            if inspect.isawaitable(value):
                await value
        except Exception as error:  # noqa: BLE001 - any error of the plugin's code
            log_failure("closed", error)

    # -- callbacks of the session -------------------------------------------------------------

    def configure(self, request: ConfigureRequest) -> int:
        """Subscribe to the events that have handlers, if this runtime supports them."""
        task, self._configuring = self._configuring, None
        if task is not None:
            _result(task)
            return self._mask
        events = self._handlers.events
        validate = Event.ValidateContainerAdjustment in events
        negotiated = negotiate(request, events or {QUIET}, validate=validate)
        runtime = introduction_of(request)
        log.info(
            "connected to %s, NRI %s",
            runtime_words(runtime.runtime_name, runtime.runtime_version),
            runtime.version or "unknown",
        )
        for warning in negotiated.warnings:
            log.warning("%s", warning)
        self._mask = negotiated.mask
        if self._runtime is not None:
            self._runtime.end()
        self._runtime = RuntimeHandle(self._session, runtime)
        self._parts.Clear()
        if request.config and self._config:
            log.warning("--config is not used, as the runtime sends a configuration")
        try:
            # The session passes no deadline for Configure; the runtime sends that of all requests.
            self._call(
                Request("configure", "", request.request_timeout * 1_000_000),
                (request.config or self._config, self._runtime),
                empty_reply,
            )
        except AnswerLater as later:
            self._configuring = later.done
            raise
        return self._mask

    def answer(self, request: RequestReceived) -> bytes:
        """Return the reply of the request's handler, or an empty reply without a handler."""
        task = self._working.pop(request.stream_id, None)
        if task is not None:
            return _result(task)
        try:
            return self._answer(request)
        except AnswerLater as later:
            self._working[request.stream_id] = later.done
            raise

    def answered(self, exchange: Exchange) -> None:
        """Log a late reply: the runtime closes the connection without giving a reason."""
        request = exchange.request
        if request.timeout_ns and exchange.took_ns > request.timeout_ns:
            log.error(
                "%s: answered after %.3g s, the deadline was %.3g s",
                request.method,
                exchange.took_ns / 1e9,
                request.timeout_ns / 1e9,
            )

    def noticed(self, text: str) -> None:
        """Log a protocol violation of the runtime, or a failure policy that it does not know."""
        log.warning("%s", text)

    # -- inside -------------------------------------------------------------------------------

    def _answer(self, received: RequestReceived) -> bytes:
        if received.service == recording_clock.SERVICE and self._runtime is not None:
            number, _ = recording_clock.unpack(received.payload)
            raise AnswerLater(asyncio.ensure_future(self._fire(self._runtime, number)))
        method = METHODS.get(received.method)
        if received.service != PLUGIN_SERVICE or method is None or method.service != PLUGIN_SERVICE:
            # On this code, a runtime sends StateChange instead.
            raise RpcError(Code.UNIMPLEMENTED, f"no {received.service}/{received.method} here")
        try:
            message = method.request.FromString(received.payload)
        except DecodeError as error:
            raise RpcError(Code.INVALID_ARGUMENT, f"undecodable request: {error}") from error
        if isinstance(message, api.SynchronizeRequest):
            return self._synchronize(message, received.timeout_ns)
        if received.method == "Shutdown":
            return self._call(Request("shutdown", "", received.timeout_ns), (), empty_reply)
        event = method.event
        if isinstance(message, api.StateChangeEvent):
            event = next((one for one in STATE_CHANGE_EVENTS if one.value == message.event), None)
        if event is None:
            return no_change(received.method, received.payload)
        if EVENT_HANDLERS[event] not in self._handlers.by_name:
            return no_change(received.method, received.payload)
        request = Request(EVENT_HANDLERS[event], _subject(message), received.timeout_ns)
        return self._call(request, _arguments(event, message), REPLIES.get(event.name, empty_reply))

    async def _fire(self, runtime: RuntimeHandle, number: int) -> bytes:
        await runtime.fire(number)
        return b""

    def _synchronize(self, part: api.SynchronizeRequest, timeout_ns: int) -> bytes:
        """Collect the parts; call the handler after the last part, with the whole state."""
        self._parts.pods.extend(part.pods)
        self._parts.containers.extend(part.containers)
        if part.more:
            return api.SynchronizeResponse(more=True).SerializeToString()
        whole, self._parts = self._parts, api.SynchronizeRequest()
        request = Request("synchronize", "", timeout_ns)
        return self._call(request, (whole.pods, whole.containers), synchronize_reply)

    def _call(self, request: Request, arguments: tuple[object, ...], reply: ReplyOf) -> bytes:
        """Run a handler and build its reply; raise `AnswerLater` while it is running."""
        handler = self._handlers.by_name.get(request.handler)
        if handler is None:
            return b""
        token = CURRENT.set(request)
        waiting = False
        try:
            value = handler(*arguments)
            if inspect.isawaitable(value):
                # The task inherits the context variable `CURRENT`.
                task = asyncio.ensure_future(_finish(request, value, reply))
                waiting = True
                raise AnswerLater(task)
            return reply(request.handler, value).SerializeToString()
        except AnswerLater:
            raise
        except SystemExit as exit_request:
            # Exit after the reply is sent, not inside the socket's callback.
            asyncio.get_running_loop().call_soon(_exit, exit_request)
            raise RpcError(Code.UNKNOWN, "the plugin exits") from None
        except Exception as error:  # noqa: BLE001 - any error of the plugin's code
            raise _failure(request, error)  # noqa: B904 - it may be the same error
        finally:
            request.answered = not waiting
            CURRENT.reset(token)


def _exit(request: SystemExit) -> None:
    """Exit from the event loop, as a handler called sys.exit()."""
    raise request


async def _finish(request: Request, value: Awaitable[object], reply: ReplyOf) -> bytes:
    try:
        return reply(request.handler, await value).SerializeToString()
    except asyncio.CancelledError:
        log.error("%s: the connection ended before the handler returned", request)
        raise
    except Exception as error:  # noqa: BLE001 - any error of the plugin's code
        raise _failure(request, error)  # noqa: B904 - it may be the same error
    finally:
        request.answered = True


def _result(task: asyncio.Future[bytes]) -> bytes:
    if task.cancelled():
        raise RpcError(Code.CANCELLED, "the handler was cancelled")
    return task.result()


def _failure(request: Request, error: Exception) -> NriScopeError:
    """Log a handler's exception, and return the error to reply with."""
    log_failure(str(request), error)
    if isinstance(error, RpcError) or (
        isinstance(error, UsageError) and request.handler == "configure"
    ):
        return error
    return RpcError(Code.UNKNOWN, words_of(error))


def _arguments(event: Event, message: Message) -> tuple[object, ...]:
    match message:
        case api.ValidateContainerAdjustmentRequest():
            return (message,)
        case api.UpdatePodSandboxRequest():
            return (message.pod, message.overhead_linux_resources, message.linux_resources)
        case api.UpdateContainerRequest():
            return (message.pod, message.container, message.linux_resources)
    pod: object = getattr(message, "pod")  # noqa: B009 - a dozen messages have this field
    if event.is_pod_event:
        return (pod,)
    return (pod, getattr(message, "container"))  # noqa: B009 - the same


def _subject(message: Message) -> str:
    pod = getattr(message, "pod", None)
    container = getattr(message, "container", None)
    names = [
        *([pod.namespace, pod.name or pod.id[:12]] if isinstance(pod, api.PodSandbox) else ()),
        *([container.name or container.id[:12]] if isinstance(container, api.Container) else ()),
    ]
    return "/".join(name for name in names if name)
