# SPDX-License-Identifier: Apache-2.0
"""A sink that keeps what a recorder would write, and calls for it."""

from __future__ import annotations

from nri_scope.capture.sink import Sink
from nri_scope.events import CapturedCall, SessionStart
from nri_scope.plugin import HandledCall
from nri_scope.wire import RequestReceived


class ListSink(Sink):
    """Stores what a recorder would write."""

    def __init__(self) -> None:
        self.sessions: list[SessionStart] = []
        self.captured: list[tuple[int, CapturedCall]] = []
        self.ends: list[tuple[int, str]] = []
        self.ended_ns: list[int] = []
        self.gaps: list[tuple[int | None, str, int | None]] = []
        self.gap_times: list[tuple[int, int]] = []
        self.notes: list[tuple[int | None, str]] = []

    def begin_session(self, start: SessionStart) -> int:
        self.sessions.append(start)
        return len(self.sessions)

    def capture(self, session: int, item: CapturedCall) -> None:
        self.captured.append((session, item))

    def end_session(self, session: int, reason: str, at_ns: int) -> None:
        self.ends.append((session, reason))
        self.ended_ns.append(at_ns)

    def note_gap(
        self, session: int | None, from_ns: int, to_ns: int, reason: str, lost: int | None
    ) -> None:
        assert from_ns <= to_ns
        self.gaps.append((session, reason, lost))
        self.gap_times.append((from_ns, to_ns))

    def note(self, session: int | None, at_ns: int, text: str) -> None:
        self.notes.append((session, text))


def exchange(method: str, *, timeout_ns: int = 0, took_ns: int = 10) -> HandledCall:
    request = RequestReceived(1, "nri.pkg.api.v1alpha1.Plugin", method, b"", timeout_ns, ())
    return HandledCall(request, b"", 0, "", 1_000, took_ns)
