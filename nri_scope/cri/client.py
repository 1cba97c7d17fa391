# SPDX-License-Identifier: Apache-2.0
"""The CRI client, over gRPC on a runtime's unix socket."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from grpclib.client import Channel

from nri_scope._gen.cri.runtime import v1

from .codec import MessageCodec
from .failures import first_contact, translated
from .status import RuntimeVersion, info_with_status

CONNECT_TIMEOUT = 5.0
"""Seconds to wait for the reply to ``Version`` when connecting."""

CALL_TIMEOUT = 30.0
"""Timeout of a call in seconds. Long, as each NRI plugin may take two seconds or more."""


class CriClient:
    """Client of one runtime, created by `connect`; an asynchronous context manager.

    After a restart of the runtime, the next call reconnects.

    All calls raise the same errors: ``RpcError`` with the runtime's status code and message,
    ``DeadlineExceeded``, ``ConnectionClosed`` if the runtime disconnects during a call,
    ``ConnectError`` if the runtime cannot be reached, ``RemoteProtocolError`` for malformed
    replies.
    """

    runtime: RuntimeVersion
    """Name and version of the runtime at the time of `connect`."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._channel = Channel(path=self.path, codec=MessageCodec())
        self._pods = v1.RuntimeServiceStub(self._channel)

    @classmethod
    async def connect(cls, path: str | Path, *, timeout: float = CONNECT_TIMEOUT) -> Self:
        """Return a client for the runtime on the unix socket ``path``, after its first reply.

        :param timeout: seconds to wait for the first reply.
        :raises ConnectError: there is no socket, no permission, no listening process, or no reply
            of a CRI runtime.
        :raises RpcError: the runtime replied with an error.
        """
        client = cls(path)
        try:
            with first_contact(client.path, timeout):
                client.runtime = await client.version(timeout=timeout)
        except BaseException:
            client.close()
            raise
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    async def version(self, *, timeout: float = CALL_TIMEOUT) -> RuntimeVersion:
        with translated(self.path, "Version", timeout):
            answer = await self._pods.version(v1.VersionRequest(version="v1"), timeout=timeout)
        return RuntimeVersion(answer.runtime_name, answer.runtime_version)

    async def container_info(self, container_id: str, *, timeout: float = CALL_TIMEOUT) -> str:
        """Return the JSON text under ``info`` of a verbose ``ContainerStatus``, "" if missing.

        Its ``runtimeSpec`` is the OCI spec that the runtime created. If the container failed to
        start, ``status`` is added to the JSON.
        """
        request = v1.ContainerStatusRequest(container_id=container_id, verbose=True)
        with translated(self.path, "ContainerStatus", timeout):
            answer = await self._pods.container_status(request, timeout=timeout)
        return info_with_status(answer)
