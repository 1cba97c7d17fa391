# SPDX-License-Identifier: Apache-2.0
"""HTTP: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz`` for the kubelet."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, socket
from time import monotonic

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

CONNECTIONS_MAX = 32
"""Maximum number of concurrent connections; more wait in the kernel's queue or are refused."""
TIMEOUT_S = 10.0
"""Seconds after which an idle connection is closed."""
STALE_S = 30.0
"""Seconds without an update of the metrics after which the agent is not healthy."""


class AgentState:
    """What the HTTP server answers, set by the thread that reads the recordings."""

    def __init__(self) -> None:
        self._updated = monotonic()
        self._problem = "the recordings have not been read yet"
        self._not_ready = self._problem

    def update(self, problem: str, not_ready: str) -> None:
        """Set why the recordings cannot be read, and why the recorder is not ready; "" for none."""
        self._updated = monotonic()
        self._problem, self._not_ready = problem, not_ready

    @property
    def unhealthy(self) -> str:
        """Why the agent does not work; "" if it does."""
        age = monotonic() - self._updated
        return f"the recordings were last read {age:.0f} s ago" if age > STALE_S else ""

    @property
    def not_ready(self) -> str:
        """Why the recorder is not synchronised with the runtime; "" if it is."""
        return self.unhealthy or self._problem or self._not_ready


def http_server(
    address: tuple[str, int], registry: CollectorRegistry, state: AgentState
) -> ThreadingHTTPServer:
    """Return a server that listens. Raises OSError."""

    class Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_S
        server_version = "nri-scope"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                encode, kind = choose_encoder(self.headers.get("Accept") or "")
                self._answer(200, kind, encode(registry))
            elif path in ("/healthz", "/readyz"):
                problem = state.unhealthy if path == "/healthz" else state.not_ready
                text = f"{problem or 'ok'}\n".encode()
                self._answer(503 if problem else 200, "text/plain; charset=utf-8", text)
            else:
                self._answer(404, "text/plain; charset=utf-8", b"not found\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return _Server(address, Handler)


class _Server(ThreadingHTTPServer):
    """HTTP server with a limited number of threads."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        self._slots = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(address, handler)

    def process_request(
        self, request: socket | tuple[bytes, socket], client_address: object
    ) -> None:
        """Answer in a thread, if there are not too many."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(
        self, request: socket | tuple[bytes, socket], client_address: object
    ) -> None:
        """Answer one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that go away."""
