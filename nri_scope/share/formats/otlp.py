# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry traces: each pod is a trace, its containers and events are spans.

Data without a pod (Configure, Synchronize, gaps) is in the trace of its plugin connection. Ids are
derived from their subject: the same pod has the same trace id in every recording.

If the runtime sent trace context with an event, the event's span has a link to the runtime's span.
It is not a child of it: a pod's events belong to many requests of the kubelet, each with a trace of
its own, and the runtime's spans are exported elsewhere, or not at all if they were not sampled.

The span of a pod, container or connection is written once its end is known, after the spans of its
events.

JSON is by the OpenTelemetry protocol specification, "JSON Protobuf Encoding", and
opentelemetry-proto: ids are hexadecimal, not base64, enums are numbers, keys are in lowerCamelCase,
and 64-bit integers are decimal strings. Files are JSON lines of ``TracesData`` ("OpenTelemetry
Protocol File Exporter").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b
from typing import IO

from nri_scope import __version__
from nri_scope.events import CRI_SERVICE, Event, Gap, Session
from nri_scope.nri import v01
from nri_scope.nri.events import METHODS, EventStage
from nri_scope.nri.plain import Plain
from nri_scope.nri.request_subject import is_plugins_call
from nri_scope.recording.file.sqlite_text import HIGHEST, LOWEST
from nri_scope.recording.query.lifetimes import Lifetime, Lifetimes
from nri_scope.recording.reading.event_messages import is_container_status
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.records import deadline_ms
from nri_scope.recording.reading.sqlite_errors import query_rows
from nri_scope.wire.ttrpc import Code, TraceContext, trace_context

from .exported_part import ExportedPart, json_line, requests_of

SCHEMA_URL = "https://opentelemetry.io/schemas/1.45.0"
"""Schema of the semantic conventions that define the attribute names."""

MAX_TEXT = 4_096
"""Maximum number of characters of a value; longer values are cut and end with ``…``."""
MAX_ITEMS = 128
"""Maximum number of items of a list; longer lists are cut and end with ``…``."""

# Collectors read lines of up to 1 MiB by default.
_LINE_BYTES = 256 << 10
_MAX_TIME_NS = (1 << 64) - 1
_CUT = "…"

Value = str | int | bool | tuple[str, ...]
"""Types of an attribute."""


class SpanKind(IntEnum):
    """The enum ``opentelemetry.proto.trace.v1.Span.SpanKind``."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3


_STATUS_ERROR = 2
_IS_REMOTE = 0x300
"""The bits of ``SpanFlags`` that tell that a link's span is of another process."""


def trace_id(*subject: str | int) -> str:
    """Return the deterministic id of the trace of a subject: 16 bytes in hexadecimal."""
    return _digest(16, "trace", *subject)


def span_id(*subject: str | int) -> str:
    """Return the deterministic id of the span of a subject: 8 bytes in hexadecimal."""
    return _digest(8, "span", *subject)


def _digest(size: int, *subject: str | int) -> str:
    # The lengths ensure that different subjects give different keys.
    key = "".join(f"{len(text)}:{text}" for text in map(str, subject))
    return blake2b(key.encode("utf-8", "backslashreplace"), digest_size=size).hexdigest()


@dataclass(frozen=True, slots=True)
class OtlpSpan:
    """A span. Times are wall clock times in nanoseconds."""

    trace: str
    id: str
    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Value]
    """Attributes of the span. The values "" and () are not written."""
    parent: str = ""
    """The parent's span id; "" for the root of a trace."""
    kind: SpanKind = SpanKind.INTERNAL
    error: str | None = None
    """The error message; None for success."""
    link: TraceContext | None = None
    """A related span of another trace."""


def span_text(span: OtlpSpan) -> str:
    """Return a span as JSON."""
    start_ns = _time(span.start_ns)
    document: dict[str, Plain] = {"traceId": span.trace, "spanId": span.id}
    if span.parent:
        document["parentSpanId"] = span.parent
    document |= {
        "name": _clipped(span.name),
        "kind": int(span.kind),
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(max(start_ns, _time(span.end_ns))),
        "attributes": attributes(span.attributes),
    }
    if span.link is not None:
        document["links"] = [_link(span.link)]
    if span.error is not None:
        document["status"] = {"code": _STATUS_ERROR, "message": _clipped(span.error)}
    return json_line(document)


def _link(other: TraceContext) -> Plain:
    link: dict[str, Plain] = {"traceId": other.trace_id, "spanId": other.span_id}
    if other.state:
        link["traceState"] = other.state
    return {**link, "flags": other.flags | _IS_REMOTE}


def attributes(values: dict[str, Value]) -> list[Plain]:
    """Return attributes as a list of OTLP KeyValue objects."""
    return [
        {"key": key, "value": _any_value(value)}
        for key, value in values.items()
        if value not in ("", ())
    ]


def _any_value(value: Value) -> Plain:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(min(max(value, LOWEST), HIGHEST))}
        case str():
            return {"stringValue": _clipped(value)}
        case _:
            items = value if len(value) <= MAX_ITEMS else (*value[:MAX_ITEMS], _CUT)
            return {"arrayValue": {"values": [{"stringValue": _clipped(item)} for item in items]}}


