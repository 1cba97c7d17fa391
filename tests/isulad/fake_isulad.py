# SPDX-License-Identifier: Apache-2.0
"""A server that behaves on the wire as a built iSulad did, and dies of the same messages.

It shares no protocol code with nri-scope, only the generated messages. Behaviour: frames of at most
1,024 bytes, random order of external plugins, no Synchronize in parts, silence after a mask with
unknown bits, an abort on a CreateContainer reply without ``adjust``, a crash on an update in a
reply to CreateContainer or StopContainer and on any UpdateContainers. Updates in Synchronize, and
those without a container id or beside hooks, are ignored.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import socket
import struct
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nri_scope._gen.nri import api_pb2 as api
from nri_scope._gen.ttrpc import ttrpc_pb2 as ttrpc

PLUGIN_CONNECTION, RUNTIME_CONNECTION = 1, 2
PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
REQUEST, RESPONSE = 1, 2
FRAME_MAX = 1_024
MASK = 0x07FF
TIMEOUT = 2.0


@dataclass(eq=False)
class Connection:
    """One plugin's connection."""

    isulad: FakeIsulad
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    key: str = field(default_factory=lambda: f"{random.getrandbits(64):016x}")
    name: str = ""
    config: str | None = None
    """The configuration of a launched plugin, which gets no Synchronize."""
    mask: int = 0
    ready: bool = False
    """Whether it gets events."""
    stream: int = 1
    replies: dict[int, asyncio.Future[bytes]] = field(default_factory=dict)
    received: dict[int, bytes] = field(default_factory=lambda: {1: b"", 2: b""})

    def send(self, connection: int, stream: int, kind: int, payload: bytes) -> None:
        message = struct.pack(">IIBB", len(payload), stream, kind, 0) + payload
        for at in range(0, len(message), FRAME_MAX):
            part = message[at : at + FRAME_MAX]
            self.writer.write(struct.pack(">II", connection, len(part)) + part)

    async def call(self, method: str, payload: bytes) -> bytes:
        """Call the plugin. Raises TimeoutError, ConnectionError and RuntimeError."""
        stream, self.stream = self.stream, self.stream + 2
        request = ttrpc.Request(
            service=PLUGIN_SERVICE, method=method, payload=payload, timeout_nano=int(TIMEOUT * 1e9)
        )
        self.replies[stream] = asyncio.get_running_loop().create_future()
        self.send(PLUGIN_CONNECTION, stream, REQUEST, request.SerializeToString())
        async with asyncio.timeout(TIMEOUT):
            response = ttrpc.Response.FromString(await self.replies[stream])
        if response.HasField("status") and response.status.code:
            raise RuntimeError(response.status.message)
        return response.payload

    async def read(self) -> None:
        try:
            while True:
                connection, size = struct.unpack(">II", await self.reader.readexactly(8))
                part = await self.reader.readexactly(size)
                self.received[connection] += part
                self._messages(connection)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ready = False
            for reply in self.replies.values():
                if not reply.done():
                    reply.set_exception(ConnectionResetError("the plugin is gone"))
            self.writer.close()

    def _messages(self, connection: int) -> None:
        while len(data := self.received[connection]) >= 10:
            size, stream, kind, _ = struct.unpack(">IIBB", data[:10])
            if len(data) < 10 + size:
                return
            self.received[connection] = data[10 + size :]
            body = data[10 : 10 + size]
            if connection == PLUGIN_CONNECTION:
                assert kind == RESPONSE
                reply = self.replies.pop(stream)
                if not reply.done():
                    reply.set_result(body)
            else:
                assert kind == REQUEST
                self.isulad.asked(self, stream, ttrpc.Request.FromString(body))


