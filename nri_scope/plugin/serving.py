# SPDX-License-Identifier: Apache-2.0
"""A plugin's handlers, and the dispatch of a session's requests to them."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable

from google.protobuf.message import DecodeError, Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import NriScopeError, RpcError, UsageError
from nri_scope.nri.events import METHODS, PLUGIN_SERVICE, SHUTDOWN, STATE_CHANGE_EVENTS, EventKind
from nri_scope.nri.no_change import no_change
from nri_scope.nri.request_subject import name_of_container, name_of_pod
from nri_scope.nri.runtime_setup import ConfigureRequest, FailurePolicy, Introduction, negotiate
from nri_scope.nri.versions import runtime_words
from nri_scope.wire import Code, RequestReceived

from .deregistration import ValidatorSession
from .session import AnswerLater, Connect, HandledCall, Identity, PluginSession, SessionEnd

log = logging.getLogger("nri_scope.plugin")

QUIET = EventKind.RemovePodSandbox
"""Event subscribed to without event handlers, as an empty mask would subscribe to all events."""

UPDATE_TIMEOUT = 30.0
"""Seconds to wait for the reply to UpdateContainers: the runtime first finishes other events."""

EVENT_HANDLERS: dict[EventKind, str] = {
    event: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event.name).lower() for event in EventKind
}
"""The handler of each event."""

HANDLERS = ("configure", "synchronize", *EVENT_HANDLERS.values(), "shutdown", "closed")
"""All methods that a plugin may have; docs/writing-plugins.md lists their arguments."""

Handler = Callable[..., object]


def handlers_of(plugin: object) -> dict[str, Handler]:
    """Return the handlers of an object by name. Raises `UsageError` for an object without any."""
    if isinstance(plugin, type):
        raise UsageError(f"{plugin.__name__} is a class", f"pass an instance: {plugin.__name__}()")
    handlers = {name: getattr(plugin, name, None) for name in HANDLERS}
    callables = {name: handler for name, handler in handlers.items() if callable(handler)}
    if not callables:
        name = type(plugin).__name__
        raise UsageError(f"{name} has no handlers", "define methods such as create_container")
    return callables


class RuntimeHandle:
    """Runtime of one session, as passed to `configure`; unusable after the session."""

    def __init__(self, session: PluginSession, introduction: Introduction) -> None:
        self._session = session
        self._tasks: set[asyncio.Task[api.UpdateContainersResponse]] = set()
        self.name = introduction.runtime_name
        """The runtime's own name; iSulad's is ``v2``."""
        self.version = introduction.runtime_version
        self.nri_version = "" if introduction.version is None else str(introduction.version)
        """NRI version, received or inferred; "" if unknown."""
        self.request_timeout = introduction.request_timeout_ms / 1000
        """Deadline of requests in seconds; 0 if the runtime does not send it."""

    def update_containers(
        self,
        updates: Iterable[api.ContainerUpdate],
        evictions: Iterable[api.ContainerEviction] = (),
    ) -> asyncio.Task[api.UpdateContainersResponse]:
        """Request changes outside of an event. Failures are logged.

        Handlers must not await the task: the runtime accepts no request while it waits for a
        handler, so the two would wait for each other until the runtime disconnects the plugin.
        """
        request = api.UpdateContainersRequest(update=updates, evict=evictions)
        task = asyncio.create_task(self._session.update_containers(request, UPDATE_TIMEOUT))
        self._tasks.add(task)
        task.add_done_callback(self._updated)
        return task

    def _updated(self, task: asyncio.Task[api.UpdateContainersResponse]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        if error := task.exception():
            log.error("update_containers: %s", error)
            return
        for update in task.result().failed:
            log.error("update_containers: failed for container %s", update.container_id)

    def end(self) -> None:
        """Cancel pending requests at the end of the session."""
        for task in self._tasks:
            task.cancel()


async def serve(plugin: object, identity: Identity, connect: Connect) -> SessionEnd:
    """Run one session of ``plugin``, an object with some of the methods in `HANDLERS`.

    A failure policy that the runtime does not know is not sent, which is logged. Returns when the
    connection has ended, after the handler `closed`. Raises the errors of `PluginSession.run`, and
    `UsageError` for an object that is not a plugin. To connect it to an emulated runtime in the
    same process, pass one end of a socket pair to the runtime and
    ``connect=inherited(other.detach())`` here.
    """
    return await HandlerSession(plugin, identity).run(connect)


class HandlerSession:
    """`Plugin` of one session that calls handlers."""

    def __init__(
        self, plugin: object, identity: Identity, *, requires_policy: bool = False
    ) -> None:
        """Prepare a session. Raises `UsageError` for an object that is not a plugin."""
        self._handlers = handlers_of(plugin)
        self._session = ValidatorSession(
            identity,
            self,
            FailurePolicy.parse(getattr(plugin, "failure_policy", "")),
            requires_policy=requires_policy,
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
        handler = self._handlers.get("closed")
        if handler is None:
            return
        try:
            value = handler(reason)
            if inspect.isawaitable(value):
                await value
        except Exception as error:  # noqa: BLE001 - any error of the plugin's code
            _log_failure("closed", error)

    # -- callbacks of the session -------------------------------------------------------------

    def configure(self, request: ConfigureRequest) -> int:
        """Subscribe to the events that have handlers, if this runtime supports them."""
        task, self._configuring = self._configuring, None
        if task is not None:
            _result(task)
            return self._mask
        events = {event for event, name in EVENT_HANDLERS.items() if name in self._handlers}
        validate = EventKind.ValidateContainerAdjustment in events
        negotiated = negotiate(request, events or {QUIET}, validate=validate)
        runtime = negotiated.runtime
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
        try:
            self._call("configure", (request.config, self._runtime), api.Empty)
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

    def answered(self, exchange: HandledCall) -> None:
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
        method = METHODS.get(received.method)
        if received.service != PLUGIN_SERVICE or method is None or method.service != PLUGIN_SERVICE:
            # On this code, a runtime sends StateChange instead.
            raise RpcError(Code.UNIMPLEMENTED, f"no {received.service}/{received.method} here")
        try:
            message = method.request.FromString(received.payload)
        except DecodeError as error:
            raise RpcError(Code.INVALID_ARGUMENT, f"undecodable request: {error}") from error
        if isinstance(message, api.SynchronizeRequest):
            return self._synchronize(message)
        if received.method == SHUTDOWN:
            return self._call("shutdown", (), method.reply)
        event = method.event
        if isinstance(message, api.StateChangeEvent):
            kinds = (kind for kind in STATE_CHANGE_EVENTS if kind.value == message.event)
            event = next(kinds, None)
        if event is None or EVENT_HANDLERS[event] not in self._handlers:
            return no_change(received.method, received.payload)
        arguments = handler_arguments(event, message)
        return self._call(EVENT_HANDLERS[event], arguments, method.reply, _subject(message))

    def _synchronize(self, part: api.SynchronizeRequest) -> bytes:
        """Collect the parts; call the handler after the last part, with the whole state."""
        self._parts.pods.extend(part.pods)
        self._parts.containers.extend(part.containers)
        if part.more:
            return api.SynchronizeResponse(more=True).SerializeToString()
        whole, self._parts = self._parts, api.SynchronizeRequest()
        return self._call("synchronize", (whole.pods, whole.containers), api.SynchronizeResponse)

    def _call(
        self, name: str, arguments: Iterable[object], kind: type[Message], subject: str = ""
    ) -> bytes:
        """Run a handler and build its reply; raise `AnswerLater` while it is running."""
        handler = self._handlers.get(name)
        if handler is None:
            return b""
        call = f"{name} {subject}".rstrip()
        try:
            value = handler(*arguments)
            if not inspect.isawaitable(value):
                return _reply(kind, value)
        except Exception as error:  # noqa: BLE001 - any error of the plugin's code
            raise _failure(call, error)  # noqa: B904 - it may be the same error
        raise AnswerLater(asyncio.ensure_future(_finish(call, value, kind)))


async def _finish(call: str, value: Awaitable[object], kind: type[Message]) -> bytes:
    try:
        return _reply(kind, await value)
    except asyncio.CancelledError:
        log.error("%s: the connection ended before the handler returned", call)
        raise
    except Exception as error:  # noqa: BLE001 - any error of the plugin's code
        raise _failure(call, error)  # noqa: B904 - it may be the same error


def _reply(kind: type[Message], value: object) -> bytes:
    """Return the reply for what a handler returned.

    Raises `ValueError` for a value that this reply has no field for, or `TypeError`.
    """
    match value:
        case kind():
            reply = value
        case None:
            reply = kind()
        case str():
            reply = kind(reject=True, reason=value)
        case api.ContainerAdjustment():
            reply = kind(adjust=value)
        case api.ContainerUpdate():
            reply = kind(update=[value])
        case _:
            reply = kind(update=value)
    if isinstance(reply, api.CreateContainerResponse):
        # iSulad aborts without ``adjust``.
        reply.adjust.SetInParent()
    return reply.SerializeToString()


def _result(task: asyncio.Future[bytes]) -> bytes:
    if task.cancelled():
        raise RpcError(Code.CANCELLED, "the handler was cancelled")
    return task.result()


def _failure(call: str, error: Exception) -> NriScopeError:
    """Log a handler's exception, and return the error to reply with."""
    text = _log_failure(call, error)
    if isinstance(error, RpcError) or (isinstance(error, UsageError) and call == "configure"):
        return error
    return RpcError(Code.UNKNOWN, text)


