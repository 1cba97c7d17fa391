# SPDX-License-Identifier: Apache-2.0
"""The CRI client: one method per call, over gRPC on a runtime's unix socket."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from grpclib.client import Channel

from nri_scope._gen.cri.runtime import v1

from .codec import MessageCodec
from .failures import first_contact, translated
from .status import RuntimeVersion, info_told

CONNECT_TIMEOUT = 5.0
"""Seconds within which a process that accepts connections must have answered ``Version``."""

CALL_TIMEOUT = 30.0
"""Timeout of a call in seconds. Generous, as NRI plugins may take two seconds and more each."""


class CriClient:
    """Calls to one runtime; made by `connect`. An asynchronous context manager.

    When the runtime restarts, the first call afterwards connects again.

    Every call raises the same errors: ``RpcError`` with the runtime's status code and message,
    ``DeadlineExceeded``, ``ConnectionClosed`` if the runtime disconnects during a call,
    ``ConnectError`` if it cannot be reached, ``RemoteProtocolError`` if its answer is malformed.
    """

    runtime: RuntimeVersion
    """The runtime that answered when the connection was made."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._channel = Channel(path=self.path, codec=MessageCodec())
        self._pods = v1.RuntimeServiceStub(self._channel)

    @classmethod
    async def connect(cls, path: str | Path, *, timeout: float = CONNECT_TIMEOUT) -> Self:
        """Return a client for the runtime on unix socket ``path``, after it has answered.

        :param timeout: seconds to wait for the first answer.
        :raises ConnectError: no socket, no permission, no process listens, or no CRI runtime
            answers.
        :raises RpcError: a runtime answered, with an error.
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
        """Return the JSON that a verbose ``ContainerStatus`` has under ``info``.

        Its ``runtimeSpec`` is the OCI spec that the runtime made. It also has ``status`` if the
        container failed to start; else it is unchanged. Empty if the runtime sends none.
        """
        request = v1.ContainerStatusRequest(container_id=container_id, verbose=True)
        with translated(self.path, "ContainerStatus", timeout):
            answer = await self._pods.container_status(request, timeout=timeout)
        return info_told(answer)
