# SPDX-License-Identifier: Apache-2.0
"""Call the agent of one node, through a forwarded port that may end at any time; or of many nodes,
a few at a time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, TypeVar

from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.cri.client import MessageCodec
from nri_scope.errors import NriScopeError, RemoteProtocolError, UsageError
from nri_scope.recording.node_files import AGENT_PORT

from .agent_pods import AgentPod, agent_pods
from .kubectl import ForwardError, Kubectl

CALL_TIMEOUT_S = 10.0
"""Seconds for a call, and for the beginning of a stream."""
SILENCE_S = 20.0
"""Seconds without a response of a stream, which sends a heartbeat every five seconds."""
READING_S = 10.0
"""Seconds of heartbeats alone until ``say`` is told that the agent still reads."""
ATTEMPTS = 10
"""Number of attempts to go on with a call without progress; with ``follow``, there is no limit."""
RESPONSE_MAX = 16 << 20
"""Maximum number of bytes of a response. A request and a reply of NRI have at most 4 MiB each, and
are longer if redaction replaces many short values.
"""
STATUS_MAX = 4 << 20
"""Maximum number of bytes of a status."""
RESUMED_S = 5.0
"""Seconds for the beginning of a stream that goes on after an interruption."""
_PAUSE_S, _PAUSE_MAX_S = 1.0, 3.0
_RETRIED = frozenset(
    {
        *(Status.UNAVAILABLE, Status.UNKNOWN, Status.CANCELLED, Status.ABORTED),
        # Too many calls; a recording that is removed while it is read.
        *(Status.RESOURCE_EXHAUSTED, Status.DATA_LOSS),
    }
)


class AgentError(NriScopeError):
    """An agent without a usable answer."""

    def __init__(self, node: str, problem: str) -> None:
        super().__init__(node, problem)
        self.node = node
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.node}: {self.problem}"


_T = TypeVar("_T")
_Request = TypeVar("_Request", v1.GetEventsRequest, v1.GetRecordingRequest)


class AccessError(UsageError):
    """An agent refuses the caller, as all agents would."""


class TokenError(AccessError):
    """An agent does not accept a token, which may have expired."""


class AgentClient:
    """Client of one node's agent. All calls raise AgentError, and UsageError if kubectl fails."""

    def __init__(
        self, kubectl: Kubectl, pod: AgentPod, slots: asyncio.Semaphore | None = None
    ) -> None:
        """``slots``: limits the ports that are forwarded at the same time."""
        self._kubectl = kubectl
        self._pod = pod
        self._slots = slots

    @property
    def node(self) -> str:
        return self._pod.node

    async def status(self) -> v1.GetStatusResponse:
        """Return the state of the node."""
        with _translated(self.node):
            async with self._channel(STATUS_MAX) as stub, asyncio.timeout(CALL_TIMEOUT_S):
                return await stub.get_status(v1.GetStatusRequest())

    async def events(
        self,
        request: v1.GetEventsRequest,
        say: Callable[[str], None] = lambda text: None,
        *,
        patient: bool = False,
    ) -> AsyncGenerator[v1.GetEventsResponse, None]:
        """Yield responses. After an interruption, the call goes on without loss or repetition.

        ``say`` is called with why there are no responses at present, and with "" when there are
        after an interruption; also if the agent has sent only heartbeats for some time.
        ``patient``: whether to go on trying also before the first response. Close the generator,
        see `contextlib.aclosing`.

        With ``context``, what was sent is sent again if the call is interrupted before it caught
        up: a call that resumes gets no context.
        """
        cursor, attempt, said = request.after, 0, ""
        began, resumes = False, not (request.context and request.where)
        while True:
            limit_s = RESUMED_S if began else CALL_TIMEOUT_S
            calling = self._events_of_call(replace(request, after=cursor), say, limit_s)
            try:
                async with aclosing(calling) as responses:
                    async for response in responses:
                        began = True
                        if said:
                            say("")
                            said = ""
                        yield response
                        heartbeat = response.heartbeat
                        resumes |= heartbeat is not None and heartbeat.caught_up
                        if response.cursor and resumes:
                            cursor, attempt = response.cursor, 0
                return
            except TokenError as error:
                # The next token may be accepted.
                attempt += 1
                if not began or (attempt >= ATTEMPTS and not request.follow):
                    raise
                if str(error) != said:
                    said = str(error)
                    say(said)
                await asyncio.sleep(_PAUSE_S)
            except _Interrupted as error:
                attempt += 1
                is_last = not began or (attempt >= ATTEMPTS and not request.follow)
                if is_last and not patient:
                    raise AgentError(self.node, error.problem) from error
                if (attempt > 1 or not began) and error.problem != said:
                    said = error.problem
                    say(f"{error}; connecting again")
            await asyncio.sleep(min(_PAUSE_S * (attempt - 1), _PAUSE_MAX_S))
            await self._find_again()

    async def _events_of_call(
        self, request: v1.GetEventsRequest, say: Callable[[str], None], limit_s: float
    ) -> AsyncGenerator[v1.GetEventsResponse, None]:
        """Yield the responses of one call, of which the first must arrive in ``limit_s``."""
        with _translated(self.node):
            async with self._channel(RESPONSE_MAX) as stub:
                reading = _Reading(self.node, say)
                answer = stub.get_events(self._limited(request))
                async with aclosing(_in_time(answer, limit_s)) as responses:
                    async for response in responses:
                        reading.hear(response)
                        yield response
            if request.follow:
                raise _Interrupted(self.node, "its agent ended the call")

    async def recordings(
        self, request: v1.GetRecordingRequest
    ) -> AsyncGenerator[v1.GetRecordingResponse, None]:
        """Yield the pieces of bundles; none if no recording has such events.

        Close the generator, see `contextlib.aclosing`.
        """
        with _translated(self.node):
            async with self._channel(RESPONSE_MAX) as stub:
                answer = stub.get_recording(self._limited(request))
                async with aclosing(_in_time(answer, SILENCE_S)) as responses:
                    try:
                        async for response in responses:
                            if response.data or response.problem:
                                yield response
                    except GRPCError as error:
                        if error.status is not Status.NOT_FOUND:
                            raise

    def _limited(self, request: _Request) -> _Request:
        """Return a request with its namespaces only if the agent asks who may read them: without
        them, the context has what other namespaces' creations changed, too.
        """
        return request if self._pod.authorizes else replace(request, namespaces=[])

    async def _find_again(self) -> None:
        """Find the node's agent, whose pod may have been replaced."""
        try:
            pods = await agent_pods(self._kubectl, self._pod.namespace, node=self.node)
        except UsageError:
            # There is none at present, or kubectl fails: the next attempt tells.
            return
        self._pod = pods.get(self.node, self._pod)

    @asynccontextmanager
    async def _channel(self, most: int) -> AsyncIterator[v1.AgentStub]:
        pod = self._pod
        async with (
            self._slots or nullcontext(),
            self._kubectl.forwarded(pod.namespace, pod.name, AGENT_PORT) as port,
        ):
            channel = _LimitedChannel("127.0.0.1", port, codec=MessageCodec())
            channel.most = most
            try:
                metadata = {"authorization": f"Bearer {pod.token}"} if pod.token else None
                yield v1.AgentStub(channel, metadata=metadata)
            finally:
                channel.close()


