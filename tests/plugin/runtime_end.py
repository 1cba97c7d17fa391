# SPDX-License-Identifier: Apache-2.0
"""Runtime's end of a plugin connection, driven call by call by a test."""

from __future__ import annotations

import asyncio
from pathlib import Path

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import PLUGIN_CONN, PLUGIN_SERVICE, RUNTIME_CONN
from nri_scope.transport import Link, Server, listen_unix
from nri_scope.wire import Connection, RequestReceived


class RuntimeEnd:
    """Runtime that accepts registrations on a socket; the test makes all calls."""

    def __init__(self) -> None:
        self.links: asyncio.Queue[Link] = asyncio.Queue()
        self.registrations: asyncio.Queue[tuple[Link, RequestReceived]] = asyncio.Queue()
        self.refuse: tuple[int, str] | None = None
        self.answer_registration = True
        self._server: Server | None = None

    async def listen(self, path: Path) -> None:
        self._server = await listen_unix(path, self._accept)

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()

    def _accept(self) -> Link:
        link = Link(Connection(serves=RUNTIME_CONN, calls=PLUGIN_CONN), self._on_request)
        self.links.put_nowait(link)
        return link

    def _on_request(self, link: Link, request: RequestReceived, arrived_ns: int) -> None:
        if self.refuse is not None:
            link.respond_error(request.stream_id, *self.refuse)
        elif self.answer_registration:
            link.respond(request.stream_id)
        self.registrations.put_nowait((link, request))

    async def registered(self) -> tuple[Link, api.RegisterPluginRequest]:
        """Wait for the next registration, and return its link and request."""
        async with asyncio.timeout(10):
            link, request = await self.registrations.get()
        assert request.method == "RegisterPlugin"
        return link, api.RegisterPluginRequest.FromString(request.payload)


async def configure(link: Link, **fields: str | int) -> int:
    """Send Configure and return the mask."""
    values = {"runtime_name": "containerd", "runtime_version": "v1.7.24", **fields}
    reply = await call(link, "Configure", api.ConfigureRequest(**values))  # type: ignore[arg-type]
    return api.ConfigureResponse.FromString(reply).events


async def synchronize(link: Link) -> bytes:
    """Send an empty, unsplit Synchronize."""
    return await call(link, "Synchronize", api.SynchronizeRequest())


async def call(link: Link, method: str, message: Message | bytes, timeout: float = 10) -> bytes:
    """Call the plugin and return its reply."""
    payload = message if isinstance(message, bytes) else message.SerializeToString()
    return await link.call(PLUGIN_SERVICE, method, payload, timeout=timeout)
