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
from nri_scope.recording.sqlite_errors import holds, sound
from nri_scope.recording.writable_file import MAY_HAVE_EFFECTS

from .event_numbers import CHUNK, chunks, listed

_PAGE = 2_000


class Effects:
    """The table ``effect`` of a recording, or a substitute for recordings without it.

    Methods raise RecordingError.
    """

    def __init__(self, source: Recording) -> None:
        self._source = source
        self._of: dict[int, tuple[int, ...]] = {}
        self._on: dict[int, list[int]] = {}
        self._has_table = holds(source, "effect")
        if self._has_table:
            self.is_empty = not source.rows("SELECT 1 FROM effect LIMIT 1")
        else:
            # Copying the events will fail at the same damage, and stop there.
            with suppress(RecordingError):
                self._look_through()
            self.is_empty = not self._of

    def of(self, events: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield containers (keys) with the event, for ascending events, ordered by event."""
        if self.is_empty:
            return
        if not self._has_table:
            yield from ((key, event) for event in events for key in self._of.get(event, ()))
            return
        with sound(self._source):
            for chunk in chunks(events):
                for container, event in self._source.rows(
                    "SELECT container, event FROM effect "
                    f"WHERE event IN {listed(chunk)} ORDER BY event, container"
                ):
                    yield number_of((container,)), number_of((event,))

    def on(self, container: int, after: int, until: int) -> Iterator[int]:
        """Yield events with an effect on a container, above ``after`` and up to ``until``."""
        if self.is_empty:
            return
        if not self._has_table:
            yield from (event for event in self._on.get(container, ()) if after < event <= until)
            return
        while True:
            rows = self._source.rows(
                "SELECT event FROM effect WHERE container = ? AND event > ? AND event <= ? "
                "ORDER BY event LIMIT ?",
                (container, after, until, _PAGE),
            )
            with sound(self._source):
                events = [number_of(row) for row in rows]
            yield from events
            if len(events) < _PAGE or events[-1] <= after:
                return
            after = events[-1]

    def _look_through(self) -> None:
        """Derive the effects from replies, for older recordings without such a table."""
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
                self._of[event.id] = tuple(keys)
                for key in keys:
                    self._on.setdefault(key, []).append(event.id)

    def _keys(self, container_id: str) -> Iterable[int]:
        rows = self._source.rows(
            "SELECT key FROM container WHERE id = ? ORDER BY key LIMIT ?", (container_id, CHUNK)
        )
        with sound(self._source):
            return [number_of(row) for row in rows]