async def _in_time(answer: AsyncIterator[_T], limit_s: float) -> AsyncGenerator[_T, None]:
    """Yield the messages of an answer, of which the first must arrive in ``limit_s``.

    Raises TimeoutError, also after `SILENCE_S` without a message.
    """
    responses: Any = answer
    async with aclosing(responses):
        while True:
            async with asyncio.timeout(limit_s):
                response = await anext(responses, None)
            if response is None:
                return
            limit_s = SILENCE_S
            yield response


@dataclass(slots=True)
class _Reading:
    """Tells a user if an agent reads its recordings for long without an event to send."""

    node: str
    say: Callable[[str], None]
    _since: float | None = field(default_factory=monotonic)

    def hear(self, response: v1.GetEventsResponse) -> None:
        if response.heartbeat is None or response.heartbeat.caught_up:
            self._since = monotonic()
        elif self._since is not None and monotonic() >= self._since + READING_S:
            self._since = None
            self.say(f"{self.node}: its agent is still reading its recordings")


class _LimitedChannel(Channel):
    """A channel that refuses long messages, as grpclib has no limit."""

    most = RESPONSE_MAX
    """Maximum number of bytes of a message."""

    def request(self, *arguments: Any, **options: Any) -> Any:
        stream: Any = super().request(*arguments, **options)
        receive = stream.recv_message

        async def recv_message() -> Any:
            if not stream._recv_initial_metadata_done:
                await stream.recv_initial_metadata()
            original = stream._stream.recv_data

            async def recv_data(size: int) -> bytes:
                if size > self.most:
                    raise RemoteProtocolError(
                        f"it sent a message of {size:,} bytes; {self.most:,} are possible"
                    )
                data: bytes = await original(size)
                return data

            stream._stream.recv_data = recv_data
            try:
                return await receive()
            finally:
                stream._stream.recv_data = original

        stream.recv_message = recv_message
        return stream


