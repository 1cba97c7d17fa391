# SPDX-License-Identifier: Apache-2.0
"""Copy rows of the original to the new recording, changed by a `Change`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence

from nri_scope.events import Event
from nri_scope.nri.request_subject import decode_request
from nri_scope.recorder.content_store import Names, ObjectStore
from nri_scope.recorder.encode import (
    INSERT_EFFECT,
    INSERT_EVENT,
    EventRow,
    json_list,
    put_container,
    put_pod,
    rest_of,
)
from nri_scope.recorder.ring import Ring
from nri_scope.recording.blobs import ObjectKind as Content
from nri_scope.recording.plain_messages import has_parts
from nri_scope.recording.sqlite_text import storable

from ..redaction import NameKind
from .exchanges import Exchange
from .message_changes import Change, is_known

_STRETCH_BYTES = Ring(None, None).stretch_bytes


class Copying:
    """Writer of events, in order, to an empty recording. Raises sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection, change: Change) -> None:
        self._connection = connection
        self._change = change
        self.objects = ObjectStore(1)
        self._names = Names(connection)
        self._stretch_began: int | None = None

    def events(self, exchanges: Sequence[Exchange], effects: Iterable[tuple[int, int]]) -> None:
        """Write events, and ``effects``: (key of another container, event that updates it)."""
        if exchanges:
            self.begin_stretch(exchanges[0].event.id)
        rows = [self._row(one) for one in exchanges]
        self.objects.flush(self._connection)
        self._connection.executemany(INSERT_EVENT, rows)
        self._connection.executemany(INSERT_EFFECT, effects)

    def begin_stretch(self, first_event: int) -> None:
        """Begin a new stretch of the object store if the last one is large enough."""
        stored = self.objects.stored_bytes
        if self._stretch_began is not None:
            if stored - self._stretch_began < _STRETCH_BYTES:
                return
            self.objects.begin_stretch()
        self._stretch_began = stored
        self._connection.execute(
            "INSERT INTO stretch (first_event, first_object) VALUES (?, ?)",
            (first_event, self.objects.next_id),
        )

    def _row(self, one: Exchange) -> EventRow:
        event, change = one.event, self._change
        request = change.request(event.method, one.request, service=one.service)
        reply = change.reply(event.method, one.reply, service=one.service) if one.reply else b""
        mark = event.mark
        pod = container = rest = None
        put = self.objects.put
        decoded = None
        if has_parts(event):
            decoded = decode_request(event.method, request, one.service)
            mark = decoded.mark
        if decoded is None or decoded.message is None:
            if request:
                rest = put(Content.RAW, request, "", event.method)
        else:
            if decoded.pod is not None:
                pod = put_pod(self.objects, decoded.pod)
            if decoded.container is not None:
                container = put_container(self.objects, decoded.container)
            content = rest_of(decoded, decoded.message)
            if content:
                rest = put(Content.REST, content, "", event.method)
        # Only successive CRI answers about a container are stored as versions of one text.
        subject = event.container_id if decoded is None else ""
        return (
            event.id,
            event.session,
            event.seq,
            event.at_ns,
            event.mono_ns,
            self._name(event.method, "event.method"),
            self._name(event.event, "event.event"),
            self._name(one.service, "event.service") if one.service else None,
            one.pod,
            one.container,
            pod,
            container,
            rest,
            put(Content.REPLY, reply, subject, event.method) if reply else None,
            event.status_code,
            self._text(event, "status_message"),
            event.took_ns,
            event.timeout_ns,
            event.size,
            mark or None,
            _json(event.changed, change.path),
            _json(event.owners, self._plugin),
        )

    def _name(self, text: str, place: str) -> int:
        return self._names.id(text if is_known(text) else self._change.text(text, place))

    def _text(self, event: Event, name: str) -> str | None:
        """Return one of `events.EVENT_TEXTS` as copied."""
        text = getattr(event, name)
        return storable(self._change.text(text, f"event.{name}", of_event=True)) if text else None

    def _plugin(self, name: str) -> str:
        return self._change.name(NameKind.PLUGIN, name)


def _json(texts: Sequence[str], change: Callable[[str], str]) -> str | None:
    return json_list([change(text) for text in texts])
