# SPDX-License-Identifier: Apache-2.0
"""Copy all tables except ``event``: sessions, their Synchronize state, pods, gaps, notes …"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from operator import attrgetter
from typing import Any

from google.protobuf.message import DecodeError

from nri_scope._gen.nri.api_pb2 import SynchronizeRequest
from nri_scope.errors import RecordingError
from nri_scope.events import KILLED, LEFT_OUT, REDACTED, RING_REMOVED, Gap, Mark, Note, Session
from nri_scope.recorder.content_store import ObjectStore
from nri_scope.recorder.encode import (
    INSERT_METADATA,
    INSERT_PLUGIN_CALLS,
    INSERT_STATE,
    INSERT_TAPPED,
    metadata_json,
    put_container,
    put_pod,
)
from nri_scope.recorder.transactions import DELETED
from nri_scope.recording.blobs import ObjectKind as Content
from nri_scope.recording.creation_outcomes import (
    INSERT_OUTCOME,
    OPERATION_EVENTS,
    UNKNOWN,
    CreationFate,
    Creations,
)
from nri_scope.recording.message_parts import synchronize
from nri_scope.recording.plugin_calls import plugin_calls
from nri_scope.recording.reader import MAX_REQUEST, Recording
from nri_scope.recording.rows import SESSION_FIELDS, Row, number_of, optional_numbers_of
from nri_scope.recording.rows import ascending as in_order
from nri_scope.recording.schema_check import repair_hint
from nri_scope.recording.sqlite_errors import recording_errors
from nri_scope.recording.sqlite_text import named, storable
from nri_scope.recording.tap_tables import tapped

from ..redaction import NameKind
from ..redaction.name_kinds import SESSION_NAMES
from .event_numbers import chunks, is_among, listed
from .message_changes import Change
from .row_pages import PAGE, pages
from .sources import IncludedRows, printed_in

_FIXED_REASONS = frozenset({RING_REMOVED, LEFT_OUT, DELETED, KILLED})
"""Reasons that programs recognize by exact text."""
_values = attrgetter(*SESSION_FIELDS)
_EVENT_COLUMNS = ("sync_event", "synced_ns", "first_event", "last_event")


class Tables:
    """Copier of rows into an empty recording. Raises RecordingError and sqlite3.Error."""

    def __init__(
        self, source: Recording, connection: sqlite3.Connection, part: IncludedRows, change: Change
    ) -> None:
        self._source = source
        self._connection = connection
        self._part = part
        self._change = change

    # -- sessions ---------------------------------------------------------------------------

    def sessions(self) -> list[Session]:
        """Write the part's sessions; return them."""
        included = [one for one in self._source.sessions() if self._has(one.id)]
        names = [*SESSION_FIELDS, *_EVENT_COLUMNS]
        insert = f"INSERT INTO session ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        name = self._change.name
        rows = self._source.rows(f"SELECT id, {', '.join(_EVENT_COLUMNS)} FROM session ORDER BY id")
        with recording_errors(self._source):
            events_of = {row[0]: optional_numbers_of(row[1:]) for row in rows}
        for one in included:
            sync, synced, first, last = events_of.get(one.id, (None, None, 0, None))
            changed_names: dict[str, Any] = {
                field: named(name(kind, getattr(one, field)))
                for field, kind in SESSION_NAMES.items()
            }
            reason = self._text(one.end_reason, "session.end_reason")
            changed = replace(one, role=named(one.role), end_reason=reason, **changed_names)
            self._connection.execute(insert, (*_values(changed), sync, synced, first or 0, last))
        return included

    def _has(self, session: int | None) -> bool:
        return session is None or self._part.sessions is None or session in self._part.sessions

    # -- Synchronize state ------------------------------------------------------------------

    def states(self, session: int, objects: ObjectStore) -> None:
        """Write the included pods and containers that a session was sent in Synchronize."""
        events = self._source.rows(
            "SELECT DISTINCT event FROM state WHERE session = ? ORDER BY event", (session,)
        )
        with recording_errors(self._source):
            numbers = [number_of(row) for row in events]
        for event in numbers:
            if event <= self._part.until:
                rows = self._state_objects(session, event, objects)
                objects.flush(self._connection)
                self._connection.executemany(INSERT_STATE, rows)

    def _state_objects(
        self, session: int, event: int, objects: ObjectStore
    ) -> Iterator[tuple[int | None, ...]]:
        pods: list[tuple[tuple[int | None, ...], bytes]] = []
        containers: list[tuple[tuple[int | None, ...], bytes]] = []
        size = 0
        for row in self._state_rows(session, event):
            position, pod, container, number = row
            if number is None or not self._is_included(event, pod, container):
                continue
            kind, content = self._source.object(number)
            size += len(content) + 8
            if size > MAX_REQUEST:
                raise self._damaged(session, "the Synchronize state is too large")
            (pods if kind == Content.POD else containers).append(
                ((session, event, position, pod, container), content)
            )
        message = self._changed(
            session, [content for _, content in pods], [content for _, content in containers]
        )
        # A `Change` preserves the number and order of elements.
        if len(message.pods) != len(pods) or len(message.containers) != len(containers):
            raise self._damaged(session, "the Synchronize state cannot be rewritten")
        rows = [
            (*keys, put_pod(objects, pod))
            for (keys, _), pod in zip(pods, message.pods, strict=True)
        ]
        rows += [
            (*keys, put_container(objects, container))
            for (keys, _), container in zip(containers, message.containers, strict=True)
        ]
        return iter(rows)

    def _changed(
        self, session: int, pods: Sequence[bytes], containers: Sequence[bytes]
    ) -> SynchronizeRequest:
        try:
            whole = synchronize(b"", pods, containers)
            return SynchronizeRequest.FromString(self._change.request("Synchronize", whole))
        except (ValueError, DecodeError) as error:
            raise self._damaged(session, "the Synchronize state cannot be decoded") from error

    def _damaged(self, session: int, problem: str) -> RecordingError:
        return RecordingError(
            self._source.path,
            f"it is damaged in session {session}: {problem}",
            repair_hint(self._source.path),
        )

    def _state_rows(self, session: int, event: int) -> Iterator[tuple[int | None, ...]]:
        query = (
            "SELECT position, pod, container, object FROM state "
            "WHERE session = ? AND event = ? AND position > ? ORDER BY position LIMIT ?"
        )
        for page in pages(self._source, query, session, event, after=-1):
            yield from page

    def _is_included(self, event: int, pod: int | None, container: int | None) -> bool:
        part = self._part
        if part.pods is None or part.containers is None or is_among(part.whole_states, event):
            return True
        return container in part.containers if container is not None else pod in part.pods

    # -- pods and containers ----------------------------------------------------------------

    def subjects(self) -> tuple[int, int]:
        """Write pods and containers; return how many of each."""
        name, changed_id = self._change.name, self._change.id
        pods = containers = 0
        for key, pod_id, namespace, pod, uid in self._rows_of(
            "pod", "id, namespace, name, uid", self._part.pods
        ):
            pods += 1
            self._connection.execute(
                "INSERT INTO pod VALUES (?, ?, ?, ?, ?)",
                (
                    key,
                    named(changed_id(pod_id)),
                    named(name(NameKind.NAMESPACE, namespace)),
                    named(name(NameKind.POD, pod)),
                    named(changed_id(uid)),
                ),
            )
        for key, container_id, container, pod_key in self._rows_of(
            "container", "id, name, pod", self._part.containers
        ):
            containers += 1
            self._connection.execute(
                "INSERT INTO container VALUES (?, ?, ?, ?)",
                (
                    key,
                    named(changed_id(container_id)),
                    named(name(NameKind.CONTAINER, container)),
                    pod_key,
                ),
            )
        return pods, containers

    def _rows_of(self, table: str, columns: str, keys: Collection[int] | None) -> Iterator[Row]:
        types = {"pod": (int, str, str, str, str), "container": (int, str, str)}[table]
        for rows in self._pages_of(table, columns, keys):
            for row in rows:
                if tuple(map(type, row[: len(types)])) != types:
                    problem = f"damaged: a {table} has values of a wrong type"
                    raise RecordingError(self._source.path, problem, repair_hint(self._source.path))
                yield row

    def _pages_of(
        self, table: str, columns: str, keys: Collection[int] | None
    ) -> Iterator[list[Row]]:
        query = f"SELECT key, {columns} FROM {table} WHERE"
        if keys is not None:
            for chunk in chunks(sorted(keys)):
                yield self._source.rows(f"{query} key IN {listed(chunk)} ORDER BY key")
            return
        after = 0
        while True:
            rows = self._source.rows(f"{query} key > ? ORDER BY key LIMIT ?", (after, PAGE))
            with recording_errors(self._source):
                page = list(in_order(rows, (after,)))
            yield page
            if len(page) < PAGE:
                return
            after = page[-1][0]

    # -- gaps, notes, marks, outcomes -------------------------------------------------------

    def gaps(self, extra: Iterable[tuple[int, int, str, int | None]]) -> int:
        """Write the original's gaps and ``extra``, which are (from, to, reason, lost events).

        Returns the number of gaps written.
        """
        gaps = [gap for gap in self._source.gaps() if self._has(gap.session)]
        kept = sorted((gap for gap in gaps if gap.id > 0), key=lambda gap: gap.id)
        # The original has no rows for gaps between sessions.
        extra = [
            *((gap.from_ns, gap.to_ns, gap.reason, gap.lost) for gap in gaps if gap.id <= 0),
            *extra,
        ]
        newest = max((gap.id for gap in kept), default=0)
        for number, (from_ns, to_ns, reason, lost) in enumerate(extra, newest + 1):
            kept.append(Gap(number, None, from_ns, to_ns, reason, lost))
        self._connection.executemany(
            "INSERT INTO gap (id, session, from_ns, to_ns, reason, lost) VALUES (?, ?, ?, ?, ?, ?)",
            (astuple(replace(gap, reason=self._text(gap.reason, "gap.reason"))) for gap in kept),
        )
        return len(kept)

    def notes(self, extra: Iterable[tuple[int, str]]) -> None:
        """Write the original's notes and ``extra``, which are (time, text)."""
        kept = sorted(
            (note for note in self._source.notes() if self._has(note.session)),
            key=lambda note: note.id,
        )
        newest = max((note.id for note in kept), default=0)
        kept += [
            Note(number, None, at_ns, text)
            for number, (at_ns, text) in enumerate(extra, newest + 1)
        ]
        self._connection.executemany(
            "INSERT INTO note (id, session, at_ns, text) VALUES (?, ?, ?, ?)",
            ((note.id, note.session, note.at_ns, self._note(note.text)) for note in kept),
        )

    def _note(self, text: str) -> str:
        return text if text == REDACTED else self._text(text, "note.text")

    def marks(self, marks: Iterable[Mark]) -> None:
        """Write the marks of copied events, in order."""
        self._connection.executemany(
            "INSERT INTO mark (event, made_ns, comment) "
            "SELECT id, ?, ? FROM event WHERE id = ? AND at_ns = ?",
            (
                (mark.made_ns, self._text(mark.comment, "mark.comment"), mark.event, mark.at_ns)
                for mark in sorted(marks)
                if self._part.kept is None or is_among(self._part.kept, mark.event)
            ),
        )

    def outcomes(self) -> None:
        """Write the outcomes of copied operations, since events that show them may be omitted."""
        is_part = bool(self._source.rows("SELECT 1 FROM outcome LIMIT 1"))
        if self._part.kept is None and not is_part:
            return
        creations = Creations(self._source)
        copied = self._connection.execute(
            "SELECT e.id FROM event AS e JOIN name AS n ON n.id = e.event "
            f"WHERE n.text IN {OPERATION_EVENTS} ORDER BY e.id"
        ).fetchall()
        for (number,) in copied:
            try:
                event = self._source.event(number)
                found = UNKNOWN if event is None else creations.outcome(event)
            except RecordingError as error:
                # The outcome of this and later operations cannot be read.
                self._part.damage = self._part.damage or error
                return
            if found.fate is not CreationFate.UNKNOWN:
                self._connection.execute(INSERT_OUTCOME, (number, *found.row))

    # -- transport data of events -----------------------------------------------------------

    def tapped(self, events: Sequence[int]) -> None:
        """Write the transport data of these events, whose rows must exist."""
        for one in tapped(self._source, events):
            metadata = metadata_json(tuple(self._keyed(key, value) for key, value in one.metadata))
            if one.held_ns is not None:
                self._connection.execute(INSERT_TAPPED, (one.event, one.held_ns, metadata))
            elif metadata is not None:
                self._connection.execute(INSERT_METADATA, (one.event, metadata))

    def output(self) -> None:
        """Write the lines printed by plugins."""
        self._connection.executemany(
            "INSERT INTO output (id, session, at_ns, stream, text) VALUES (?, ?, ?, ?, ?)",
            (
                (
                    line.id,
                    line.session,
                    line.at_ns,
                    named(line.stream),
                    self._text(line.text, "output.text"),
                )
                for line in printed_in(self._source, self._part)
            ),
        )

    def plugin_calls(self) -> None:
        """Write the calls by the runtime's metrics, if the whole recording is copied: they do not
        tell which pods they were about.
        """
        if self._part.kept is not None or self._part.sessions is not None:
            return
        self._connection.executemany(
            INSERT_PLUGIN_CALLS,
            (
                (
                    one.since_ns,
                    named(self._change.name(NameKind.PLUGIN, one.plugin)),
                    named(one.operation),
                    one.until_ns,
                    one.counts.calls,
                    one.counts.errors,
                    one.counts.took_ns,
                )
                for one in plugin_calls(self._source)
            ),
        )

    def _keyed(self, key: str, value: str) -> tuple[str, str]:
        key, value = self._change.keyed(key, value, "tapped.metadata")
        return storable(key), storable(value)

    def _text(self, text: str, place: str) -> str:
        return (
            text if text in _FIXED_REASONS or not text else storable(self._change.text(text, place))
        )
