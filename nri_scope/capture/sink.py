# SPDX-License-Identifier: Apache-2.0
"""What a recorder is given, and counts of what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import NamedTuple, Protocol

from nri_scope.entries import CallsByMetrics
from nri_scope.events import CapturedCall, Gap, Note, Printed, SessionStart
from nri_scope.text.quantities import many


class Sink:
    """Receiver of sessions, their exchanges and other entries.

    Recorders of live traffic neither block nor raise, as an event loop calls them;
    `CompleteRecording` does both.
    """

    def begin_session(self, start: SessionStart) -> int:
        """Begin a session; return its number in this sink."""
        raise NotImplementedError

    def capture(self, session: int, item: CapturedCall) -> None:
        """Record an exchange of a session."""
        raise NotImplementedError

    def put_control(self, entry: ControlEntry) -> None:
        """Queue or add an entry with the session numbers of this sink."""
        raise NotImplementedError

    def end_session(self, session: int, reason: str, at_ns: int) -> None:
        """Record that the session's connection is closed."""
        self.put_control(End(session, reason, at_ns))

    def note_gap(
        self, session: int | None, from_ns: int, to_ns: int, reason: str, lost: int | None
    ) -> None:
        """Record an interval that was not observed. ``lost``: number of lost events; None if
        unknown.
        """
        self.put_control(Gap(0, session, from_ns, to_ns, reason, lost))

    def note(self, session: int | None, at_ns: int, text: str) -> None:
        """Record a note."""
        self.put_control(Note(0, session, at_ns, text))

    def printed(self, session: int, at_ns: int, stream: str, text: str) -> None:
        """Record a line printed by a plugin. A full queue drops it without counting it."""
        self.put_control(Printed(0, session, at_ns, stream, text))


class EntryRedaction(Protocol):
    """Redaction of all data before a recorder writes it; called in the writer thread."""

    def redact_call(self, call: CapturedCall) -> CapturedCall: ...
    def redact_entry(self, entry: ControlEntry) -> ControlEntry: ...


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin of a session."""

    session: int
    start: SessionStart
    synced_ns: int | None = None
    """Of a copied session: arrival of its newest Synchronize, whose event may not be copied."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Continuation of a session whose recorder was killed, with its unwritten events."""

    session: int
    start: SessionStart
    received: int
    """Number of the session's events sent to the killed recorder, including those reported to it as
    lost.
    """
    confirmed: int
    """Number of the first of these events, which that recorder reported as written or filtered."""
    to_ns: int
    """Time of the last of these events."""
    reason: str


@dataclass(frozen=True, slots=True)
class End:
    """End of a session."""

    session: int
    reason: str
    at_ns: int | None
    """None if the recorder was killed before the end."""


@dataclass(frozen=True, slots=True)
class ShownLine:
    """Line printed by a plugin, to be printed but not recorded."""

    at_ns: int
    plugin: str
    stream: str
    text: str


ControlEntry = Begin | Resume | End | Gap | Note | Printed | ShownLine | CallsByMetrics
"""Queue entries other than events."""
Queued = tuple[int, CapturedCall] | ControlEntry


class RecorderCounters(NamedTuple):
    """Numbers of recorded, filtered, lost and removed events, and of gaps and bytes."""

    recorded: int = 0
    """Number of events written to the file."""
    filtered: int = 0
    """Number of events that ``keep`` rejected."""
    lost: int = 0
    """Number of lost events, without gaps of unknown size."""
    gaps: int = 0
    bytes_on_wire: int = 0
    """Payload bytes of all received requests and replies, recorded or not."""
    removed: int = 0
    """Number of recorded events that the ring has removed."""

    def outcome(self, path: Path | None, sessions: int, seconds: float) -> str:
        """Return ``recorded 32 events in 1 session over 5 s, 0 gaps: PATH``, plus the numbers of
        lost and removed events if there are any. ``path``: None for a private file.
        """
        lost = f" ({many(self.lost, 'event')} lost)" if self.lost else ""
        removed = f", {many(self.removed, 'event')} removed again" if self.removed else ""
        suffix = "" if path is None else f": {path}"
        return (
            f"recorded {many(self.recorded, 'event')} in {many(sessions, 'session')} "
            f"over {seconds:.0f} s{removed}, {many(self.gaps, 'gap')}{lost}{suffix}"
        )


def wall_offset() -> int:
    """Return the wall clock minus the monotonic clock, in nanoseconds.

    Sessions of one recording are ordered by time, so the result must not depend on a pause of this
    process between reading the two clocks: the fastest of three measurements is used.
    """
    measured = []
    for _ in range(3):
        before, wall, after = monotonic_ns(), time_ns(), monotonic_ns()
        measured.append((after - before, wall - (before + after) // 2))
    return min(measured)[1]
