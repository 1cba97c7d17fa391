# SPDX-License-Identifier: Apache-2.0
"""Encode spans as OTLP/JSON.

Sources: the OpenTelemetry protocol specification, "JSON Protobuf Encoding", and
opentelemetry-proto: ids are hexadecimal, not base64, enums are numbers, keys are in lowerCamelCase,
and 64-bit integers are decimal strings. Files are JSON lines of ``TracesData`` ("OpenTelemetry
Protocol File Exporter").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b
from typing import IO

from nri_scope import __version__
from nri_scope.nri.plain import Plain
from nri_scope.recording.sqlite_text import HIGHEST, LOWEST
from nri_scope.wire.ttrpc import TraceContext

from .json_text import json_line

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
class Span:
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


def span_text(span: Span) -> str:
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
class Lines:
    """Buffer of spans, which writes lines of spans grouped by resource."""

    stream: IO[bytes]
    _spans: dict[str, list[str]] = field(default_factory=dict)
    _size: int = 0

    def put(self, resource: str, span: Span) -> None:
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
