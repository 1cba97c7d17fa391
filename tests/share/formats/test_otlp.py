# SPDX-License-Identifier: Apache-2.0
"""OTLP/JSON output, parsed with the official definitions and the rules of OTLP/JSON."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, SpanFlags, Status, TracesData

from nri_scope.recording.query import lifetimes
from tests.recording.traffic import NOW, an_item, lifecycles, record
from tests.share.formats.recordings import (
    BEGIN,
    CONTAINER,
    END,
    POD,
    SAMPLES,
    SECOND,
    TRACE_CONTEXT,
    exported,
    hostile,
    varied,
)

_IDS = ("traceId", "spanId", "parentSpanId")
_NUMBERS = ("startTimeUnixNano", "endTimeUnixNano", "intValue")


def _to_protobuf_json(value: Any) -> Any:
    """Encode ids in base64; fail for JSON that protobuf allows and OTLP forbids."""
    if isinstance(value, list):
        return [_to_protobuf_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    read = {}
    for key, item in value.items():
        if key in _IDS:
            assert len(item) == (32 if key == "traceId" else 16)
            read[key] = base64.b64encode(bytes.fromhex(item)).decode()
        elif key in _NUMBERS:
            assert isinstance(item, str) and str(int(item)) == item
            read[key] = item
        else:
            if key in ("kind", "code"):
                assert isinstance(item, int)
            read[key] = _to_protobuf_json(item)
    return read


def _data(content: bytes) -> list[TracesData]:
    return [
        json_format.ParseDict(_to_protobuf_json(json.loads(line)), TracesData())
        for line in content.splitlines()
    ]


def _spans(content: bytes) -> list[Span]:
    return [
        span
        for data in _data(content)
        for of_resource in data.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    assert kind is not None
    if kind == "array_value":
        return [item.string_value for item in value.array_value.values]
    return getattr(value, kind)


def _attributes(attributes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    pair: KeyValue
    for pair in attributes:
        assert pair.key not in values
        values[pair.key] = _value(pair.value)
    return values


@pytest.fixture
def spans(tmp_path: Path) -> list[Span]:
    return _spans(exported(varied(tmp_path / "r.db"), "otlp-json"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_spans_are_within_their_parents(sample: Path) -> None:
    spans = _spans(exported(sample, "otlp-json"))
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        if span.parent_span_id:
            parent = by_id[span.parent_span_id]
            assert parent.trace_id == span.trace_id
            if not span.name.startswith(("RegisterPlugin", "Configure", "Synchronize")):
                assert parent.start_time_unix_nano <= span.start_time_unix_nano
                assert parent.end_time_unix_nano >= span.end_time_unix_nano
    roots = Counter(span.trace_id for span in spans if not span.parent_span_id)
    assert set(roots.values()) == {1}


def test_a_pod_is_one_trace(spans: list[Span]) -> None:
    (pod,) = (span for span in spans if span.name == "pod shop/web-1")
    trace = [span for span in spans if span.trace_id == pod.trace_id]
    (container,) = (span for span in trace if span.name == "container app-0")
    assert container.parent_span_id == pod.span_id
    of_pod = [span.name for span in trace if span.parent_span_id == pod.span_id]
    of_container = [span.name for span in trace if span.parent_span_id == container.span_id]
    assert Counter(of_pod) == {
        "container app-0": 1, "RunPodSandbox": 2, "StopPodSandbox": 2, "RemovePodSandbox": 2,
    }  # fmt: skip
    assert len(of_container) == 8 * 2 + 1
    attributes = _attributes(pod.attributes)
    assert attributes["k8s.namespace.name"] == "shop" and attributes["k8s.pod.name"] == "web-1"
    assert len(attributes["k8s.pod.uid"]) == 32 and attributes["nri.pod.id"] == POD
    assert attributes["nri.life.start_observed"] is attributes["nri.life.end_observed"] is True
    assert pod.start_time_unix_nano == BEGIN


def test_an_event_is_a_call_of_its_plugin(spans: list[Span]) -> None:
    failed, *others = (span for span in spans if span.HasField("status"))
    assert not others
    assert failed.name == "PostStartContainer" and failed.kind == Span.SPAN_KIND_SERVER
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert failed.status.message == "too late"
    assert failed.end_time_unix_nano - failed.start_time_unix_nano == 33_000
    assert _attributes(failed.attributes) == {
        "rpc.system.name": "ttrpc",
        "rpc.method": "nri.pkg.api.v1alpha1.Plugin/StateChange",
        "rpc.status_code": "DEADLINE_EXCEEDED",
        "error.type": "DEADLINE_EXCEEDED",
        "k8s.namespace.name": "shop",
        "k8s.pod.name": "web-1",
        "k8s.container.name": "app-0",
        "container.id": CONTAINER,
        "nri.pod.id": POD,
        "nri.event.name": "PostStartContainer",
        "nri.event.id": 10,
        "nri.session.id": 2,
        "nri.plugin.name": "second",
        "nri.plugin.index": "90",
        "nri.session.role": "logger",
        "nri.request.size": _attributes(failed.attributes)["nri.request.size"],
        "nri.request.timeout_ms": 1999,
    }


def test_an_event_links_to_the_span_of_the_runtime(spans: list[Span]) -> None:
    (linked,) = (span for span in spans if span.links)
    assert _attributes(linked.attributes)["nri.event.id"] == 8
    (link,) = linked.links
    assert link.trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert link.span_id.hex() == "00f067aa0ba902b7"
    assert link.trace_state == "congo=t61rcWkgMzE"
    remote = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
    assert link.flags == 1 | remote | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
    # The event belongs to the pod's trace as any other.
    (pod,) = (span for span in spans if span.name == "pod shop/web-1")
    assert linked.trace_id == pod.trace_id != link.trace_id


def test_invalid_trace_context_gives_no_link(tmp_path: Path) -> None:
    parent, state = (dict([one]) for one in TRACE_CONTEXT)
    values = ["", parent["traceparent"].upper(), f"00-{'0' * 32}-00f067aa0ba902b7-01", "x" * 9_000]
    items = [
        an_item()._replace(metadata=(("traceparent", value), *state.items())) for value in values
    ]
    record(tmp_path / "r.db", [*items, an_item()._replace(metadata=(*state.items(),))])
    spans = _spans(exported(tmp_path / "r.db", "otlp-json"))
    assert len(spans) > len(items) and not any(span.links for span in spans)


def test_an_answer_of_the_cri_is_a_client_call(spans: list[Span]) -> None:
    (call,) = (span for span in spans if span.kind == Span.SPAN_KIND_CLIENT)
    attributes = _attributes(call.attributes)
    assert attributes["rpc.system.name"] == "grpc"
    assert attributes["rpc.method"] == "runtime.v1.RuntimeService/ContainerStatus"


def test_a_connection_is_a_trace_with_its_gaps(spans: list[Span]) -> None:
    first, second, cri = (span for span in spans if span.name.startswith("plugin connection"))
    assert (first.start_time_unix_nano, first.end_time_unix_nano) == (NOW, END + SECOND)
    assert _attributes(first.attributes)["nri.session.end_reason"] == "shut down"
    # A session without an end lasts at least until its last event.
    assert _attributes(second.attributes)["nri.session.end_observed"] is False
    assert cri.name == "plugin connection cri"
    of_second, of_all = (span for span in spans if span.name == "gap: not observed")
    assert of_second.parent_span_id == second.span_id
    assert _attributes(of_second.attributes) == {
        "nri.gap.reason": "the queue was full",
        "nri.gap.lost": 7,
    }
    assert not of_all.parent_span_id
    (shutdown,) = (span for span in spans if span.name == "Shutdown")
    assert shutdown.parent_span_id == first.span_id


def test_the_resource_describes_the_runtime(tmp_path: Path) -> None:
    (data,) = _data(exported(varied(tmp_path / "r.db"), "otlp-json"))
    runtime, unknown = (_attributes(found.resource.attributes) for found in data.resource_spans)
    assert runtime == {
        "service.name": "containerd",
        "service.version": "1.7.24",
        "container.runtime.name": "containerd",
        "container.runtime.version": "1.7.24",
        "nri.version": "0.6.1",
        "nri.version_inferred": True,
    }
    assert unknown == {"service.name": "unknown_service"}
    assert {found.scope_spans[0].scope.name for found in data.resource_spans} == {"nri-scope"}


def test_the_same_pod_has_the_same_trace_in_every_recording(tmp_path: Path) -> None:
    def trace(name: str, first: int) -> bytes:
        path = tmp_path / name
        record(path, lifecycles(3, first))
        spans = _spans(exported(path, "otlp-json"))
        return next(span.trace_id for span in spans if span.name == "pod shop/web-2")

    assert trace("one.db", 0) == trace("other.db", 2)


def test_ended_pods_are_written_once_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifetimes, "SETTLE_EVENTS", 3)
    path = tmp_path / "r.db"
    items = lifecycles(3)
    # One event arrives after its container was written.
    record(path, [*items, items[5]])
    spans = _spans(exported(path, "otlp-json"))
    names = Counter(span.name for span in spans if " " in span.name)
    assert names == {
        **{f"pod shop/web-{number}": 1 for number in range(3)},
        "container app-0": 3,
        "plugin connection 00-nri-scope": 1,
    }
    at = [span.name for span in spans].index
    assert at("pod shop/web-0") < at("pod shop/web-1") < len(spans) - 4
    late = next(reversed([span for span in spans if span.name == "UpdateContainer"]))
    assert late.trace_id == spans[at("pod shop/web-0")].trace_id


def test_lines_are_short(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    record(path, lifecycles(100))
    lines = exported(path, "otlp-json").splitlines()
    assert len(lines) > 3
    # The OpenTelemetry collector's default limit.
    assert max(map(len, lines)) < 1 << 20


def test_a_hostile_recording_gives_valid_traces(tmp_path: Path) -> None:
    path = hostile(tmp_path / "r.db")
    assert exported(path, "otlp-json").isascii()
    content = exported(path, "otlp-json", outcomes=False)
    assert content.isascii()
    spans = _spans(content)
    requested = [_attributes(span.attributes).get("nri.requested") for span in spans]
    assert ["/process/env/\\ud800\0", "\x1b[2J"] in requested
    assert max(len(span.name) for span in spans) < 5_000
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
