# SPDX-License-Identifier: Apache-2.0
"""Redact entries of a recording, when it is copied and when it is made.

Names of methods, events and services that a peer chose are redacted like texts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from nri_scope.capture.sink import Begin, ControlEntry, End, Resume, ShownLine
from nri_scope.entries import Began, CallsByMetrics, EarlierState, Ended, Entry, RecordedCall
from nri_scope.events import (
    CONTAINER_STATUS,
    CRI_SERVICE,
    FILTERED,
    KILLED,
    LEFT_OUT,
    REDACTED,
    RING_REMOVED,
    CapturedCall,
    Container,
    Gap,
    Note,
    Pod,
    Printed,
    Session,
    Tapped,
    UserMark,
)
from nri_scope.nri import v01
from nri_scope.nri.events import METHODS, SYNCHRONIZE, EventKind
from nri_scope.recorder.transactions import DELETED
from nri_scope.recording.reading.reader import Recording

from .redaction import NameKind, Redactor
from .redaction.rules import Rules
from .redaction.tokens import derive, local_key

_FIXED_TEXTS = frozenset({RING_REMOVED, LEFT_OUT, DELETED, KILLED, REDACTED, ""})
"""Reasons and notes that programs recognize by exact text."""
NRI_NAMES = frozenset(
    {
        *METHODS,
        *(method.service for method in METHODS.values()),
        *(event.name for event in EventKind),
    }
)
"""The names of NRI's methods, services and events."""
_KNOWN = NRI_NAMES | {
    "",
    CONTAINER_STATUS,
    CRI_SERVICE,
    *v01.INVOCATIONS,
    v01.INVOKE,
    v01.SERVICE,
}


def note_names(redactor: Redactor, recording: Recording) -> None:
    """Let texts show the names and ids of a recording's pods, containers and plugins."""
    for pod in recording.pods():
        redactor.note_names(
            [(NameKind.NAMESPACE, "", pod.namespace), (NameKind.POD, pod.id, pod.name)]
        )
        redactor.note_ids((pod.id, pod.uid))
        redactor.scopes.note_pod(pod.id, pod.namespace, pod.name)
    for container in recording.containers():
        pod_id = "" if container.pod is None else container.pod.id
        redactor.note_names([(NameKind.CONTAINER, pod_id, container.name)])
        redactor.note_ids([container.id])
        redactor.scopes.container(container.id, pod_id, container.name)
    for session in recording.sessions():
        redactor.session_names(session)


def redacted(redactor: Redactor, entry: Entry) -> Entry:
    """Return an entry, redacted; one that is no event without effect on the next event's texts."""
    match entry:
        case Pod():
            return replace(
                entry,
                id=redactor.id(entry.id),
                namespace=redactor.name(NameKind.NAMESPACE, entry.namespace),
                name=redactor.name(NameKind.POD, entry.name),
                uid=redactor.id(entry.uid),
            )
        case Container():
            name = redactor.name(NameKind.CONTAINER, entry.name)
            return replace(entry, id=redactor.id(entry.id), name=name)
        case Began(session):
            return Began(redacted_session(redactor, session))
        case Ended(session):
            return Ended(redacted_session(redactor, session))
        case EarlierState():
            return replace(entry, request=redactor.request(SYNCHRONIZE, entry.request))
        case RecordedCall():
            return redacted_exchange(redactor, entry)
        case Gap():
            return replace(entry, reason=_text(redactor, entry.reason, "gap.reason"))
        case Note(text=text) if text.startswith(FILTERED):
            # A filter may contain names.
            return replace(entry, text=FILTERED)
        case Note():
            return replace(entry, text=_text(redactor, entry.text, "note.text"))
        case UserMark():
            return replace(entry, comment=_text(redactor, entry.comment, "mark.comment"))
        case Printed():
            return replace(entry, text=redactor.line(str(entry.session), entry.text))
        case CallsByMetrics():
            calls = ((redactor.name(NameKind.PLUGIN, call[0]), *call[1:]) for call in entry.calls)
            return replace(entry, calls=tuple(calls))


