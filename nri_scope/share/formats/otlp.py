# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry traces: each pod is a trace, its containers and events are spans.

Data without a pod (Configure, Synchronize, gaps) is in the trace of its plugin connection. Ids are
derived from their subject: the same pod has the same trace id in every recording.

If the runtime sent trace context with an event, the event's span has a link to the runtime's span.
It is not a child of it: a pod's events belong to many requests of the kubelet, each with a trace of
its own, and the runtime's spans are exported elsewhere, or not at all if they were not sampled.

The span of a pod, container or connection is written once its end is known, after the spans of its
events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO

from nri_scope.events import CRI_SERVICE, Event, Gap, Session
from nri_scope.nri import v01
from nri_scope.nri.events import METHODS
from nri_scope.nri.lifecycle import Stage
from nri_scope.nri.request_subject import is_plugins_call
from nri_scope.recording.cri_answers import is_container_status
from nri_scope.recording.lifetimes import Lifetime, Lifetimes
from nri_scope.recording.reader import Recording
from nri_scope.recording.records import deadline_ms
from nri_scope.recording.sqlite_errors import query_rows
from nri_scope.wire.ttrpc import Code, TraceContext, trace_context

from .exported_part import KINDS, Excerpt, requests_of
from .otlp_json import SCHEMA_URL, Lines, Span, SpanKind, Value, resource_text, span_id, trace_id

_CODES = frozenset(Code)

OWN_WORDS = (
    *("resourceSpans", "resource", "scopeSpans", "scope", "nri-scope", "version", "spans"),
    *("schemaUrl", SCHEMA_URL, "attributes", "traceId", "spanId", "parentSpanId"),
    *("startTimeUnixNano", "endTimeUnixNano", "status", "message", "links", "traceState", "flags"),
    *("boolValue", "intValue", "stringValue", "arrayValue", "values"),
    *("rpc.system.name", "rpc.method", "rpc.status_code", "error.type"),
    *("k8s.namespace.name", "k8s.pod.name", "k8s.pod.uid", "k8s.container.name", "container.id"),
    *("nri.event.name", "nri.event.id", "nri.event.mark", "nri.request.size"),
    *("nri.request.timeout_ms", "nri.changed", "nri.requested", "nri.owners", "nri.pod.id"),
    *("nri.plugin.name", "nri.plugin.index", "nri.gap.reason", "nri.gap.lost"),
    *("nri.session.id", "nri.session.role", "nri.session.end_reason"),
    *("nri.session.end_observed", "nri.life.start_observed", "nri.life.end_observed"),
    *("service.name", "service.version", "unknown_service"),
    *("container.runtime.name", "container.runtime.version"),
    *("nri.version", "nri.version_inferred"),
    *("gap: left out", "gap: not observed", "plugin connection ", "container "),
    *(code.name for code in Code),
    *(f"{method.service}/{name}" for name, method in METHODS.items()),
    *v01.METHODS,
    *KINDS,
)
"""Texts that this format itself writes; the leak scan ignores them."""


def write(recording: Recording, numbers: Iterable[int] | None, stream: IO[bytes]) -> int:
    """Write lines of OTLP/JSON, without the events' messages; see `formats.Write`."""
    excerpt = Excerpt(recording, numbers)
    sessions = {session.id: session for session in excerpt.sessions()}
    traces = _Traces(recording, Lines(stream), sessions)
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
    lines: Lines
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
            Span(
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
            Span(
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
            Span(
                trace=_trace(event),
                id=span_id("pod" if lifetime.is_pod else "container", lifetime.id),
                parent=parent,
                name=name,
                start_ns=event.at_ns,
                end_ns=lifetime.answered_ns,
                attributes={
                    **attributes,
                    "nri.life.start_observed": lifetime.has_start,
                    "nri.life.end_observed": lifetime.stage is Stage.REMOVED,
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
            Span(
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