def _clipped(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + _CUT


def _time(at_ns: int) -> int:
    return min(max(at_ns, 0), _MAX_TIME_NS)


@dataclass(slots=True)
class SpanBuffer:
    """Buffer of spans, which writes lines of spans grouped by resource."""

    stream: IO[bytes]
    _spans: dict[str, list[str]] = field(default_factory=dict)
    _size: int = 0

    def put(self, resource: str, span: OtlpSpan) -> None:
        """Add a span; ``resource`` is the result of `resource_text`."""
        text = span_text(span)
        self._spans.setdefault(resource, []).append(text)
        self._size += len(text)
        if self._size > _LINE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered spans as one line."""
        if not self._spans:
            return
        parts = [
            f'{{"resource": {resource}, "scopeSpans": [{{"scope": {_SCOPE}, '
            f'"spans": [{", ".join(spans)}], "schemaUrl": "{SCHEMA_URL}"}}], '
            f'"schemaUrl": "{SCHEMA_URL}"}}'
            for resource, spans in self._spans.items()
        ]
        self.stream.write(f'{{"resourceSpans": [{", ".join(parts)}]}}\n'.encode())
        self._spans.clear()
        self._size = 0


def resource_text(values: dict[str, Value]) -> str:
    """Return an OTLP Resource with these attributes as JSON."""
    return json_line({"attributes": attributes(values)})


_SCOPE = json_line({"name": "nri-scope", "version": __version__})


_CODES = frozenset(Code)


def write(recording: Recording, numbers: Iterable[int] | None, stream: IO[bytes]) -> int:
    """Write lines of OTLP/JSON, without the events' messages; see `formats.Write`."""
    excerpt = ExportedPart(recording, numbers)
    sessions = {session.id: session for session in recording.sessions()}
    traces = _Traces(recording, SpanBuffer(stream), sessions)
    taps = excerpt.taps()
    count = 0
    for event in excerpt.events():
        observed = taps.of(event.id)
        traces.event(event, trace_context(observed.metadata) if observed else None)
        count += 1
    for gap in excerpt.gaps():
        traces.gap(gap)
    traces.finish()
    return count


@dataclass(slots=True)
class _Traces:
    recording: Recording
    lines: SpanBuffer
    sessions: dict[int, Session]
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    connections: dict[int, int] = field(default_factory=dict)
    """Time of the last reply of each session, in ns."""
    resources: dict[int, str] = field(default_factory=dict)

    def event(self, event: Event, link: TraceContext | None) -> None:
        trace, parent = self._place(event)
        end_ns = event.at_ns + event.took_ns
        self.connections[event.session] = max(self.connections.get(event.session, end_ns), end_ns)
        about_cri = is_container_status(event)
        is_client = about_cri or is_plugins_call(event.method, event.mark)
        is_v01 = v01.is_invocation(event.method, event.mark)
        service = CRI_SERVICE if about_cri else _service(event.method)
        code = event.status_code
        code_name = Code(code).name if code in _CODES else str(code)
        session = self.sessions.get(event.session)
        attributes: dict[str, Value] = {
            "rpc.system.name": "" if is_v01 else "grpc" if about_cri else "ttrpc",
            "rpc.method": f"{service}/{event.method}" if service else event.method,
            "rpc.status_code": code_name,
            "error.type": code_name if code else "",
            **_names(event),
            "nri.event.name": event.event,
            "nri.event.id": event.id,
            "nri.session.id": event.session,
            **_plugin(session),
            "nri.request.size": event.size,
        }
        deadline = deadline_ms(event.timeout_ns)
        if deadline is not None:
            attributes["nri.request.timeout_ms"] = deadline
        changed, requested = requests_of(event)
        attributes |= {
            "nri.event.mark": event.mark,
            "nri.changed": changed,
            "nri.requested": requested,
            "nri.owners": event.owners,
        }
        self.lines.put(
            self._resource(event.session),
            OtlpSpan(
                trace=trace,
                id=span_id("event", *self._session_key(event.session), event.id, event.at_ns),
                parent=parent,
                name=event.event,
                kind=SpanKind.CLIENT if is_client else SpanKind.SERVER,
                start_ns=event.at_ns,
                end_ns=end_ns,
                attributes=attributes,
                error=(event.status_message or event.status) if code else None,
                link=link,
            ),
        )
        for lifetime in self.lifetimes.pop_complete():
            self._lifetime(lifetime)

    def gap(self, gap: Gap) -> None:
        attributes: dict[str, Value] = {"nri.gap.reason": gap.reason}
        for name, count in gap.losses.items():
            if count is not None:
                attributes[f"nri.gap.{name}"] = count
        trace, parent = trace_id("gap", gap.id, gap.from_ns), ""
        if gap.session is not None:
            trace, parent = self._connection(gap.session)
            self.connections.setdefault(gap.session, gap.to_ns)
        self.lines.put(
            self._resource(gap.session),
            OtlpSpan(
                trace=trace,
                id=span_id("gap", gap.id, gap.from_ns),
                parent=parent,
                name="gap: left out" if gap.is_left_out else "gap: not observed",
                start_ns=gap.from_ns,
                end_ns=gap.to_ns,
                attributes=attributes,
            ),
        )

    def finish(self) -> None:
        for lifetime in self.lifetimes.remaining():
            self._lifetime(lifetime)
        for number, last_ns in self.connections.items():
            self._session(number, last_ns)
        self.lines.flush()

    def _lifetime(self, lifetime: Lifetime) -> None:
        if lifetime.is_resumed:
            # Its span is already written.
            return
        event = lifetime.first
        name, parent, attributes = f"container {event.container}", "", _names(event)
        if lifetime.is_pod:
            name = f"pod {event.namespace}/{event.pod}"
            attributes = {
                "k8s.namespace.name": event.namespace,
                "k8s.pod.name": event.pod,
                "k8s.pod.uid": _uid(self.recording, event.pod_id),
                "nri.pod.id": event.pod_id,
            }
        elif event.pod_id:
            parent = span_id("pod", event.pod_id)
        self.lines.put(
            self._resource(event.session),
            OtlpSpan(
                trace=_trace(event),
                id=span_id("pod" if lifetime.is_pod else "container", lifetime.id),
                parent=parent,
                name=name,
                start_ns=event.at_ns,
                end_ns=lifetime.answered_ns,
                attributes={
                    **attributes,
                    "nri.life.start_observed": lifetime.has_start,
                    "nri.life.end_observed": lifetime.stage is EventStage.REMOVED,
                },
            ),
        )

    def _session(self, number: int, last_ns: int) -> None:
        session = self.sessions.get(number)
        if session is None:
            return
        trace, id = self._connection(number)
        ended_ns = session.ended_ns
        self.lines.put(
            self._resource(number),
            OtlpSpan(
                trace=trace,
                id=id,
                name=f"plugin connection {session.plugin}",
                start_ns=session.started_ns,
                end_ns=last_ns if ended_ns is None else ended_ns,
                attributes={
                    **_plugin(session),
                    "nri.session.id": number,
                    "nri.session.end_reason": session.end_reason,
                    "nri.session.end_observed": ended_ns is not None,
                },
            ),
        )

    def _place(self, event: Event) -> tuple[str, str]:
        """Return the ids of the trace and the parent span of an event."""
        lifetimes = self.lifetimes.see(event)
        if event.container_id:
            # A container whose first event has no pod has a trace of its own.
            return _trace(lifetimes[-1].first), span_id("container", event.container_id)
        if event.pod_id:
            return _trace(event), span_id("pod", event.pod_id)
        return self._connection(event.session)

    def _connection(self, number: int) -> tuple[str, str]:
        key = self._session_key(number)
        return trace_id("session", *key), span_id("session", *key)

    def _session_key(self, number: int) -> tuple[int | str, ...]:
        # Session numbers start at 1 in every recording, so a number alone does not identify one.
        session = self.sessions.get(number)
        return (number, session.started_ns, session.plugin) if session else (number,)

    def _resource(self, number: int | None) -> str:
        found = self.resources.get(number or 0)
        if found is None:
            found = resource_text(_runtime(self.sessions.get(number or 0)))
            self.resources[number or 0] = found
        return found


def _trace(event: Event) -> str:
    """Return the trace id of an event about a pod or a container."""
    if event.pod_id:
        return trace_id("pod", event.pod_id)
    return trace_id("container", event.container_id)


def _uid(recording: Recording, pod_id: str) -> str:
    rows = query_rows(recording, "SELECT uid FROM pod WHERE id = ? LIMIT 1", pod_id)
    return rows[0][0] if rows and isinstance(rows[0][0], str) else ""


def _service(method: str) -> str:
    found = METHODS.get(method)
    return found.service if found else ""


def _names(event: Event) -> dict[str, Value]:
    return {
        "k8s.namespace.name": event.namespace,
        "k8s.pod.name": event.pod,
        "k8s.container.name": event.container,
        "container.id": event.container_id,
        "nri.pod.id": event.pod_id,
    }


def _plugin(session: Session | None) -> dict[str, Value]:
    if session is None:
        return {}
    return {
        "nri.plugin.name": session.plugin_name,
        "nri.plugin.index": session.plugin_index,
        "nri.session.role": session.role,
    }


def _runtime(session: Session | None) -> dict[str, Value]:
    """Return the attributes of the resource, which is the runtime that sent the events."""
    if session is None or not session.runtime_name:
        # The value for an unknown service in the semantic conventions.
        return {"service.name": "unknown_service"}
    attributes: dict[str, Value] = {
        "service.name": session.runtime_name,
        "service.version": session.runtime_version,
        "container.runtime.name": session.runtime_name,
        "container.runtime.version": session.runtime_version,
        "nri.version": session.nri_version,
    }
    if session.nri_version:
        attributes["nri.version_inferred"] = session.nri_version_inferred
    return attributes