def _log_failure(call: str, error: Exception) -> str:
    """Log an exception as one line, and at level DEBUG with its traceback; return its text."""
    if isinstance(error, RpcError):
        text = error.message
    else:
        # Errors of nri-scope are sentences; other errors need their type.
        own = isinstance(error, NriScopeError)
        text = str(error) if own else f"{type(error).__name__}: {error}"
    log.error("%s: %s", call, text)
    log.debug("%s", call, exc_info=error)
    return text


def handler_arguments(event: EventKind, message: Message) -> list[object]:
    """Return the arguments of a plugin's handler: the parts of a request, or validation's whole."""
    if isinstance(message, api.ValidateContainerAdjustmentRequest):
        return [message]
    names = ["pod", "container", "overhead_linux_resources", "linux_resources"]
    if event.is_pod_event:
        # StateChange has a container for all events.
        names.remove("container")
    return [getattr(message, name) for name in names if name in message.DESCRIPTOR.fields_by_name]


def _subject(message: Message) -> str:
    """Return ``namespace/pod/container``; parts that the request lacks are omitted."""
    pod = getattr(message, "pod", None)
    container = getattr(message, "container", None)
    names: list[str] = []
    # Docker Engine sends each container also as a pod.
    if isinstance(pod, api.PodSandbox) and pod.id != getattr(container, "id", None):
        names += [pod.namespace, name_of_pod(pod) or pod.id[:12]]
    if isinstance(container, api.Container):
        names.append(name_of_container(container) or container.id[:12])
    return "/".join(name for name in names if name)
