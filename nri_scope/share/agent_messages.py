# SPDX-License-Identifier: Apache-2.0
"""Entries of a recording as messages of the agent's service, both ways."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.entries import Began, Ended, Entry, OperationOutcome, RecordedCall
from nri_scope.errors import RemoteProtocolError
from nri_scope.events import (
    Event,
    Gap,
    Note,
    Printed,
    Role,
    Session,
    SessionStart,
    Tapped,
    status_of,
)
from nri_scope.recording.query.creation_outcomes import outcome_of

_START = (*(one.name for one in fields(SessionStart)), "synced_ns")
"""Fields of a session that its message has, too."""
_SENT = {field.name for field in fields(v1.Event)} - {"changed", "owners", "outcome"}
_SAME = tuple(one.name for one in fields(Event) if one.name in _SENT)
"""Fields of an event that its message has, too."""
_NOT_SENT: dict[str, Any] = {"seq": 0, "runtime": ""}


def session_message(recording: str, session: Session, began_ns: int = 0) -> v1.Session:
    """Return the message of a session; ``began_ns``: that of its recording."""
    start: dict[str, Any] = {name: getattr(session, name) for name in _START}
    return v1.Session(recording=recording, id=session.id, recording_began_ns=began_ns, **start)


def response_of(recording: str, entry: Entry, began_ns: int = 0) -> v1.GetEventsResponse:
    """Return the response for an entry, without its cursor; ``began_ns``: that of the recording.

    Raises TypeError for an entry that agents do not send.
    """
    match entry:
        case Began(session):
            return v1.GetEventsResponse(session=session_message(recording, session, began_ns))
        case RecordedCall():
            return v1.GetEventsResponse(event=_event_message(recording, entry))
        case Ended(session):
            end = v1.SessionEnd(
                recording=recording,
                id=session.id,
                reason=session.end_reason,
                ended_ns=session.ended_ns,
            )
            return v1.GetEventsResponse(session_end=end)
        case Gap():
            gap = v1.Gap(recording=recording, **_shared(v1.Gap, entry))
            return v1.GetEventsResponse(gap=gap)
        case Note():
            note = v1.Note(recording=recording, **_shared(v1.Note, entry))
            return v1.GetEventsResponse(note=note)
        case Printed():
            output = v1.PluginOutput(recording=recording, **_shared(v1.PluginOutput, entry))
            return v1.GetEventsResponse(output=output)
        case _:
            raise TypeError(f"agents send no {type(entry).__name__}")


def _shared(kind: type[Any], entry: Gap | Note | Printed) -> dict[str, Any]:
    """Return the fields of an entry that its message has, too."""
    return {one.name: getattr(entry, one.name) for one in fields(kind) if hasattr(entry, one.name)}


def entry_of(response: v1.GetEventsResponse) -> Entry | None:
    """Return the entry in a response, with the numbers of its recording on the node.

    None for a response without one. Raises RemoteProtocolError.
    """
    if response.event is not None:
        return _exchange_of(response.event)
    if (session := response.session) is not None:
        if session.role not in list(Role):
            raise RemoteProtocolError(f"role {session.role[:80]!r} is unknown")
        start: dict[str, Any] = {name: getattr(session, name) for name in _START}
        return Began(Session(session.id, ended_ns=None, end_reason="", **start))
    if (end := response.session_end) is not None:
        start = asdict(SessionStart.unconfigured(Role.LOGGER, "", "", 0))
        return Ended(Session(end.id, ended_ns=end.ended_ns, end_reason=end.reason, **start))
    if (gap := response.gap) is not None:
        return Gap(0, gap.session, gap.from_ns, gap.to_ns, gap.reason, gap.lost)
    if (note := response.note) is not None:
        return Note(0, note.session, note.at_ns, note.text)
    if (line := response.output) is not None:
        return Printed(line.id, line.session, line.at_ns, line.stream, line.text)
    return None


def _event_message(recording: str, exchange: RecordedCall) -> v1.Event:
    event, tapped, outcome = exchange.event, exchange.tapped, exchange.outcome
    same: dict[str, Any] = {name: getattr(event, name) for name in _SAME}
    return v1.Event(
        recording=recording,
        **same,
        request=exchange.request,
        reply=exchange.reply,
        service=exchange.service,
        changed=list(event.changed),
        owners=list(event.owners),
        held_ns=None if tapped is None else tapped.held_ns,
        metadata=[
            v1.Metadata(key=key, value=value)
            for key, value in (() if tapped is None else tapped.metadata)
        ],
        outcome=None
        if outcome is None
        else v1.CreationOutcome(**{**outcome._asdict(), "fate": outcome.fate.value}),
    )


def _exchange_of(message: v1.Event) -> RecordedCall:
    same: dict[str, Any] = {name: getattr(message, name) for name in _SAME}
    event = Event(
        **{**same, **_NOT_SENT, "size": max(0, message.size)},
        status=status_of(message.status_code),
        changed=tuple(message.changed),
        owners=tuple(message.owners),
    )
    metadata = tuple((pair.key, pair.value) for pair in message.metadata)
    tapped = Tapped(message.id, message.held_ns, metadata)
    outcome: OperationOutcome | None = None
    if (sent := message.outcome) is not None:
        numbers = sent.session, max(0, sent.after_ns)
        outcome = outcome_of(sent.fate, sent.event, sent.name, *numbers)
    return RecordedCall(
        event, message.request, message.reply, message.service, tapped=tapped, outcome=outcome
    )
