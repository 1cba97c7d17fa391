# SPDX-License-Identifier: Apache-2.0
"""JSON lines: events as in ``show --format json``, and sessions, gaps, notes and output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO

from nri_scope.events import Event, Gap
from nri_scope.nri.plain import Plain
from nri_scope.recording.creation_outcomes import (
    OPERATION_EVENTS,
    UNKNOWN,
    CreationFate,
    Creations,
    stored_outcomes,
)
from nri_scope.recording.documents import event_document, tap_record
from nri_scope.recording.reader import Recording
from nri_scope.recording.records import (
    SCHEMA_VERSION,
    gap_record,
    printed_record,
    rfc3339,
    session_record,
)
from nri_scope.recording.timeline import Began, Timeline

from .exported_part import KINDS, Excerpt
from .json_text import MESSAGE_WORDS, json_line

OWN_WORDS = (
    "schema_version event request reply runtime session gap note output tap "
    "id at plugin method namespace pod container container_id pod_id took_us deadline_ms size "
    "status status_code status_message mark changed owners outcomes targets "
    "from to reason lost stream text held_us metadata "
    "outcome fate after_ns "
    "role runtime_version nri_version nri_version_inferred registration_timeout_ms "
    "request_timeout_ms started ended end_reason",
    *KINDS,
    *MESSAGE_WORDS,
)
"""Texts that this format itself writes; the leak scan ignores them."""


def write(recording: Recording, numbers: Iterable[int] | None, stream: IO[bytes]) -> int:
    """Write the events; see `formats.Write`.

    Each line is an object with a key "event", "session", "gap", "note" or "output".
    """
    excerpt = Excerpt(recording, numbers)
    taps = excerpt.taps()
    sessions: set[int] = set()
    messages = (b"", b"")

    def events() -> Iterator[Event]:
        nonlocal messages
        for event, request, reply in excerpt.exchanges():
            messages = request, reply
            yield event

    count = 0
    creations = None if numbers is None else Creations(recording)
    for item in Timeline().merge(events(), excerpt.sessions(), excerpt.gaps()):
        match item:
            case Event():
                observed = taps.of(item.id)
                tap = {} if observed is None else tap_record(observed)
                outcome = _outcome(recording, item, creations)
                _put(stream, {**event_document(item, *messages), **tap, **outcome})
                sessions.add(item.session)
                count += 1
            case Gap():
                _put(stream, gap_record(item))
            case Began(session):
                _put(stream, {"session": session_record(session)})
            case _:
                pass  # The line of a session includes its end.
    for note in excerpt.notes():
        record: Plain = {"at": rfc3339(note.at_ns), "session": note.session, "text": note.text}
        _put(stream, {"note": record})
    for line in excerpt.printed(sessions):
        _put(stream, printed_record(line))
    return count


def _outcome(recording: Recording, event: Event, creations: Creations | None) -> dict[str, Plain]:
    """Return the outcome of an operation, if the events that show it may be left out."""
    if event.event not in OPERATION_EVENTS:
        return {}
    if creations is None:
        found = stored_outcomes(recording, [event.id]).get(event.id, UNKNOWN)
    else:
        found = creations.outcome(event)
    if found.fate is CreationFate.UNKNOWN:
        return {}
    return {"outcome": {**found._asdict(), "fate": found.fate.value}}


def _put(stream: IO[bytes], record: dict[str, Plain]) -> None:
    stream.write(json_line({"schema_version": SCHEMA_VERSION, **record}).encode() + b"\n")
