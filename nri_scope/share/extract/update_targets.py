# SPDX-License-Identifier: Apache-2.0
"""Find events that requested updates of containers other than their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from nri_scope.errors import RecordingError
from nri_scope.nri.changes import targets_of
from nri_scope.nri.request_subject import decode_reply, decode_request
from nri_scope.recording.decode_budget import Allowance
from nri_scope.recording.reader import Recording
from nri_scope.recording.rows import number_of
from nri_scope.recording.sqlite_errors import recording_errors, recording_has_table
from nri_scope.recording.writable_file import MAY_HAVE_EFFECTS

from .event_numbers import CHUNK, chunks, listed

_PAGE_ROWS = 2_000


class Effects:
    """The table ``effect`` of a recording, or a substitute for recordings without this table.

    Methods raise RecordingError.
    """

    def __init__(self, source: Recording) -> None:
        self._source = source
        self._by_event: dict[int, tuple[int, ...]] = {}
        self._by_container: dict[int, list[int]] = {}
        self._has_table = recording_has_table(source, "effect")
        if self._has_table:
            self.is_empty = not source.rows("SELECT 1 FROM effect LIMIT 1")
        else:
            # Copying the events will stop at the same damage.
            with suppress(RecordingError):
                self._read_replies()
            self.is_empty = not self._by_event

    def of(self, events: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield (container key, event) for the ascending ``events``, ordered by event."""
        if self.is_empty:
            return
        if not self._has_table:
            yield from ((key, event) for event in events for key in self._by_event.get(event, ()))
            return
        with recording_errors(self._source):
            for chunk in chunks(events):
                for container, event in self._source.rows(
                    "SELECT container, event FROM effect "
                    f"WHERE event IN {listed(chunk)} ORDER BY event, container"
                ):
                    yield number_of((container,)), number_of((event,))

    def on(self, container: int, after: int, until: int) -> Iterator[int]:
        """Yield events that update a container, numbered above ``after`` and up to ``until``."""
        if self.is_empty:
            return
        if not self._has_table:
            yield from (
                event for event in self._by_container.get(container, ()) if after < event <= until
            )
            return
        while True:
            rows = self._source.rows(
                "SELECT event FROM effect WHERE container = ? AND event > ? AND event <= ? "
                "ORDER BY event LIMIT ?",
                (container, after, until, _PAGE_ROWS),
            )
            with recording_errors(self._source):
                events = [number_of(row) for row in rows]
            yield from events
            if len(events) < _PAGE_ROWS or events[-1] <= after:
                return
            after = events[-1]

    def _read_replies(self) -> None:
        """Derive the effects from replies, for older recordings without the table."""
        source = self._source
        if not source.rows(MAY_HAVE_EFFECTS):
            return
        for event, request, reply in source.exchanges(allowance=Allowance.unlimited()):
            decoded = decode_request(event.method, request)
            if event.mark or decoded.message is None:
                continue
            answer = decode_reply(event.method, reply) if reply else None
            ids = targets_of(event.method, decoded.message, answer) - {event.container_id}
            keys = sorted(key for one in ids for key in self._keys(one))
            if keys:
                self._by_event[event.id] = tuple(keys)
                for key in keys:
                    self._by_container.setdefault(key, []).append(event.id)

    def _keys(self, container_id: str) -> Iterable[int]:
        rows = self._source.rows(
            "SELECT key FROM container WHERE id = ? ORDER BY key LIMIT ?", (container_id, CHUNK)
        )
        with recording_errors(self._source):
            return [number_of(row) for row in rows]
