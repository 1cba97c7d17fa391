# SPDX-License-Identifier: Apache-2.0
"""Facts about a whole recording: its time span, what its ring removed, what its sender says of it.

Relative times, and times without a date, depend on the time span.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from nri_scope.errors import RecordingError, UsageError
from nri_scope.events import REDACTED, RING_REMOVED
from nri_scope.filter import Filter, TimeSpan
from nri_scope.filter.moments import interval
from nri_scope.text.quantities import moment, span

from ..reading.reader import Recording
from ..reading.sqlite_errors import query_numbers

if TYPE_CHECKING:
    from ..bundle.manifest import Manifest


def time_span(recording: Recording) -> TimeSpan | None:
    """Return the times of the first and the last event; None without events.

    If the newest event cannot be read, the first one counts as the last. Raises RecordingError.
    """
    first = _time(recording, "ASC")
    if first is None:
        return None
    try:
        last = _time(recording, "DESC")
    except RecordingError:
        last = None
    return TimeSpan(first, first if last is None else last)


def _time(recording: Recording, order: str) -> int | None:
    rows = query_numbers(recording, f"SELECT at_ns FROM event ORDER BY id {order} LIMIT 1")
    return rows[0][0] if rows else None


def began_ns(recording: Recording) -> int:
    """Return the time of a recording's first event, also if the ring removed it; 0 for none.

    It tells a recording from another of the same name. Raises RecordingError.
    """
    rows = query_numbers(
        recording,
        "SELECT from_ns FROM (SELECT 1 AS place, from_ns FROM gap WHERE reason = ? UNION ALL "
        "SELECT 2, at_ns FROM (SELECT at_ns FROM event ORDER BY id LIMIT 1)) ORDER BY place",
        RING_REMOVED,
    )
    return rows[0][0] if rows else 0


def removed_by_ring(recording: Recording) -> tuple[int, int]:
    """Return the number of events that the recorder's ring removed, which is that of the last one,
    and its time; zeros for none. Raises RecordingError.
    """
    rows = query_numbers(
        recording,
        "SELECT coalesce(sum(lost), 0), coalesce(max(to_ns), 0) FROM gap WHERE reason = ?",
        RING_REMOVED,
    )
    return rows[0][0], rows[0][1]


def within(recording: Recording, where: Filter | None) -> Filter | None:
    """Return ``where`` with the times that it means in a recording. Raises FilterError, and
    RecordingError.
    """
    if where is None or "time" not in where.fields:
        return where
    return where.within(time_span(recording))


def span_words(times: TimeSpan | None) -> str:
    """Say which time range a recording has."""
    if times is None:
        return "the recording has no events"
    return f"the recording has events from {span(*times)}"


def is_redacted(recording: Recording) -> bool:
    """Return whether a recording, or the manifest of its bundle, says that it was redacted.

    Raises RecordingError.
    """
    if recording.rows("SELECT 1 FROM note WHERE text = ? LIMIT 1", [REDACTED]):
        return True
    manifest = _manifest(recording)
    return manifest is not None and manifest.redaction is not None


def sender_facts(recording: Recording) -> tuple[tuple[str, str], ...]:
    """Return what the sender of a bundle says of it, in pairs of a name and a text, not escaped.

    The texts are the note, the selected events and the redaction. () for other recordings.
    """
    manifest = _manifest(recording)
    if manifest is None:
        return ()
    selection = " ".join(f"{name} {value}" for name, value in manifest.selection.items())
    redaction = manifest.redaction
    replaced = f"{redaction.total:,} values replaced" if redaction is not None else ""
    facts = (("note", manifest.note), ("selection", selection), ("redacted", replaced))
    return tuple((name, text) for name, text in facts if text)


def _manifest(recording: Recording) -> Manifest | None:
    # By its name: opening and closing a recording that this process writes would drop SQLite's
    # locks.
    if recording.path.suffix.lower() == ".zip":
        from ..bundle.unpack import read_manifest

        with suppress(RecordingError):
            return read_manifest(recording.path)
    return None


def times_of(
    recording: Recording, since: str | None, until: str | None
) -> tuple[int | None, int | None]:
    """Return the times of ``--since`` (included) and ``--until`` (excluded), in ns since the epoch.

    Raises UsageError if one is ambiguous, or they are in the wrong order.
    """
    if since is None and until is None:
        return None, None
    since_ns, until_ns = interval(since or "", until or "", time_span(recording))
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        raise UsageError(
            f"--since {moment(since_ns)} is not before --until {moment(until_ns)}",
            "give the earlier time to --since",
        )
    return since_ns, until_ns
