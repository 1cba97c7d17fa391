# SPDX-License-Identifier: Apache-2.0
"""Summarise a recording: statistics, sessions and gaps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nri_scope.events import Container, Gap, Pod, Role, Session
from nri_scope.nri.plain import Plain

from .reader import Recording
from .records import gap_record, rfc3339, session_record
from .rows import RowError
from .sqlite_errors import recording_errors
from .stats import GapStats, ResponseTimes, Sample, Stats, tally
from .subject_queries import column_of


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a recording."""

    stats: Stats
    sessions: tuple[Session, ...]
    gaps: tuple[Gap, ...]
    cri_answers: int
    """Number of recorded CRI calls, which are excluded from all other counts."""
    file_bytes: int
    """Bytes on disk, including the write-ahead log of a recording that is being written."""
    version: int

    @property
    def is_scenario(self) -> bool:
        """Whether all sessions were made from scenarios, so that nothing was observed."""
        return {session.role for session in self.sessions} == {Role.SCENARIO}

    @property
    def ratio(self) -> float | None:
        """Bytes on disk per byte of requests on the wire."""
        wire = self.stats.wire_bytes
        return self.file_bytes / wire if wire else None

    def record(self) -> dict[str, Plain]:
        """Return the summary for JSON."""
        stats = self.stats
        gaps = GapStats.of(self.gaps)
        return {
            "recording_version": self.version,
            "events": stats.count,
            "first": None if stats.first_ns is None else rfc3339(stats.first_ns),
            "last": None if stats.last_ns is None else rfc3339(stats.last_ns),
            "seconds": round(stats.seconds, 6),
            "events_per_second": None if stats.rate is None else round(stats.rate, 3),
            "busiest_second": {
                "at": None if stats.busiest_ns is None else rfc3339(stats.busiest_ns),
                "events": stats.busiest_count,
            },
            "status": dict(stats.by_status),
            "took_us": _took(stats.took),
            "by_event": [
                {
                    "event": entry.event,
                    "count": entry.count,
                    "not_ok": entry.not_ok,
                    "wire_bytes": entry.wire_bytes,
                    "took_us": _took(entry.took),
                }
                for entry in stats.by_event
            ],
            "by_pod": [
                {"namespace": entry.namespace, "pod": entry.pod, "count": entry.count}
                for entry in stats.by_pod
            ],
            "without_pod": stats.without_pod,
            "cri_answers": self.cri_answers,
            "gaps": {
                "count": gaps.count,
                "lost": gaps.lost,
                "with_unknown_loss": gaps.unknown,
                "left_out": gaps.left_out,
                "list": [gap_record(gap)["gap"] for gap in self.gaps if not gap.is_left_out],
            },
            "sizes": {
                "file_bytes": self.file_bytes,
                "wire_bytes": stats.wire_bytes,
                "ratio": None if self.ratio is None else round(self.ratio, 4),
            },
            "sessions": [session_record(session) for session in self.sessions],
        }


def summarise(recording: Recording) -> Summary:
    """Return the summary of a recording. Raises RecordingError."""
    size = 0
    for name in (recording.path, f"{recording.path}-wal"):
        with suppress(OSError):
            size += Path(name).stat().st_size
    return Summary(
        stats=tally(_samples(recording)),
        sessions=tuple(recording.sessions()),
        gaps=tuple(recording.gaps()),
        cri_answers=_cri_answers(recording),
        file_bytes=size,
        version=recording.version,
    )


_CRI = "SELECT id FROM session WHERE role = ?"
_TYPES = (str, str, str, int, int, int, str)


def _samples(recording: Recording) -> Iterator[Sample]:
    with recording_errors(recording):
        for row in recording.connection.execute(
            f"SELECT {', '.join(Sample._fields)} FROM events WHERE session NOT IN ({_CRI})",
            (Role.CRI,),
        ):
            if tuple(map(type, row)) != _TYPES:
                raise RowError("an event has values of a wrong type")
            yield Sample._make(row)


def _cri_answers(recording: Recording) -> int:
    with recording_errors(recording):
        (count,) = recording.connection.execute(
            f"SELECT count(*) FROM event WHERE session IN ({_CRI})", (Role.CRI,)
        ).fetchone()
    return int(count)


def _took(took: ResponseTimes | None) -> dict[str, Plain]:
    if took is None:
        return {"p50": None, "p99": None, "max": None}
    return {"p50": took.p50 // 1000, "p99": took.p99 // 1000, "max": took.max // 1000}


def time_range(recording: Recording, about: Pod | Container | None = None) -> tuple[int, int]:
    """Return the earliest and latest event time, in wall clock ns; (0, 1) without events.

    `about` limits the events to those of a pod and its containers, or of a container. Raises
    RecordingError.
    """
    where = ""
    key: tuple[int, ...] = ()
    if about is not None:
        where = f" WHERE {column_of(about)} = ?"
        key = (about.key,)
    with recording_errors(recording):
        query = f"SELECT min(at_ns), max(at_ns) FROM event{where}"
        first, last = recording.connection.execute(query, key).fetchone()
    return (int(first), int(last)) if isinstance(first, int) and isinstance(last, int) else (0, 1)
