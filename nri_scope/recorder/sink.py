# SPDX-License-Identifier: Apache-2.0
"""Interfaces of a recorder: its input, and redaction before it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from nri_scope.events import CapturedCall, SessionStart

if TYPE_CHECKING:
    from .inbox import ControlEntry


class Sink(Protocol):
    """Receiver of sessions and their exchanges. No method blocks or raises."""

    def begin_session(self, start: SessionStart) -> int: ...
    def capture(self, session: int, item: CapturedCall) -> None: ...
    def end_session(self, session: int, reason: str, at_ns: int) -> None: ...
    def note_gap(
        self, session: int | None, from_ns: int, to_ns: int, reason: str, lost: int | None
    ) -> None: ...
    def note(self, session: int | None, at_ns: int, text: str) -> None: ...


class PrintSink(Sink, Protocol):
    """`Sink` that also receives lines printed by plugins."""

    def printed(self, session: int, at_ns: int, stream: str, text: str) -> None: ...


class EntryRedaction(Protocol):
    """Redaction of all data before a recorder writes it; called in the writer thread."""

    def redact_call(self, call: CapturedCall) -> CapturedCall: ...
    def redact_entry(self, entry: ControlEntry) -> ControlEntry: ...
