# SPDX-License-Identifier: Apache-2.0
"""An HTTP/2 client that sends anything, and reads only on request."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from tests.cli.running import PATIENCE

SERVICE = "/nri_scope.agent.v1.Agent"


class RawClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = H2Connection(H2Configuration(header_encoding="ascii"))
        self.h2.initiate_connection()
        self.flush()

    @classmethod
    async def connect(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def begin(self, method: str, *more: tuple[str, str]) -> int:
        """Send the headers of a call; return its stream."""
        stream = self.h2.get_next_available_stream_id()
        headers = [
            *((":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "x")),
            *(("te", "trailers"), ("content-type", "application/grpc+proto"), *more),
        ]
        self.h2.send_headers(stream, headers)
        self.flush()
        return stream

    def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        self.h2.send_data(stream, data, end_stream=end)
        self.flush()

    async def status(self, stream: int) -> str:
        """Return the status of a call, or why there is none."""
        found = ""
        async with asyncio.timeout(PATIENCE):
            while data := await self.reader.read(1 << 16):
                for event in self.h2.receive_data(data):
                    if isinstance(event, DataReceived):
                        self.h2.acknowledge_received_data(
                            event.flow_controlled_length, event.stream_id
                        )
                    if isinstance(event, ConnectionTerminated):
                        return "terminated"
                    if getattr(event, "stream_id", None) != stream:
                        continue
                    if isinstance(event, ResponseReceived | TrailersReceived):
                        headers = {str(name): str(value) for name, value in event.headers or ()}
                        found = headers.get("grpc-status", found)
                    if isinstance(event, StreamReset | StreamEnded):
                        return found or "reset"
                self.flush()
        return "closed"

    async def close(self) -> None:
        self.writer.transport.abort()
        with suppress(OSError):
            await self.writer.wait_closed()


def message(content: bytes, *, compressed: bool = False, length: int | None = None) -> bytes:
    """Return a message with its prefix."""
    size = len(content) if length is None else length
    return bytes([compressed]) + size.to_bytes(4, "big") + content
