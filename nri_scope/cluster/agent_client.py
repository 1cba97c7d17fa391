# SPDX-License-Identifier: Apache-2.0
"""Call the agent of one node, through a forwarded port that may end at any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import NriScopeError, UsageError

from .agent_pods import AgentPod
from .kubectl import ForwardError, Kubectl

PORT = 9643
CALL_TIMEOUT_S = 10.0
"""Seconds for a call, and for the beginning of a stream."""
SILENCE_S = 20.0
"""Seconds without a response of a stream, which sends a heartbeat every five seconds."""
ATTEMPTS = 10
"""Number of attempts to go on with a call, without any progress."""
_PAUSE_S = 1.0
_RETRIED = frozenset({Status.UNAVAILABLE, Status.UNKNOWN, Status.CANCELLED, Status.ABORTED})


class AgentUnreachable(NriScopeError):
    """An agent that does not answer."""


class AgentClient:
    """Client of one node's agent. All calls raise AgentUnreachable and UsageError."""

    def __init__(
        self,
        kubectl: Kubectl,
        pod: AgentPod,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """``say`` is called with messages about interruptions."""
        self._kubectl = kubectl
        self._pod = pod
        self._say = say

    @property
    def node(self) -> str:
        return self._pod.node

    async def status(self) -> v1.GetStatusResponse:
        """Return the state of the node."""
        with _translated(self.node):
            async with self._channel() as stub, asyncio.timeout(CALL_TIMEOUT_S):
                return await stub.get_status(v1.GetStatusRequest())

    async def events(self, request: v1.GetEventsRequest) -> AsyncIterator[v1.GetEventsResponse]:
        """Yield responses. After an interruption, the call goes on without loss or repetition."""
        cursor, attempt = request.after, 0
        began = False
        while True:
            try:
                async with self._channel() as stub:
                    responses = stub.get_events(replace(request, after=cursor))
                    while True:
                        async with asyncio.timeout(SILENCE_S if began else CALL_TIMEOUT_S):
                            response = await anext(responses, None)
                        if response is None:
                            return
                        began = True
                        yield response
                        if response.cursor:
                            cursor, attempt = response.cursor, 0
            except GRPCError as error:
                if error.status not in _RETRIED:
                    raise _refused(self.node, error) from error
                problem = error.message or error.status.name.lower()
            except (OSError, ProtocolError, StreamTerminatedError, ForwardError) as error:
                # TimeoutError is an OSError.
                problem = str(error) or "no answer"
            attempt += 1
            if not began or attempt >= ATTEMPTS:
                raise AgentUnreachable(f"{self.node}: {problem}")
            if attempt > 1:
                self._say(f"{self.node}: {problem}; connecting again")
            await asyncio.sleep(min(_PAUSE_S * (attempt - 1), 10))

    async def recordings(
        self, request: v1.GetRecordingRequest
    ) -> AsyncIterator[v1.GetRecordingResponse]:
        """Yield the pieces of bundles."""
        with _translated(self.node):
            async with self._channel() as stub:
                responses = stub.get_recording(request)
                while True:
                    async with asyncio.timeout(SILENCE_S * 4):
                        response = await anext(responses, None)
                    if response is None:
                        return
                    yield response

    @asynccontextmanager
    async def _channel(self) -> AsyncIterator[v1.AgentStub]:
        pod = self._pod
        async with self._kubectl.forwarded(pod.namespace, pod.name, PORT) as port:
            channel = Channel("127.0.0.1", port)
            try:
                yield v1.AgentStub(channel)
            finally:
                channel.close()


@contextmanager
def _translated(node: str) -> Iterator[None]:
    try:
        yield
    except GRPCError as error:
        raise _refused(node, error) from error
    except TimeoutError as error:
        raise AgentUnreachable(f"{node}: no answer within {CALL_TIMEOUT_S:g} s") from error
    except (OSError, ProtocolError, StreamTerminatedError, ForwardError) as error:
        raise AgentUnreachable(f"{node}: {error}") from error


def _refused(node: str, error: GRPCError) -> NriScopeError:
    words = error.message or error.status.name.lower()
    if error.status is Status.UNIMPLEMENTED:
        return UsageError(
            f"{node}: its agent does not know this call: {words}",
            "use the same version of nri-scope here and on the nodes",
        )
    if error.status is Status.INVALID_ARGUMENT:
        return UsageError(words)
    return AgentUnreachable(f"{node}: {words}")
