# SPDX-License-Identifier: Apache-2.0
"""The CRI client, over gRPC on a runtime's unix socket, and its codec."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Self

from grpclib.client import Channel
from grpclib.const import Status
from grpclib.encoding.proto import ProtoCodec
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.exceptions import ProtocolError as GrpcProtocolError

from nri_scope._gen.cri.runtime import v1
from nri_scope.errors import (
    ConnectError,
    ConnectionClosed,
    DeadlineExceeded,
    RemoteProtocolError,
    RpcError,
)
from nri_scope.process.signals import root_hint

from .node_files import NodeFiles
from .status import RuntimeVersion, info_with_files, info_with_status

if TYPE_CHECKING:
    from grpclib._typing import IProtoMessage


_START = "start the runtime, or name its own socket, such as /run/containerd/containerd.sock"
_WHERE = "name the runtime's own socket, such as /run/containerd/containerd.sock"

_RESET = "Stream reset by remote party, "
"""Beginning of grpclib's message for a stream, rather than a connection, that the server ended."""
_AT_DEADLINE = 0.95
"""Fraction of the deadline after which a reset stream means that it has passed."""


@contextmanager
def translated(path: str, method: str, timeout: float) -> Iterator[None]:
    """Translate the errors of one call of ``method`` with a deadline of ``timeout`` seconds."""
    began = monotonic()
    try:
        yield
    except GRPCError as error:
        if error.status is Status.DEADLINE_EXCEEDED:
            raise DeadlineExceeded(method, timeout) from error
        raise RpcError(error.status.value, error.message or error.status.name) from error
    except TimeoutError as error:
        raise DeadlineExceeded(method, timeout) from error
    except StreamTerminatedError as error:
        if not str(error).startswith(_RESET):
            raise ConnectionClosed(f"{method}: the runtime closed the connection") from error
        # A server in Go resets the stream at the call's deadline, at the same time as this client
        # would (grpc-go, internal/transport/http2_server.go).
        if monotonic() - began > _AT_DEADLINE * timeout:
            raise DeadlineExceeded(method, timeout) from error
        problem = f"the runtime reset the call's stream: {str(error).removeprefix(_RESET)}"
        raise RpcError(Status.CANCELLED.value, problem) from error
    except ConnectionError as error:
        if isinstance(error, ConnectionRefusedError):
            raise _cannot_connect(path, error) from error
        raise ConnectionClosed(f"{method}: the runtime closed the connection") from error
    except GrpcProtocolError as error:
        raise RemoteProtocolError(f"{method}: {error}") from error
    except OSError as error:
        raise _cannot_connect(path, error) from error


@contextmanager
def first_contact(path: str, timeout: float) -> Iterator[None]:
    """Translate errors of the first call on a socket that mean "not a CRI runtime"."""
    try:
        yield
    except DeadlineExceeded as error:
        problem = f"accepts connections but no CRI runtime answered within {timeout:g} s"
        raise ConnectError(path, problem, _WHERE) from error
    except (ConnectionClosed, RemoteProtocolError) as error:
        raise ConnectError(
            path, "the process that listens there does not speak gRPC", _WHERE
        ) from error
    except RpcError as error:
        if error.code != Status.UNIMPLEMENTED.value:
            raise
        problem = "speaks gRPC but not CRI v1"
        hint = "is the CRI plugin among disabled_plugins in the runtime's configuration?"
        raise ConnectError(path, problem, hint) from error


def _cannot_connect(path: str, error: OSError) -> ConnectError:
    match error:
        case FileNotFoundError():
            return ConnectError(path, "no such socket", _START)
        case PermissionError():
            return ConnectError(path, "no permission to connect", root_hint("run as root"))
        case ConnectionRefusedError():
            problem = "no process listens there, or it is not a socket"
            return ConnectError(path, problem, _START)
        case _:
            return ConnectError(path, error.strerror or str(error), _WHERE)


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
        self._files = NodeFiles()

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

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    async def version(self, *, timeout: float = CALL_TIMEOUT) -> RuntimeVersion:
        with translated(self.path, "Version", timeout):
            answer = await self._pods.version(v1.VersionRequest(version="v1"), timeout=timeout)
        return RuntimeVersion(answer.runtime_name, answer.runtime_version)

    async def container_info(self, container_id: str, *, timeout: float = CALL_TIMEOUT) -> str:
        """Return the JSON text under "info" of a verbose ContainerStatus reply, "" if missing.

        Its "runtimeSpec" is the OCI spec that the runtime created. If the container failed to
        start, "status" is added to the JSON; "cgroup" and "bundleSpec" are added if this node has
        the container and this process may read its files, after the runtime's reply.
        """
        request = v1.ContainerStatusRequest(container_id=container_id, verbose=True)
        with translated(self.path, "ContainerStatus", timeout):
            answer = await self._pods.container_status(request, timeout=timeout)
        return info_with_files(info_with_status(answer), container_id, self._files)


class MessageCodec(ProtoCodec):
    """gRPC's ``proto`` codec."""

    def decode(self, data: bytes, message_type: type[IProtoMessage]) -> IProtoMessage:
        """Decode a message. Raises RemoteProtocolError if ``data`` is malformed."""
        try:
            return super().decode(data, message_type)
        # Malformed bytes make betterproto2 raise almost any exception, such as AttributeError.
        except Exception as error:
            name = message_type.__name__
            raise RemoteProtocolError(f"{name} cannot be decoded: {error!r}") from error