def redacted_session(redactor: Redactor, session: Session) -> Session:
    """Return a session with redacted names and end reason."""
    names: dict[str, Any] = redactor.session_names(session)
    reason = _text(redactor, session.end_reason, "session.end_reason")
    return replace(session, end_reason=reason, **names)


def redacted_exchange(redactor: Redactor, entry: RecordedCall) -> RecordedCall:
    """Return an event, redacted."""
    event = entry.event
    # The request must come first: it sets the container to which the other texts belong.
    request = redactor.request(event.method, entry.request, service=entry.service)
    reply = redactor.reply(event.method, entry.reply, service=entry.service) if entry.reply else b""

    def known(text: str, place: str) -> str:
        return text if text in _KNOWN else redactor.text(text, place)

    texts: dict[str, Any] = redactor.event_texts(event)
    names = {"namespace": NameKind.NAMESPACE, "pod": NameKind.POD, "container": NameKind.CONTAINER}
    names |= {"plugin": NameKind.PLUGIN, "runtime": NameKind.RUNTIME}
    for name, kind in names.items():
        # With keys, other entries have the names.
        text = getattr(event, name) if entry.keys is None else ""
        texts[name] = redactor.name(kind, text) if text else ""
    changed = replace(
        event,
        method=known(event.method, "event.method"),
        event=known(event.event, "event.event"),
        pod_id=redactor.id(event.pod_id),
        container_id=redactor.id(event.container_id),
        changed=tuple(map(redactor.path, event.changed)),
        owners=tuple(redactor.name(NameKind.PLUGIN, title) for title in event.owners),
        **texts,
    )
    service = known(entry.service, "event.service")
    tapped = None if entry.tapped is None else _redacted_tapped(redactor, entry.tapped)
    return replace(
        entry, event=changed, request=request, reply=reply, service=service, tapped=tapped
    )


def _redacted_tapped(redactor: Redactor, tapped: Tapped) -> Tapped:
    pairs = (redactor.keyed(key, value, "tapped.metadata") for key, value in tapped.metadata)
    return tapped._replace(metadata=tuple(pairs))


def _text(redactor: Redactor, text: str, place: str) -> str:
    return text if text in _FIXED_TEXTS else redactor.text(text, place)


class SourceRedaction:
    """Redacts the data written by one recorder. Used only in the recorder's writer thread."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    @classmethod
    def to(cls, path: Path, rules: Rules) -> SourceRedaction:
        """Return redaction for the recording ``path``, with a key derived from the user's key.

        Raises UsageError.
        """
        key = derive(local_key(), b"record\0" + bytes(path.absolute()))
        return cls(Redactor(rules, key))

    def redact_call(self, call: CapturedCall) -> CapturedCall:
        """Return an event, redacted for writing."""
        redactor = self._redactor
        is_invocation = call.service == v01.SERVICE
        known = call.method in METHODS or is_invocation
        # The request must come first: it sets the container to which the other texts belong.
        request = redactor.request(call.method, call.request, service=call.service)
        reply = redactor.reply(call.method, call.reply, service=call.service)
        texts: dict[str, Any] = redactor.event_texts(call)
        return call._replace(
            method=call.method if known else redactor.text(call.method, "event.method"),
            request=request,
            reply=reply,
            service=call.service if is_invocation else redactor.text(call.service, "event.service"),
            metadata=tuple(
                redactor.keyed(key, value, "tapped.metadata") for key, value in call.metadata
            ),
            **texts,
        )

    def redact_entry(self, entry: ControlEntry) -> ControlEntry:
        """Return an entry other than an event, redacted for writing."""
        redactor = self._redactor
        match entry:
            case Begin(start=start) | Resume(start=start):
                names: dict[str, Any] = redactor.session_names(start)
                return replace(entry, start=replace(start, **names))
            case End():
                return replace(entry, reason=redactor.text(entry.reason, "session.end_reason"))
            case ShownLine():
                plugin = redactor.name(NameKind.PLUGIN, entry.plugin)
                return replace(entry, plugin=plugin, text=redactor.line(entry.plugin, entry.text))
            case _:
                return cast("ControlEntry", redacted(redactor, entry))
