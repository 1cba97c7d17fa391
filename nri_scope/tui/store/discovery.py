# SPDX-License-Identifier: Apache-2.0
"""Facts of a recording as a whole, collected in a thread: events, and facts for a title.

The first look only finds the oldest and the newest event. The walk then reads all events;
later ones are found after its end.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nri_scope.events import Role
from nri_scope.recording import display
from nri_scope.recording.event_pages import (
    Damage,
    Matches,
    NumberRuns,
    Question,
    RecordingState,
    SessionTables,
    look,
    matching,
    walk,
)
from nri_scope.recording.log_rows import Log
from nri_scope.recording.reader import Recording
from nri_scope.text.escape import safe

from .markers import MarkerPlaces, RowMarker

_RUNTIME_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a recording for the title."""

    path: Path
    kind: str
    """``live``, ``recording``, ``replay`` or ``tap``."""
    runtime: str
    """``containerd 2.1.9, NRI 0.12.0`` of the newest session, if possible of one that shows the NRI
    version; safe to show; "" without any."""
    sessions: int
    connected: int
    """Number of sessions that have not ended, as far as the recording shows."""
    events: int
    """Number of events; exact once the view of everything is complete."""
    first_ns: int
    """Wall clock time of the first event; 0 without events."""
    last_ns: int
    gaps: int
    lost: int
    """Number of lost events according to gaps."""
    lost_unknown: bool
    """Whether there are gaps with an unknown number of lost events."""
    growing: bool
    """Whether it is being written, or its writer was killed. (Not while it waits for its
    runtime to return: see ``connected``.)"""
    damage: str
    """Why the recording cannot be read to its end, in words; "" if it can."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The result of a `Store.refresh`; false if nothing changed."""

    events: int = 0
    """Number of new events."""
    removed: bool = False
    """Whether the oldest events were removed."""
    between: bool = False
    """Whether gaps or sessions were added or changed."""
    moved: bool = False
    """Whether more was found out about existing events, so that rows may have moved."""

    def __bool__(self) -> bool:
        return bool(self.events) or self.removed or self.between or self.moved


def facts_of(path: Path, look: RecordingState, *, events: int, damage: str, live: bool) -> Facts:
    """Return the known facts of a recording."""
    sessions = look.sessions
    # Events left out of a part of a recording were not lost; they have rows of their own.
    gaps = [gap for gap in look.gaps if not gap.is_left_out]
    # A CRI session contains nothing about NRI; plugin connections beside it do.
    newest = max(sessions, key=lambda one: (one.role != Role.CRI, one.id), default=None)
    runtime = display.runtime(newest) if newest is not None else ""
    return Facts(
        path=path,
        kind="live" if live else _kind({session.role for session in sessions}),
        runtime=safe(runtime[: 4 * _RUNTIME_WIDTH], _RUNTIME_WIDTH),
        sessions=len(sessions),
        connected=sum(session.ended_ns is None for session in sessions),
        events=events,
        first_ns=look.first_ns,
        last_ns=look.last_ns,
        gaps=len(gaps),
        lost=sum(gap.lost or 0 for gap in gaps),
        lost_unknown=any(gap.lost is None for gap in gaps),
        growing=live or look.growing,
        damage=damage,
    )


def _kind(roles: set[str]) -> str:
    if Role.TAP in roles:
        return "tap"
    return "replay" if roles == {Role.REPLAY} else "recording"


_STRETCHES = 3
"""Maximum stretches of new events read at once; the rest follows in the next refresh."""


@dataclass(frozen=True, slots=True)
class WalkEnded:
    """The walk through all events has ended."""


@dataclass(frozen=True, slots=True)
class RecordingNews:
    """Changes of a recording."""

    look: RecordingState
    between: tuple[RowMarker, ...]
    runs: tuple[tuple[int, int], ...] = ()
    """Ranges of new events, once the walk is over."""
    damage: Damage | None = None
    """Damage found among these."""
    matches: tuple[Matches | Damage, ...] = ()
    """An answer to each of the queries."""


class EventDiscovery:
    """Finds events, for use by one thread."""

    def __init__(self) -> None:
        self._tables = SessionTables()
        self._places = MarkerPlaces()
        self._log: Log | None = None
        self._walked = False
        self._damaged = False
        self._last = 0
        """The last reported event; there may be more after it if ``more``."""
        self._more = False

    def first(self, recording: Recording) -> RecordingNews:
        """Return the first look. Raises RecordingError."""
        self._log = Log(recording)
        self._log.has_new_rows()
        return self._look(recording)

    def walk(self, recording: Recording) -> Iterator[NumberRuns | Damage | WalkEnded]:
        """Walk through all events."""
        for step in walk(recording, self._last):
            if isinstance(step, Damage):
                self._damaged = True
            else:
                self._last = step.runs[-1][1]
            yield step
        self._walked = True
        yield WalkEnded()

    def news(
        self, recording: Recording, questions: Sequence[tuple[Question, int]]
    ) -> RecordingNews | None:
        """Return the changes; None if there are none.

        ``questions``: queries with the event up to which they are answered. Raises RecordingError.
        """
        assert self._log is not None
        changed = self._log.has_new_rows()
        if not (changed or self._more or any(known < self._until for _, known in questions)):
            return None
        # After any error, everything will be requested again.
        self._more = True
        news = self._look(recording)
        runs: list[tuple[int, int]] = []
        damage: Damage | None = None
        more = False
        if self._walked and not self._damaged:
            steps = list(islice(walk(recording, self._last), _STRETCHES))
            runs = [run for step in steps if isinstance(step, NumberRuns) for run in step.runs]
            damage = next((step for step in steps if isinstance(step, Damage)), None)
            more = len(steps) == _STRETCHES and damage is None
        last = runs[-1][1] if runs else self._last
        until = last if self._walked else 0
        answers = tuple(_answer(recording, *question, until) for question in questions)
        self._last, self._more = last, more
        self._damaged = self._damaged or damage is not None
        return RecordingNews(news.look, news.between, tuple(runs), damage, answers)

    @property
    def _until(self) -> int:
        """Return the event up to which views can be answered."""
        return self._last if self._walked else 0

    def _look(self, recording: Recording) -> RecordingNews:
        seen = look(recording, self._tables)
        return RecordingNews(seen, self._places.between(recording, seen))


def _answer(recording: Recording, question: Question, known: int, until: int) -> Matches | Damage:
    numbers = array("q")
    for step in matching(recording, question, known, until):
        if isinstance(step, Damage):
            return step
        numbers += step.numbers
    return Matches(numbers, max(known, until))
