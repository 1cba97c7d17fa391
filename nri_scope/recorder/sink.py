# SPDX-License-Identifier: Apache-2.0
"""What a recorder is to those who feed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from nri_scope.events import Captured, SessionStart

if TYPE_CHECKING:
    from .inbox import Told


class Sink(Protocol):
    """Where sessions and their exchanges go. None of it blocks or raises."""

    def begin_session(self, start: SessionStart) -> int: ...
    def capture(self, session: int, item: Captured) -> None: ...
    def end_session(self, session: int, reason: str, at_ns: int) -> None: ...
    def note_gap(
        self, session: int | None, from_ns: int, to_ns: int, reason: str, lost: int | None
    ) -> None: ...
    def note(self, session: int | None, at_ns: int, text: str) -> None: ...


class PrintSink(Sink, Protocol):
    """One that also takes what plugins print."""

    def printed(self, session: int, at_ns: int, stream: str, text: str) -> None: ...


class SourceRedaction(Protocol):
    """Replace credentials before a recorder writes anything; called in the writer's thread."""

    def captured(self, item: Captured) -> Captured: ...
    def told(self, entry: Told) -> Told: ...
