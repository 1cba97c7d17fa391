# SPDX-License-Identifier: Apache-2.0
"""Events that come before there is a file for them."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns

from nri_scope.events import Captured, SessionStart
from nri_scope.recorder.sink import Sink

WAITING_BYTES = 16 << 20
"""What may wait, payloads and a fixed share for each entry; later entries are counted as lost."""

ENTRY_BYTES = 500
"""Bytes that an entry takes beside its payload, roughly."""

REASON = "the recording could not be opened in time"


class DeferredSink:
    """Keeps what the logger hands over until there is a recorder to take it."""

    def __init__(self, waiting_bytes: int = WAITING_BYTES) -> None:
        self._sink: Sink | None = None
        self._room = waiting_bytes
        self._waiting: list[Callable[[Sink], None]] = []
        self._sessions: dict[int | None, int | None] = {None: None}
        self._lost = 0
        self._lost_since = 0

    def attach(self, sink: Sink) -> None:
        """Hand over all that has waited, and pass everything on from now on."""
        for deliver in self._waiting:
            deliver(sink)
        self._waiting.clear()
        if self._lost_since:
            sink.note_gap(None, self._lost_since, time_ns(), REASON, self._lost)
        self._sink = sink

    def begin_session(self, start: SessionStart) -> int:
        """See `Recorder.begin_session`."""
        handle = len(self._sessions)
        self._sessions[handle] = None

        def deliver(sink: Sink) -> None:
            self._sessions[handle] = sink.begin_session(start)

        # Never refused: what follows needs it, and a runtime begins few.
        self._do(deliver, 0)
        return handle

    def capture(self, session: int, item: Captured) -> None:
        """See `Recorder.capture`."""

        def deliver(sink: Sink) -> None:
            known = self._sessions[session]
            assert known is not None
            sink.capture(known, item)

        if not self._do(deliver, len(item.request) + len(item.reply) + ENTRY_BYTES):
            self._lost += 1

    def end_session(self, session: int, reason: str, at_ns: int) -> None:
        """See `Recorder.end_session`."""

        def deliver(sink: Sink) -> None:
            known = self._sessions[session]
            assert known is not None
            sink.end_session(known, reason, at_ns)

        self._do(deliver, 0)

    def note_gap(
        self, session: int | None, from_ns: int, to_ns: int, reason: str, lost: int | None
    ) -> None:
        """See `Recorder.note_gap`."""
        self._do(
            lambda sink: sink.note_gap(self._sessions[session], from_ns, to_ns, reason, lost),
            ENTRY_BYTES,
        )

    def note(self, session: int | None, at_ns: int, text: str) -> None:
        """See `Recorder.note`."""
        self._do(
            lambda sink: sink.note(self._sessions[session], at_ns, text), ENTRY_BYTES + len(text)
        )

    def _do(self, deliver: Callable[[Sink], None], size: int) -> bool:
        if self._sink is not None:
            deliver(self._sink)
        elif size > self._room:
            self._lost_since = self._lost_since or time_ns()
            return False
        else:
            self._room -= size
            self._waiting.append(deliver)
        return True