class _Interrupted(AgentError):
    """An answer that may be complete at the next attempt."""


@contextmanager
def _translated(node: str) -> Iterator[None]:
    try:
        yield
    except GRPCError as error:
        raise _refused(node, error) from error
    except TimeoutError as error:
        raise _Interrupted(node, "no answer") from error
    except (OSError, ProtocolError, StreamTerminatedError, ForwardError) as error:
        raise _Interrupted(node, str(error) or "no answer") from error
    except RemoteProtocolError as error:
        raise AgentError(node, str(error)) from error
    except (AssertionError, NotImplementedError, ValueError) as error:
        # grpclib raises these for messages that end early, are compressed, or have bad headers.
        raise AgentError(node, "its answer is no message of gRPC") from error


def _refused(node: str, error: GRPCError) -> AgentError | AccessError:
    problem = error.message or error.status.name.lower().replace("_", " ")
    if error.status in (Status.UNAUTHENTICATED, Status.PERMISSION_DENIED):
        kind = TokenError if error.status is Status.UNAUTHENTICATED else AccessError
        hint = "docs/kubernetes.md tells which permissions readers need"
        return kind(f"{node}: its agent refuses access: {problem}", hint)
    if error.status in _RETRIED:
        return _Interrupted(node, problem)
    if error.status is Status.UNIMPLEMENTED:
        problem = (
            "its agent does not know this call; use the same version of nri-scope here and there"
        )
    return AgentError(node, problem)


TOGETHER = min(32, 8 * (os.cpu_count() or 1))
"""Number of nodes that are asked at the same time.

Each needs a process of kubectl. That of Kubernetes 1.34 uses a processor for 0.1 s and 53 MiB to
forward a port: with more of them, some would exceed their timeout.
"""
TIMEOUT_S = 30.0
"""Default seconds for one node."""


async def each_node(
    agents: Mapping[str, AgentPod],
    ask: Callable[[AgentPod], Awaitable[_T]],
    *,
    timeout: float | None = TIMEOUT_S,
    together: int = TOGETHER,
) -> AsyncIterator[tuple[str, _T | AgentError]]:
    """Yield the answer of each node, or why there is none, in the order in which they arrive.

    Another exception of ``ask`` ends the iteration.
    """
    slots = asyncio.Semaphore(together)

    async def asked(agent: AgentPod) -> tuple[str, _T | AgentError]:
        async with slots:
            try:
                async with asyncio.timeout(timeout):
                    return agent.node, await ask(agent)
            except AgentError as error:
                return agent.node, error
            except TimeoutError:
                return agent.node, AgentError(agent.node, f"no answer within {timeout:g} s")

    tasks = [asyncio.create_task(asked(agent)) for agent in agents.values()]
    try:
        for done in asyncio.as_completed(tasks):
            yield await done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
