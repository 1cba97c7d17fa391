# SPDX-License-Identifier: Apache-2.0
"""Run the agent: both servers, and the threads that read the recordings."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import ssl
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from time import monotonic
from typing import Any

import betterproto2
from google.protobuf import descriptor_pool
from google.protobuf.message_factory import GetMessageClass
from grpclib.config import Configuration
from grpclib.encoding.proto import ProtoCodec
from grpclib.health.service import OVERALL, Health
from grpclib.reflection.service import ServerReflection
from grpclib.server import Server

from nri_scope._gen.agent.google_proto_descriptor_pool import default_google_proto_descriptor_pool
from nri_scope.errors import NriScopeError, UsageError
from nri_scope.process.signals import stop_signals
from nri_scope.recording.file.file_errors import error_words
from nri_scope.share.redaction import Redactor, Rules, derive, local_key
from nri_scope.transport.loop import run

from .authorization import READ_REDACTED, READ_UNREDACTED, ApiServer, Authorizer
from .call_limits import REQUEST_MAX, limit_calls
from .http_server import CONNECTIONS_MAX as HTTP_CONNECTIONS_MAX
from .http_server import AgentState, HttpConnection
from .listener import Listener
from .metrics import NodeMetrics
from .node_recordings import STATE, FolderError, NodeRecordings
from .recorder_status import RecorderStatus
from .service import AgentService

Address = tuple[str, int]
CONNECTIONS_MAX = 512
"""Maximum number of connections to the gRPC service; a new one replaces the oldest without calls.
"""
UPDATE_S = 2.0
"""Seconds between two readings of the recordings."""
_PROTO = "agent/v1/agent.proto"
_WINDOW = 1 << 20
"""Bytes of requests of all calls of a connection that may wait."""
_FRAME_MAX = (16 << 10) + 9
"""Maximum number of bytes of a frame with its header, as announced by HTTP/2's defaults."""
_HEADERS_MAX = 64 << 10
_BACKLOG = 128
_LOG_S = 60.0
"""Minimum number of seconds between two messages of libraries."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files for mutual TLS, in PEM."""

    certificate: Path
    key: Path
    client_ca: Path


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What an agent serves, and at which addresses."""

    folder: Path
    grpc: Address
    http: Address | None
    node: str = ""
    redact: Rules | None = None
    """None: events are sent as recorded."""
    recorder: str = ""
    """Name of the recording whose recorder must be synchronised; "" for any."""
    by_namespace: bool = False
    tls: TlsFiles | None = None
    authorize: bool = False
    """Whether the API server is asked about each caller."""


def serve(options: AgentOptions, say: Callable[[str], None]) -> None:
    """Serve until a signal.

    ``say`` is called with messages for the user. Raises UsageError if an address cannot be used, or
    a file cannot be read.
    """
    recordings = NodeRecordings(options.folder)
    try:
        recordings.all()
    except FolderError as error:
        raise UsageError(str(error)) from error
    _protect_temporary_files()
    new_redactor = None if options.redact is None else _redactors(options.folder, options.redact)
    _allow_files()
    _limit_log()
    state = AgentState()
    # Each is used by one thread at a time.
    of_status, of_metrics = (None if new_redactor is None else new_redactor() for _ in range(2))
    status = RecorderStatus(recordings, options.node, of_status)
    metrics = NodeMetrics(recordings, status, of_metrics, by_namespace=options.by_namespace)
    service = AgentService(recordings, new_redactor, status)
    authorizer = None
    if options.authorize:
        permission = READ_REDACTED if new_redactor else READ_UNREDACTED
        authorizer = Authorizer(ApiServer(), permission)
    stopped = threading.Event()
    reading = threading.Thread(
        target=_keep_reading,
        args=(metrics, state, options.recorder, stopped),
        name="metrics",
        daemon=True,
    )
    reading.start()
    try:
        new_http = partial(HttpConnection, metrics.registry, state)
        run(_serve(options, service, new_http, say, authorizer))
    finally:
        stopped.set()
        reading.join(5)


def _redactors(folder: Path, rules: Rules) -> Callable[[], Redactor]:
    key = derive(local_key(folder / STATE), b"agent")
    return lambda: Redactor(rules, key)


async def _serve(
    options: AgentOptions,
    service: AgentService,
    new_http: Callable[[], HttpConnection],
    say: Callable[[str], None],
    authorizer: Authorizer | None = None,
) -> None:
    pool = descriptor_pool.Default()
    file = default_google_proto_descriptor_pool.FindFileByName(_PROTO)
    pool.AddSerializedFile(file.serialized_pb)
    services = ServerReflection.extend([service, Health({service: [], OVERALL: []})])
    # One request fits, so that a client cannot make the server buffer more.
    config = Configuration(
        http2_connection_window_size=_WINDOW, http2_stream_window_size=REQUEST_MAX
    )
    server = Server(services, codec=Codec(), config=config)
    limit_calls(server, authorizer)
    context = None if options.tls is None else _tls(options.tls)
    grpc = _listening(options.grpc)
    listeners = [Listener(grpc, partial(_GrpcConnection, server), CONNECTIONS_MAX, context)]
    text = f"serving {options.folder} on {_address_text(grpc.getsockname())}"
    if options.http is not None:
        http = _listening(options.http)
        listeners.append(Listener(http, new_http, HTTP_CONNECTIONS_MAX))
        text += f", metrics on {_address_text(http.getsockname())}"
    stopped = asyncio.Event()
    with stop_signals(
        lambda number, reason: stopped.set(),
        loop=asyncio.get_running_loop(),
        ignore_afterwards=True,
    ):
        serving = [*(listener.serve() for listener in listeners), stopped.wait()]
        tasks: list[asyncio.Task[object]] = list(map(asyncio.create_task, serving))
        say(text)
        ended, running = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        for task in ended:
            # An agent that no longer listens must end, to be started again.
            task.result()


class Codec(ProtoCodec):
    """gRPC's ``proto`` codec, with messages encoded by protobuf: betterproto2 takes ten times as
    long, which was a third of the time for an event.
    """

    def encode(self, message: Any, message_type: Any) -> bytes:
        """Return the bytes of a message."""
        if isinstance(message, betterproto2.Message):
            # A damaged recording may have numbers that do not fit; betterproto2 truncates them.
            with suppress(ValueError):
                encoded = _protobuf_class(message_type)(**_plain(message))
                return bytes(encoded.SerializeToString())
        return super().encode(message, message_type)


@cache
def _protobuf_class(kind: Any) -> Any:
    return GetMessageClass(kind.DESCRIPTOR)


def _plain(value: Any) -> Any:
    """Return messages, also in a list, as dictionaries of their fields."""
    if isinstance(value, betterproto2.Message):
        return {name: _plain(one) for name, one in vars(value).items() if name[0] != "_"}
    return list(map(_plain, value)) if isinstance(value, list) else value


class _GrpcConnection:
    """Connection of a gRPC client."""

    def __init__(self, server: Server) -> None:
        # grpclib has no public way to serve a connection that was accepted by other code.
        self.protocol = server._protocol_factory()

    @property
    def is_idle(self) -> bool:
        """Whether it has no calls."""
        return not self.protocol.processor.streams

    @property
    def is_overlong(self) -> bool:
        """Whether an incomplete frame or header is too long; h2 checks them when complete."""
        buffer = self.protocol.connection._connection.incoming_buffer
        headers = sum(len(frame.data) for frame in buffer._headers_buffer)
        return len(buffer._data) > _FRAME_MAX or headers > _HEADERS_MAX


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        return socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        # The error's own text repeats the address.
        words = os.strerror(error.errno).lower() if error.errno else error_words(error)
        raise UsageError(f"{_address_text(address)}: cannot listen: {words}") from error


def _tls(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    for path in (files.certificate, files.key, files.client_ca):
        try:
            path.open("rb").close()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error_words(error)}") from error
    for path, load in (
        (files.certificate, partial(context.load_cert_chain, files.certificate, files.key)),
        (files.client_ca, partial(context.load_verify_locations, files.client_ca)),
    ):
        try:
            load()
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise UsageError(
                    f"{files.key}: not the private key of {files.certificate}",
                    "give files that belong together",
                ) from error
            raise UsageError(
                f"{path}: not usable for TLS: {error.reason or error}", "give files in PEM"
            ) from error
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error_words(error)}") from error
    return context


def _address_text(address: tuple[Any, ...]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _protect_temporary_files() -> None:
    """Set the sticky bit of a volume for temporary files, which the kubelet makes without it.

    Without the bit, other users could replace files there, and recordings would be refused.
    """
    folder = Path(tempfile.gettempdir())
    with suppress(OSError):
        status = folder.stat()
        is_own = folder.is_mount() and status.st_uid == os.geteuid()
        if is_own and status.st_mode & stat.S_IWOTH:
            folder.chmod(stat.S_IMODE(status.st_mode) | stat.S_ISVTX)


def _allow_files() -> None:
    """Allow as many open files as possible: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65_536)), hard))


def _limit_log() -> None:
    """Print few of the errors that clients can cause in grpclib and asyncio."""

    class Limit(logging.Filter):
        next_at = 0.0

        def filter(self, record: logging.LogRecord) -> bool:
            now = monotonic()
            if now < self.next_at:
                return False
            self.next_at = now + _LOG_S
            return True

    handler = logging.StreamHandler()
    handler.setLevel(logging.ERROR)
    handler.addFilter(Limit())
    for name in ("grpclib", "asyncio"):
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).propagate = False


def _keep_reading(
    metrics: NodeMetrics, state: AgentState, recorder: str, stopped: threading.Event
) -> None:
    """Update the metrics and the state every `UPDATE_S` seconds."""
    while not stopped.is_set():
        try:
            status = metrics.update()
        except NriScopeError as error:
            state.update(str(error), "")
        else:
            named = [one for one in status.recordings if not recorder or one.recording == recorder]
            ready = any(recording.synchronized for recording in named)
            trouble = next((recording.trouble for recording in named if recording.trouble), "")
            state.update("", "" if ready else trouble or "no recorder is synchronised")
        stopped.wait(UPDATE_S)
