# SPDX-License-Identifier: Apache-2.0
"""Recorder that stores everything in lists."""

from __future__ import annotations

from nri_scope.capture.sink import Sink
from nri_scope.events import CapturedCall, SessionStart


class ListSink(Sink):
    """Stores what a tap records, by kind and in order."""

    def __init__(self) -> None:
        self.starts: list[SessionStart] = []
        self.events: list[tuple[int, CapturedCall]] = []
        self.ends: list[tuple[int, str]] = []
        self.notes: list[tuple[int | None, str]] = []
        self.gaps: list[tuple[int | None, str]] = []
        self.lines: list[tuple[int, int, str, str]] = []

    def begin_session(self, start: SessionStart) -> int:
        self.starts.append(start)
        return len(self.starts)

    def capture(self, session: int, item: CapturedCall) -> None:
        self.events.append((session, item))

    def end_session(self, session: int, reason: str, at_ns: int) -> None:
        self.ends.append((session, reason))

    def note_gap(
        self, session: int | None, from_ns: int, to_ns: int, reason: str, lost: int | None
    ) -> None:
        assert from_ns <= to_ns
        self.gaps.append((session, reason))

    def note(self, session: int | None, at_ns: int, text: str) -> None:
        self.notes.append((session, text))

    def printed(self, session: int, at_ns: int, stream: str, text: str) -> None:
        self.lines.append((session, at_ns, stream, text))

    @property
    def items(self) -> list[CapturedCall]:
        """Events of all sessions."""
        return [item for _, item in self.events]

    @property
    def methods(self) -> list[str]:
        """Methods of these events."""
        return [item.method for item in self.items]
