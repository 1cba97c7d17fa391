# SPDX-License-Identifier: Apache-2.0
"""Build JSON records of events, gaps, sessions and plugin output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from nri_scope.events import Event, Gap, Printed, Session
from nri_scope.nri.plain import Plain

SCHEMA_VERSION = 1
"""Version of all printed JSON objects. Increased for incompatible changes, not for new keys."""

_encode = json.JSONEncoder(separators=(", ", ": ")).encode


def to_json(record: Plain) -> str:
    """Return JSON as one line of ASCII, without control characters."""
    return _encode(record).replace("\x7f", "\\u007f")


def json_in_parts(record: Mapping[str, Plain | Iterator[Plain]]) -> Iterator[str]:
    """Yield the parts of one line in the format of `to_json`; iterators become lists."""
    before = "{"
    for key, value in record.items():
        yield f"{before}{to_json(key)}: "
        before = ", "
        if isinstance(value, Iterator):
            yield "["
            for number, member in enumerate(value):
                yield f"{', ' if number else ''}{to_json(member)}"
            yield "]"
        else:
            yield to_json(value)
    yield "}" if record else "{}"


def rfc3339(at_ns: int) -> str:
    """Format a time in UTC with microseconds."""
    seconds, nanoseconds = divmod(at_ns, 1_000_000_000)
    return f"{_second(seconds)}.{nanoseconds // 1000:06d}Z"


# Events occur in bursts, mostly within the same second.
@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def event_record(event: Event) -> dict[str, Plain]:
    """Return an event as a JSON object, with its times as text."""
    return {
        "id": event.id,
        "at": rfc3339(event.at_ns),
        "session": event.session,
        "plugin": event.plugin,
        "event": event.event,
        "method": event.method,
        "namespace": event.namespace,
        "pod": event.pod,
        "container": event.container,
        "container_id": event.container_id,
        "pod_id": event.pod_id,
        "took_us": took_us(event.took_ns),
        "deadline_ms": deadline_ms(event.timeout_ns),
        "size": event.size,
        "status": event.status,
    }


def took_us(took_ns: int) -> int | None:
    """Return a response time in µs; None for 0, which means that it was not measured."""
    return took_ns // 1000 if took_ns else None


def deadline_ms(timeout_ns: int) -> int | None:
    """Return a deadline in ms, rounded, as runtimes send slightly less than configured; None for 0,
    which means no deadline.
    """
    return (timeout_ns + 500_000) // 1_000_000 if timeout_ns else None


def gap_record(gap: Gap) -> dict[str, Plain]:
    """Return the record of a gap, with the single key "gap".

    For events that a part of a recording omits, "left_out" is their number and "lost" is 0.
    """
    return {
        "gap": {
            "from": rfc3339(gap.from_ns),
            "to": rfc3339(gap.to_ns),
            "session": gap.session,
            "reason": gap.reason,
            **gap.losses,
        }
    }


def printed_record(line: Printed) -> dict[str, Plain]:
    """Return the record of a line of plugin output, with the single key ``output``."""
    return {
        "output": {
            "at": rfc3339(line.at_ns),
            "session": line.session,
            "stream": line.stream,
            "text": line.text,
        }
    }


def session_record(session: Session) -> dict[str, Plain]:
    """Return the record of a session; ``ended`` is null if open or its recorder was killed."""
    return {
        "id": session.id,
        "role": session.role,
        "plugin": session.plugin,
        "runtime": session.runtime_name,
        "runtime_version": session.runtime_version,
        "nri_version": session.nri_version,
        "nri_version_inferred": session.nri_version_inferred,
        "registration_timeout_ms": session.registration_timeout_ms,
        "request_timeout_ms": session.request_timeout_ms,
        "started": rfc3339(session.started_ns),
        "synced": None if session.synced_ns is None else rfc3339(session.synced_ns),
        "ended": None if session.ended_ns is None else rfc3339(session.ended_ns),
        "end_reason": session.end_reason,
    }
