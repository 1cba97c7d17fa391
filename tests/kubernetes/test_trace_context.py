# SPDX-License-Identifier: Apache-2.0
"""Trace context of a real containerd, compared with the spans that it exports itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.tap_tables import tapped
from nri_scope.wire.ttrpc import trace_context
from tests.runtime.testbed import mount_namespace
from tests.runtime.testbed.containerd import running
from tests.runtime.testbed.driver import Driver
from tests.runtime.testbed.packages import check_machine
from tests.runtime.testbed.record import nri_scope, recording, rows
from tests.share.formats.recordings import exported

from .programs import newest_containerd

pytestmark = pytest.mark.kubernetes


@contextmanager
def collector() -> Iterator[tuple[str, list[Span]]]:
    """Serve OTLP/HTTP; yield the endpoint and the received spans."""
    spans: list[Span] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received = ExportTraceServiceRequest.FromString(body)
            for of_resource in received.resource_spans:
                for of_scope in of_resource.scope_spans:
                    spans.extend(of_scope.spans)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", spans
        finally:
            server.shutdown()
            thread.join()


async def recorded(file: Path, environment: dict[str, str]) -> None:
    """Record the life of a pod; containerd has then ended."""
    check_machine()
    mount_namespace.enter()
    async with running(newest_containerd(), environment=environment) as containerd:
        async with recording(file, containerd) as record:
            await Driver(containerd).live("shop", "web")
            assert await record.end() == 0
        await containerd.stop()


async def test_every_event_links_to_a_span_that_containerd_exports(tmp_path: Path) -> None:
    file = tmp_path / "r.nriscope.db"
    with collector() as (endpoint, spans):
        await recorded(file, {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
    exported_spans = {(span.trace_id.hex(), span.span_id.hex()): span for span in spans}
    contexts = {}
    with Recording.open(file) as opened:
        events = list(opened.events())
        for event in events:
            (known,) = tapped(opened, [event.id])
            context = trace_context(known.metadata)
            assert context is not None, known
            contexts[event.id] = context
            span = exported_spans[context.trace_id, context.span_id]
            assert span.kind == Span.SPAN_KIND_CLIENT
            assert span.name == f"nri.pkg.api.v1alpha1.Plugin/{event.method}"
    assert len(events) > 10
    assert len(set(contexts.values())) == len(events)

    links = {}
    for line in exported(file, "otlp-json").splitlines():
        for of_resource in json.loads(line)["resourceSpans"]:
            for exported_span in of_resource["scopeSpans"][0]["spans"]:
                for link in exported_span.get("links", ()):
                    (number,) = (
                        int(one["value"]["intValue"])
                        for one in exported_span["attributes"]
                        if one["key"] == "nri.event.id"
                    )
                    links[number] = (link["traceId"], link["spanId"])
    assert links == {number: (one.trace_id, one.span_id) for number, one in contexts.items()}

    shown = json.loads(await nri_scope("show", file, "3", "--format", "json"))
    assert shown["metadata"][0]["traceparent"].split("-")[1] == contexts[3].trace_id


async def test_without_tracing_nothing_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "r.nriscope.db"
    await recorded(file, {})
    assert rows(file, "SELECT count(*) > 10 FROM event") == [(1,)]
    assert rows(file, "SELECT count(*) FROM request_metadata") == [(0,)]
