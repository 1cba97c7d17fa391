# SPDX-License-Identifier: Apache-2.0
"""A real agent as a process, and clients of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from grpclib.client import Channel

from nri_scope._gen.agent.nri_scope.agent import v1
from tests.cli.running import Running, running


class Agent(NamedTuple):
    """A running agent."""

    process: Running
    port: int
    """Of gRPC."""
    http: int

    @asynccontextmanager
    async def client(self) -> AsyncIterator[v1.AgentStub]:
        channel = Channel("127.0.0.1", self.port)
        try:
            yield v1.AgentStub(channel)
        finally:
            channel.close()

    async def events(self, request: v1.GetEventsRequest) -> list[v1.GetEventsResponse]:
        """Return all responses of a call that ends by itself."""
        async with self.client() as stub:
            return [response async for response in stub.get_events(request)]


@asynccontextmanager
async def agent(
    folder: Path, *options: str | Path, prefix: tuple[str, ...] = ()
) -> AsyncIterator[Agent]:
    """Run an agent for the recordings in a folder; ``prefix``: see `running`."""
    addresses = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    async with running("agent", folder, *addresses, *options, prefix=prefix) as process:
        line = await process.wait_for_text("serving")
        port, http = (int(number) for number in re.findall(r":(\d+)", line))
        yield Agent(process, port, http)
