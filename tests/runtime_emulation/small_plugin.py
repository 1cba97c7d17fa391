# SPDX-License-Identifier: Apache-2.0
"""Small plugin that records requests, and replies as a test specifies."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from google.protobuf.message import Message

from nri_scope._gen.nri.api_pb2 import (
    ConfigureRequest,
    ConfigureResponse,
    RegisterPluginRequest,
    SynchronizeRequest,
    SynchronizeResponse,
    UpdateContainersRequest,
    UpdateContainersResponse,
)
from nri_scope.errors import RpcError
from nri_scope.nri.events import METHODS, PLUGIN_CONN, RUNTIME_CONN, RUNTIME_SERVICE
from nri_scope.nri.no_change import no_change
from nri_scope.runtime import EmulatedRuntime, Plugin
from nri_scope.transport import Link, adopt_descriptor, connect_unix
from nri_scope.wire import Connection, RequestReceived

Reply = bytes | Message | RpcError | None
"""Reply of a handler; None leaves the request unanswered."""
Handler = Callable[[RequestReceived], Reply]


class SmallPlugin:
    """Plugin that requests no change; put a handler into `on` to reply to a method otherwise."""

    def __init__(self, plugin: str = "10-small", mask: int = 0) -> None:
        self.index, self.name = plugin.split("-", 1)
        self.mask = mask
        self.on: dict[str, Handler] = {
            "Configure": lambda request: ConfigureResponse(events=self.mask),
            "Synchronize": self.echo_more,
        }
        self.requests: list[RequestReceived] = []
        self.arrived = asyncio.Event()
        """Set when a request arrives; clear it before the next wait."""
        self.link: Link | None = None

    @property
    def methods(self) -> list[str]:
        """Methods of the requests, in order."""
        return [request.method for request in self.requests]

    @property
    def events(self) -> list[RequestReceived]:
        """The requests after the set-up."""
        return [one for one in self.requests if one.method not in ("Configure", "Synchronize")]

    def messages(self, method: str) -> list[Message]:
        """Return the decoded requests of one method."""
        return [
            METHODS[method].request.FromString(request.payload)
            for request in self.requests
            if request.method == method
        ]

    @property
    def configured(self) -> ConfigureRequest:
        """The first Configure request."""
        (message, *_) = self.messages("Configure")
        assert isinstance(message, ConfigureRequest)
        return message

    async def connect(self, path: str | Path) -> None:
        """Connect to a runtime's socket without registering."""
        self.link = await connect_unix(
            path, lambda: Link(Connection(serves=PLUGIN_CONN, calls=RUNTIME_CONN), self.serve)
        )

    async def adopt(self, descriptor: int) -> None:
        """Use a connected socket without registering."""
        self.link = await adopt_descriptor(
            descriptor, lambda: Link(Connection(serves=PLUGIN_CONN, calls=RUNTIME_CONN), self.serve)
        )

    async def register(self) -> None:
        """Call RegisterPlugin and wait for the reply."""
        request = RegisterPluginRequest(plugin_name=self.name, plugin_idx=self.index)
        await self.connected.call(RUNTIME_SERVICE, "RegisterPlugin", request.SerializeToString())

    async def join(self, runtime: EmulatedRuntime) -> Plugin:
        """Register with a runtime in this process; return once it sends events."""
        ours, theirs = socket.socketpair()
        await self.adopt(theirs.detach())
        _, plugin = await asyncio.gather(self.register(), runtime.adopt(ours))
        return plugin

    async def update_containers(self, request: UpdateContainersRequest) -> UpdateContainersResponse:
        """Request an unsolicited update."""
        reply = await self.connected.call(
            RUNTIME_SERVICE, "UpdateContainers", request.SerializeToString()
        )
        return UpdateContainersResponse.FromString(reply)

    @property
    def connected(self) -> Link:
        """The link; requires a connection."""
        assert self.link is not None
        return self.link

    def serve(self, link: Link, request: RequestReceived, arrived_ns: int) -> None:
        """Record the request and answer it."""
        self.requests.append(request)
        self.arrived.set()
        handler = self.on.get(request.method)
        self.answer(
            request,
            handler(request) if handler else no_change(request.method, request.payload),
        )

    def answer(self, request: RequestReceived, reply: Reply) -> None:
        """Answer a request."""
        match reply:
            case RpcError(code=code, message=message):
                self.connected.respond_error(request.stream_id, code, message)
            case bytes():
                self.connected.respond(request.stream_id, reply)
            case None:
                pass
            case _:
                self.connected.respond(request.stream_id, reply.SerializeToString())

    @staticmethod
    def echo_more(request: RequestReceived) -> Message:
        """Return the minimal valid reply to Synchronize."""
        return SynchronizeResponse(more=SynchronizeRequest.FromString(request.payload).more)