class FakeIsulad:
    """One daemon with its external plugins."""

    def __init__(self, path: Path, state: bytes = b"", *, loses_registrations: int = 0) -> None:
        """``state``: a Synchronize request. ``loses_registrations``: number of registrations that
        get a reply and nothing else.
        """
        self.socket = path
        self.state = state
        self.loses = loses_registrations
        self.killed_by: list[str] = []
        """The messages that killed it; it goes on so that one test can find several."""
        self.connections: dict[str, Connection] = {}
        self.registered: list[str] = []
        self.failed: list[str] = []
        """Plugins that were dropped, with the reason."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self.socket.parent.mkdir(mode=0o700, exist_ok=True)
        self._server = await asyncio.start_unix_server(self._accept, self.socket)
        self.socket.chmod(0o600)

    async def launch(self, file: str, config: str, *command: str) -> asyncio.subprocess.Process:
        """Launch a plugin as the file ``NN-name``, with the whole environment and a descriptor that
        is not 3.
        """
        mine, theirs = socket.socketpair()
        with theirs:
            descriptor = fcntl.fcntl(theirs, fcntl.F_DUPFD, 22)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                pass_fds=[descriptor],
                env={
                    **os.environ,
                    "NRI_PLUGIN_NAME": file,
                    "NRI_PLUGIN_IDX": file[:2],
                    "NRI_PLUGIN_SOCKET": str(descriptor),
                },
            )
        finally:
            os.close(descriptor)
        one = Connection(self, *await asyncio.open_unix_connection(sock=mine))
        one.name, one.config = file, config
        self.connections[one.key] = one
        self._start(one.read())
        return process

    async def die(self) -> None:
        """End all connections; the socket's file stays, as after a crash."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections.values()):
            connection.writer.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait_for(self, names: set[str]) -> None:
        """Wait until these plugins get events."""
        async with asyncio.timeout(60), self._changed:
            await self._changed.wait_for(
                lambda: names <= {one.name for one in self.connections.values() if one.ready}
            )

    async def send(self, method: str, payload: bytes) -> list[str]:
        """Send an event to all plugins that subscribe to it; return their names in call order."""
        bit = _event_bit(method, payload)
        called = []
        # A std::map by key: random keys, sorted.
        for _, one in sorted(self.connections.items()):
            if not one.ready or (one.mask and not one.mask & bit):
                continue
            called.append(one.name)
            try:
                self.judge(one.name, method, await one.call(method, payload))
            except (TimeoutError, ConnectionError, RuntimeError) as error:
                self.failed.append(f"{one.name}: {method}: {error}")
                one.ready = False
                one.writer.close()
        return called

    def judge(self, plugin: str, method: str, payload: bytes) -> None:
        """Die of a reply like iSulad."""
        if method == "CreateContainer":
            create = api.CreateContainerResponse.FromString(payload)
            if not create.HasField("adjust"):
                self._kill(plugin, "abort: CreateContainer without adjust")
            if _crashes(create.update) and not create.adjust.HasField("hooks"):
                self._kill(plugin, "SIGSEGV: update in CreateContainer")
        elif method == "StopContainer" and _crashes(
            api.StopContainerResponse.FromString(payload).update
        ):
            self._kill(plugin, "SIGSEGV: update in StopContainer")

    def _kill(self, plugin: str, reason: str) -> None:
        self.killed_by.append(f"{plugin}: {reason}")

    def asked(self, one: Connection, stream: int, request: ttrpc.Request) -> None:
        """Process a call by a plugin."""
        if request.method == "UpdateContainers":
            self._kill(one.name, "SIGSEGV: UpdateContainers")
            return
        assert request.method == "RegisterPlugin", request.method
        register = api.RegisterPluginRequest.FromString(request.payload)
        # The index is ignored; a launched plugin has the name of its file.
        one.name = one.name or register.plugin_name
        self.registered.append(one.name)
        one.send(RUNTIME_CONNECTION, stream, RESPONSE, ttrpc.Response().SerializeToString())
        if self.loses:
            self.loses -= 1
            return
        self._start(self._set_up(one))

    async def _set_up(self, one: Connection) -> None:
        try:
            configure = api.ConfigureRequest(
                config=one.config or "",
                runtime_name="v2",
                runtime_version="2.0.0-beta.2+unknown",
            )
            reply = api.ConfigureResponse.FromString(
                await one.call("Configure", configure.SerializeToString())
            )
            if reply.events & ~MASK:
                # No event and no disconnect.
                return
            one.mask = reply.events
            if one.config is None:
                self.judge(one.name, "Synchronize", await one.call("Synchronize", self.state))
        except (TimeoutError, ConnectionError, RuntimeError) as error:
            self.failed.append(f"{one.name}: {error}")
            one.writer.close()
            return
        one.ready = True
        async with self._changed:
            self._changed.notify_all()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        one = Connection(self, reader, writer)
        self.connections[one.key] = one
        self._start(one.read())

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _crashes(updates: Sequence[api.ContainerUpdate]) -> bool:
    return bool(updates) and bool(updates[0].container_id)


_BITS = {"CreateContainer": 4, "UpdateContainer": 8, "StopContainer": 10}


def _event_bit(method: str, payload: bytes) -> int:
    if method == "StateChange":
        return 1 << (api.StateChangeEvent.FromString(payload).event - 1)
    return 1 << (_BITS[method] - 1)
