# SPDX-License-Identifier: Apache-2.0
"""Peers on a unix socket other than a CRI runtime, and a relay that can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def replying(reply: bytes | None, path: Path) -> AsyncIterator[None]:
    """Reply with fixed bytes and close the connection; None: accept it and never reply."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if reply is None:
            await ended.wait()
        else:
            await reader.read(1)
            writer.write(reply)
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        yield
        ended.set()


class Relay:
    """Relay to the socket ``target``, until its connections are cut."""

    def __init__(self, target: Path) -> None:
        self._onward = target
        self._writers: list[asyncio.StreamWriter] = []

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        async with await asyncio.start_unix_server(self._serve, path):
            yield
            self.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward_reader, onward_writer = await asyncio.open_unix_connection(self._onward)
        self._writers += [writer, onward_writer]
        await asyncio.gather(_copy(reader, onward_writer), _copy(onward_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    writer.close()
