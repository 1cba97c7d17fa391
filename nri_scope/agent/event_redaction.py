# SPDX-License-Identifier: Apache-2.0
"""Redact what was recorded since a call began, as `record --redact` does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nri_scope.events import Event, Gap, Note, Printed, Session, Tapped
from nri_scope.recording.timeline import Began, Ended, Item
from nri_scope.share.extract.exchanges import Exchange
from nri_scope.share.extract.wire_names import is_known
from nri_scope.share.redaction import NameKind, Redactor


def redacted_item(redactor: Redactor, item: Item) -> Item:
    """Return an item other than an event, redacted."""
    match item:
        case Began(session):
            return Began(redacted_session(redactor, session))
        case Ended(session):
            reason = redactor.text(session.end_reason, "session.end_reason")
            return Ended(replace(session, end_reason=reason))
        case Gap():
            return replace(item, reason=redactor.text(item.reason, "gap.reason"))
        case Note():
            return replace(item, text=redactor.text(item.text, "note.text"))
        case Printed():
            return item._replace(text=redactor.text(item.text, "output.text"))
        case Event():
            raise TypeError("an event needs its messages")


def redacted_session(redactor: Redactor, session: Session) -> Session:
    """Return a session with redacted names."""
    names: dict[str, Any] = redactor.session_names(session)
    return replace(session, **names)


def redacted_tapped(redactor: Redactor, one: Tapped) -> Tapped:
    """Return what a tap recorded of an event, redacted."""
    metadata = tuple(redactor.keyed(key, value, "tapped.metadata") for key, value in one.metadata)
    return one._replace(metadata=metadata)


def redacted_exchange(redactor: Redactor, one: Exchange) -> Exchange:
    """Return an event, redacted."""
    event = one.event
    # The request must come first: it sets the container to which the other texts belong.
    request = redactor.request(event.method, one.request, service=one.service)
    reply = redactor.reply(event.method, one.reply, service=one.service) if one.reply else b""

    def known(text: str, place: str) -> str:
        return text if is_known(text) else redactor.text(text, place)

    texts: dict[str, Any] = redactor.event_texts(event)
    changed = replace(
        event,
        plugin=redactor.name(NameKind.PLUGIN, event.plugin),
        runtime=redactor.name(NameKind.RUNTIME, event.runtime),
        method=known(event.method, "event.method"),
        event=known(event.event, "event.event"),
        namespace=redactor.name(NameKind.NAMESPACE, event.namespace),
        pod=redactor.name(NameKind.POD, event.pod),
        container=redactor.name(NameKind.CONTAINER, event.container),
        pod_id=redactor.id(event.pod_id),
        container_id=redactor.id(event.container_id),
        changed=tuple(map(redactor.path, event.changed)),
        owners=tuple(redactor.name(NameKind.PLUGIN, title) for title in event.owners),
        **texts,
    )
    service = known(one.service, "event.service") if one.service else ""
    return one._replace(event=changed, request=request, reply=reply, service=service)
