# SPDX-License-Identifier: Apache-2.0
"""Metrics of a runtime with NRI plugins, served by HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

REAL = Path(__file__).parents[1] / "data/metrics/containerd-2.4.2.txt"
OURS = "00-nri-scope"


class Metrics:
    """Counters of calls of two plugins, served by HTTP."""

    def __init__(self) -> None:
        self.calls = self.read = 0
        self.text = REAL.read_text()

    def body(self) -> bytes:
        lines = [self.text.rstrip("\n")]
        for plugin, calls, took_s in ((OURS, self.calls, 0.001), ("50-other", self.calls, 0.004)):
            labels = f'operation="StartContainer",plugin="{plugin}"'
            lines += [
                "containerd_nri_plugin_invocations_total"
                f'{{error="",{labels},status="success"}} {3 + calls}',
                f"containerd_nri_plugin_latency_seconds_sum{{{labels}}} {3 + calls * took_s}",
                f"containerd_nri_plugin_latency_seconds_count{{{labels}}} {3 + calls}",
            ]
        self.read += 1
        return "\n".join([*lines, ""]).encode()


@contextmanager
def served(metrics: Metrics) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(metrics.body())

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/metrics"
        finally:
            server.shutdown()
            thread.join()
