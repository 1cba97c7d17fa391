# SPDX-License-Identifier: Apache-2.0
"""Convert what a recording contains to messages of the agent's service."""

from __future__ import annotations

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.events import Event, Gap, Note, Printed, Session, Tapped
from nri_scope.recording.creation_outcomes import Outcome
from nri_scope.recording.timeline import Began, Ended, Item
from nri_scope.share.extract.exchanges import Exchange


def session_message(recording: str, session: Session, began_ns: int = 0) -> v1.Session:
    """Return the message of a session; ``began_ns``: that of its recording."""
    return v1.Session(
        recording=recording,
        id=session.id,
        role=session.role,
        plugin_name=session.plugin_name,
        plugin_index=session.plugin_index,
        runtime_name=session.runtime_name,
        runtime_version=session.runtime_version,
        nri_version=session.nri_version,
        nri_version_inferred=session.nri_version_inferred,
        mask=session.mask,
        registration_timeout_ms=session.registration_timeout_ms,
        request_timeout_ms=session.request_timeout_ms,
        started_ns=session.started_ns,
        recording_began_ns=began_ns,
    )


def event_message(
    recording: str, exchange: Exchange, tapped: Tapped | None, outcome: Outcome | None
) -> v1.Event:
    """Return the message of an event; ``outcome``: that of a creation in a part of a recording."""
    event = exchange.event
    return v1.Event(
        recording=recording,
        id=event.id,
        session=event.session,
        at_ns=event.at_ns,
        mono_ns=event.mono_ns,
        plugin=event.plugin,
        method=event.method,
        event=event.event,
        namespace=event.namespace,
        pod=event.pod,
        pod_id=event.pod_id,
        container=event.container,
        container_id=event.container_id,
        took_ns=event.took_ns,
        timeout_ns=event.timeout_ns,
        status_code=event.status_code,
        status_message=event.status_message,
        request=exchange.request,
        reply=exchange.reply,
        service=exchange.service,
        size=event.size,
        mark=event.mark,
        changed=list(event.changed),
        owners=list(event.owners),
        held_ns=None if tapped is None else tapped.held_ns,
        metadata=[
            v1.Metadata(key=key, value=value)
            for key, value in (() if tapped is None else tapped.metadata)
        ],
        outcome=None
        if outcome is None
        else v1.CreationOutcome(
            fate=outcome.fate.value,
            event=outcome.event,
            name=outcome.name,
            session=outcome.session,
            after_ns=outcome.after_ns,
        ),
    )


def response_of(recording: str, item: Item, began_ns: int = 0) -> v1.GetEventsResponse:
    """Return the response for an item other than an event, without its cursor; ``began_ns``: that
    of the recording.
    """
    match item:
        case Began(session):
            return v1.GetEventsResponse(session=session_message(recording, session, began_ns))
        case Ended(session):
            return v1.GetEventsResponse(
                session_end=v1.SessionEnd(
                    recording=recording,
                    id=session.id,
                    reason=session.end_reason,
                    ended_ns=session.ended_ns,
                )
            )
        case Gap():
            return v1.GetEventsResponse(
                gap=v1.Gap(
                    recording=recording,
                    session=item.session,
                    from_ns=item.from_ns,
                    to_ns=item.to_ns,
                    reason=item.reason,
                    lost=item.lost,
                )
            )
        case Note():
            return v1.GetEventsResponse(
                note=v1.Note(
                    recording=recording, session=item.session, at_ns=item.at_ns, text=item.text
                )
            )
        case Printed():
            return v1.GetEventsResponse(
                output=v1.PluginOutput(
                    recording=recording,
                    session=item.session,
                    at_ns=item.at_ns,
                    stream=item.stream,
                    text=item.text,
                    id=item.id,
                )
            )
        case Event():
            raise TypeError("an event needs its messages")
