# SPDX-License-Identifier: Apache-2.0
"""Run the agent: both servers, and the thread that reads the recordings."""

from __future__ import annotations

import asyncio
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
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pool
from grpclib.config import Configuration
from grpclib.health.service import Health
from grpclib.reflection.service import ServerReflection
from grpclib.server import Server

from nri_scope._gen.agent.google_proto_descriptor_pool import default_google_proto_descriptor_pool
from nri_scope.errors import NriScopeError, UsageError
from nri_scope.process.signals import stop_signals
from nri_scope.recording.file_errors import error_words
from nri_scope.share.redaction import Redactor, Rules, derive, local_key
from nri_scope.share.redaction.capture import RECORDER_LIMITS
from nri_scope.transport.loop import run

from .call_limits import REQUEST_MAX, limit_calls
from .http_server import AgentState, http_server
from .metrics import NodeMetrics
from .node_recordings import NodeRecordings
from .recorder_status import RecorderStatus
from .service import AgentService

Address = tuple[str, int]
UPDATE_S = 2.0
"""Seconds between two readings of the recordings for metrics."""
_PROTO = "agent/v1/agent.proto"
_STATE = ".agent"
"""Folder below the recordings for the key of redaction."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files for mutual TLS, in PEM."""

    certificate: Path
    key: Path
    client_ca: Path


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Options of an agent."""

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


def serve(options: AgentOptions, say: Callable[[str], None]) -> None:
    """Serve until a signal.

    ``say`` is called with messages for the user. Raises UsageError if an address cannot be used, or
    a file cannot be read.
    """
    recordings = NodeRecordings(options.folder)
    recordings.all()
    _protect_temporary_files()
    new_redactor = None if options.redact is None else _redactors(options.folder, options.redact)
    _allow_files()
    state = AgentState()
    status = RecorderStatus(recordings, options.node, redacts=new_redactor is not None)
    metrics = NodeMetrics(recordings, status, by_namespace=options.by_namespace)
    reading = _Reading(metrics, state, options.recorder)
    http = None if options.http is None else _http(options.http, metrics, state)
    # Its own status: each is used in one thread.
    service = AgentService(
        recordings,
        new_redactor,
        RecorderStatus(recordings, options.node, redacts=new_redactor is not None),
    )
    try:
        reading.start()
        if http is not None:
            threading.Thread(target=http.serve_forever, name="http", daemon=True).start()
        run(_serve_grpc(options, service, None if http is None else http.server_address, say))
    finally:
        if http is not None:
            http.shutdown()
            http.server_close()
        reading.stop()


def _redactors(folder: Path, rules: Rules) -> Callable[[], Redactor]:
    key = derive(local_key(folder / _STATE), b"agent")
    return lambda: Redactor(rules, key, memory=RECORDER_LIMITS)


async def _serve_grpc(
    options: AgentOptions,
    service: AgentService,
    http: tuple[Any, ...] | None,
    say: Callable[[str], None],
) -> None:
    pool = descriptor_pool.Default()
    file = default_google_proto_descriptor_pool.FindFileByName(_PROTO)
    pool.AddSerializedFile(file.serialized_pb)
    services = ServerReflection.extend([service, Health()])
    # One request fits, so that a client cannot make the server buffer more.
    config = Configuration(
        http2_connection_window_size=4 << 20, http2_stream_window_size=REQUEST_MAX
    )
    server = Server(services, config=config)
    limit_calls(server)
    stopped = asyncio.Event()
    context = None if options.tls is None else _tls(options.tls)
    family = socket.AF_INET6 if ":" in options.grpc[0] else socket.AF_INET
    try:
        listening = socket.create_server(options.grpc, family=family)
    except OSError as error:
        raise _unusable(options.grpc, error) from error
    address = listening.getsockname()
    await server.start(sock=listening, ssl=context)
    with stop_signals(
        lambda number, reason: stopped.set(),
        loop=asyncio.get_running_loop(),
        ignore_afterwards=True,
    ):
        say(
            f"serving {options.folder} on {_written(address)}"
            + ("" if http is None else f", metrics on {_written(http)}")
        )
        await stopped.wait()
    server.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(5):
            await server.wait_closed()


def _tls(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    for path, load in (
        (files.certificate, partial(context.load_cert_chain, files.certificate, files.key)),
        (files.client_ca, partial(context.load_verify_locations, files.client_ca)),
    ):
        try:
            load()
        except ssl.SSLError as error:
            raise UsageError(
                f"{path}: not usable for TLS: {error.reason or error}", "give files in PEM"
            ) from error
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error_words(error)}") from error
    return context


def _http(address: Address, metrics: NodeMetrics, state: AgentState) -> ThreadingHTTPServer:
    try:
        return http_server(address, metrics.registry, state)
    except OSError as error:
        raise _unusable(address, error) from error


def _unusable(address: Address, error: OSError) -> UsageError:
    return UsageError(f"{_written(address)}: cannot listen: {error_words(error)}")


def _written(address: tuple[Any, ...]) -> str:
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


class _Reading:
    """Thread that updates the metrics and the state."""

    def __init__(self, metrics: NodeMetrics, state: AgentState, recorder: str) -> None:
        self._metrics = metrics
        self._state = state
        self._recorder = recorder
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                status = self._metrics.update()
            except NriScopeError as error:
                self._state.update(str(error), "")
            else:
                named = [
                    one
                    for one in status.recordings
                    if not self._recorder or one.recording == self._recorder
                ]
                ready = any(one.synchronized for one in named)
                self._state.update("", "" if ready else "no recorder is synchronised")
            self._stopped.wait(UPDATE_S)
