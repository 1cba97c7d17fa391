# SPDX-License-Identifier: Apache-2.0
"""Translate exceptions of grpclib and the system to nri-scope's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.exceptions import ProtocolError as GrpcProtocolError

from nri_scope.errors import (
    ConnectError,
    ConnectionClosed,
    DeadlineExceeded,
    RemoteProtocolError,
    RpcError,
)

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
            return ConnectError(path, "no permission to connect", "run as root")
        case ConnectionRefusedError():
            problem = "no process listens there, or it is not a socket"
            return ConnectError(path, problem, _START)
        case _:
            return ConnectError(path, error.strerror or str(error), _WHERE)
