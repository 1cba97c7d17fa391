# SPDX-License-Identifier: Apache-2.0
"""An agent with given answers, and a cluster of it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from grpclib.server import Server

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.cluster.local_copy import LocalCopy
from nri_scope.recorder.complete_recording import complete_recording
from tests.cluster.fake_kubectl import agent_pod, install, pod

CLOSE_TIMEOUT_S = 10.0
"""Maximum seconds to wait for the handlers of a closed server."""

SESSION = v1.Session(recording="r", id=1, role="logger", started_ns=1)
CAUGHT_UP = v1.GetEventsResponse(heartbeat=v1.Heartbeat(caught_up=True))


class Agent(v1.AgentBase):
    """An agent that answers with given messages, or an error."""

    def __init__(self, *answers: Any) -> None:
        self._answers = answers

    async def get_status(self, message: v1.GetStatusRequest) -> v1.GetStatusResponse:
        (answer,) = self._answers
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, v1.GetStatusResponse)
        return answer

    async def get_events(self, message: v1.GetEventsRequest) -> AsyncIterator[v1.GetEventsResponse]:
        for answer in self._answers:
            if isinstance(answer, Exception):
                raise answer
            yield answer


@asynccontextmanager
async def cluster(folder: Path, port: int) -> AsyncIterator[dict[str, str]]:
    pods = [agent_pod("node"), pod("shop", "web", "node", app="web")]
    yield install(folder / "bin", {"pods": pods, "ports": {"nri-scope-node": port}})


@asynccontextmanager
async def serving(agent: v1.AgentBase) -> AsyncIterator[int]:
    """Serve an agent; provide its port."""
    server = Server([agent])
    listening = socket.create_server(("127.0.0.1", 0))
    await server.start(sock=listening)
    try:
        yield listening.getsockname()[1]
    finally:
        server.close()
        # grpclib was once seen to wait forever for a handler that it had cancelled.
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await server.wait_closed()


def add_all(folder: Path, responses: Iterable[v1.GetEventsResponse]) -> None:
    with complete_recording(folder / "copy.nriscope.db") as recording:
        copy = LocalCopy(recording)
        copy.add(v1.GetEventsResponse(session=SESSION))
        for response in responses:
            copy.add(response)
