# SPDX-License-Identifier: Apache-2.0
"""The overview of a recording, collected in a thread: numbers of events, and facts for the title.

The first look only finds the oldest and newest event. The walk then reads all events. Events added
meanwhile are found after its end.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from pathlib import Path

from nri_scope.events import Gap, Role, Session
from nri_scope.filter import TimeSpan
from nri_scope.recording import display
from nri_scope.recording.query.coverage import NOTHING, Coverage, coverage
from nri_scope.recording.query.event_pages import (
    Damage,
    MatchingEvents,
    NumberRuns,
    Question,
    RecordingState,
    SessionTables,
    look,
    matching,
    walk,
)
from nri_scope.recording.query.log_rows import Log
from nri_scope.recording.reading.reader import Recording
from nri_scope.report.finding import Finding, Level
from nri_scope.text.escape import safe
from nri_scope.text.quantities import many

from .markers import MarkerPlaces, RowMarker

_RUNTIME_COLUMNS = 100
"""Maximum columns of the runtime's name and versions."""


class RecordingKind(Enum):
    """The origin of a recording's events, by its title."""

    LIVE = "live"
    RECORDING = "recorded"
    REPLAY = "replay"
    TAP = "tap"
    SCENARIO = "scenario, not observed"


@dataclass(frozen=True, slots=True)
class RecordingOverview:
    """Facts of a recording, for the title."""

    path: Path
    kind: RecordingKind
    runtime: str
    """``containerd 2.1.9, NRI 0.12.0`` of the newest session, preferably an NRI session; safe to
    show; "" without sessions."""
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
    """Number of lost events according to the gaps."""
    lost_unknown: bool
    """Whether any gap has an unknown number of lost events."""
    growing: bool
    """Whether the file is being written, or its writer was killed. False while the recorder waits
    for the runtime to return: see ``connected``."""
    damage: str
    """Why the recording cannot be read to its end; "" if it can."""
    redacted: bool
    """Whether the recording says that it was redacted."""
    coverage: Coverage = NOTHING
    """What was observed."""

    @property
    def span(self) -> TimeSpan | None:
        """Times of the first and the last event; None without events."""
        return TimeSpan(self.first_ns, self.last_ns or self.first_ns) if self.first_ns else None


@dataclass(frozen=True, slots=True)
class Growth:
    """Result of `Store.refresh`; false if nothing changed."""

    events: int = 0
    """Number of new events."""
    removed: bool = False
    """Whether the oldest events were removed."""
    between: bool = False
    """Whether gaps or sessions were added or changed."""
    moved: bool = False
    """Whether more about existing events was found, so that rows may have moved."""
    regrouped: bool = False
    """Whether all operations are new, so that views of them must be created anew."""

    def __bool__(self) -> bool:
        return bool(self.events) or self.removed or self.between or self.moved or self.regrouped


def facts_of(
    path: Path, state: RecordingState, *, events: int, damage: str, recorder_runs: bool | None
) -> RecordingOverview:
    """Return the known facts of a recording.

    ``recorder_runs``: whether this program's recorder runs; None if another program records.
    """
    sessions = state.sessions
    # Events left out of an extract were not lost; they have rows of their own.
    gaps = [gap for gap in state.gaps if not gap.is_left_out]
    # Prefer plugin connections: a CRI session does not show the NRI version.
    newest = max(sessions, key=lambda session: (session.is_connection, session.id), default=None)
    runtime = display.runtime(newest) if newest is not None else ""
    # The kind says so.
    runtime = runtime.removesuffix(display.OF_SCENARIO)
    return RecordingOverview(
        path=path,
        kind=RecordingKind.LIVE if recorder_runs else _kind({session.role for session in sessions}),
        runtime=safe(runtime[: 4 * _RUNTIME_COLUMNS], _RUNTIME_COLUMNS),
        sessions=len(sessions),
        connected=sum(session.ended_ns is None for session in sessions),
        events=max(0, events - state.cri_answers),
        first_ns=state.first_ns,
        last_ns=state.last_ns,
        gaps=len(gaps),
        lost=sum(gap.lost or 0 for gap in gaps),
        lost_unknown=any(gap.lost is None for gap in gaps),
        growing=state.growing if recorder_runs is None else recorder_runs,
        damage=damage,
        redacted=state.redacted,
    )


def _kind(roles: set[str]) -> RecordingKind:
    if Role.TAP in roles:
        return RecordingKind.TAP
    if roles == {Role.SCENARIO}:
        return RecordingKind.SCENARIO
    return RecordingKind.REPLAY if roles == {Role.REPLAY} else RecordingKind.RECORDING


_MAX_STEPS = 3
"""Maximum steps of the walk per refresh; more new events are read in the next one."""


@dataclass(frozen=True, slots=True)
class WalkEnded:
    """Last step of the walk through all events."""


@dataclass(frozen=True, slots=True)
class RecordingNews:
    """The state of a recording after a change."""

    look: RecordingState
    between: tuple[RowMarker, ...]
    coverage: Coverage
    runs: tuple[tuple[int, int], ...] = ()
    """Ranges of new event numbers, after the end of the walk."""
    damage: Damage | None = None
    """Damage found in reading ``runs``."""
    matches: tuple[MatchingEvents | Damage, ...] = ()
    """New matches of each query, in order."""


class EventDiscovery:
    """Finder of events and facts, used by one thread."""

    def __init__(self) -> None:
        self._tables = SessionTables()
        self._places = MarkerPlaces()
        self._log: Log | None = None
        self._walked = False
        self._damaged = False
        self._tables_covered: tuple[tuple[Session, ...], tuple[Gap, ...]] = (), ()
        self._coverage = NOTHING
        """What was observed according to these sessions and gaps."""
        self.last = 0
        """Number of the last reported event; there may be later ones if ``_more``."""
        self._more = False

    def first(self, recording: Recording) -> RecordingNews:
        """Return the initial state, without event numbers. Raises RecordingError."""
        self._log = Log(recording)
        self._log.has_new_rows()
        return self._look(recording)

    def walk(self, recording: Recording) -> Iterator[NumberRuns | Damage | WalkEnded]:
        """Yield the numbers of all events in steps, or damage, and `WalkEnded`."""
        for step in walk(recording, self.last):
            if isinstance(step, Damage):
                self._damaged = True
            else:
                self.last = step.runs[-1][1]
            yield step
        self._walked = True
        yield WalkEnded()

    def news(
        self, recording: Recording, questions: Sequence[tuple[Question, int]]
    ) -> RecordingNews | None:
        """Return the new state; None if nothing changed. Raises RecordingError.

        ``questions``: queries, each with the number of the last event already examined.
        """
        assert self._log is not None
        changed = self._log.has_new_rows()
        if not (changed or self._more or any(known < self._until for _, known in questions)):
            return None
        # If this raises, the next call must not report that nothing changed.
        self._more = True
        news = self._look(recording)
        runs: list[tuple[int, int]] = []
        damage: Damage | None = None
        more = False
        if self._walked and not self._damaged:
            steps = list(islice(walk(recording, self.last), _MAX_STEPS))
            runs = [run for step in steps if isinstance(step, NumberRuns) for run in step.runs]
            damage = next((step for step in steps if isinstance(step, Damage)), None)
            more = len(steps) == _MAX_STEPS and damage is None
        last = runs[-1][1] if runs else self.last
        until = last if self._walked else 0
        answers = tuple(_answer(recording, *question, until) for question in questions)
        self.last, self._more = last, more
        self._damaged = self._damaged or damage is not None
        return replace(news, runs=tuple(runs), damage=damage, matches=answers)

    @property
    def _until(self) -> int:
        """Number of the last event up to which queries can be answered."""
        return self.last if self._walked else 0

    def _look(self, recording: Recording) -> RecordingNews:
        seen = look(recording, self._tables)
        tables = seen.sessions, seen.gaps
        if self._tables_covered != tables:
            self._tables_covered, self._coverage = tables, coverage(recording)
        return RecordingNews(seen, self._places.between(recording, seen), self._coverage)


def _answer(
    recording: Recording, question: Question, known: int, until: int
) -> MatchingEvents | Damage:
    numbers = array("q")
    for step in matching(recording, question, known, until):
        if isinstance(step, Damage):
            return step
        numbers += step.numbers
    return MatchingEvents(numbers, max(known, until))


_MANY_BEHIND = 1_000
"""Minimum number of events to be reported as missing: of some seconds with many events."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """Findings, and the progress of the survey."""

    share: float | None = None
    """Share of the events that the first pass has read, 0 to 1; None if no survey was started."""
    findings: tuple[Finding, ...] = ()
    """The findings of the last complete pass, the worst first."""
    passes: int = 0
    """Number of complete passes."""
    behind: int = 0
    """Number of the newest events that were not analysed yet, at most: numbers may be missing."""
    problem: str = ""
    """Why some or all events were not analysed; "" if they were."""

    @property
    def words(self) -> str:
        """``1 problem, 2 warnings``, and what is `missing`; "" without both."""
        levels = [finding.level for finding in self.findings]
        parts = [many(levels.count(each), each) for each in Level if each in levels]
        missing = f"! {self.missing}" if self.problem else self.missing
        return ", ".join(filter(None, [*parts, missing]))

    @property
    def missing(self) -> str:
        """``analysing 40%``, ``analysing 5,000 more events`` or ``not all analysed``; "" if at most
        few events are missing.
        """
        if self.problem:
            return "not all analysed"
        if self.share is not None and not self.passes:
            return f"analysing {self.share:.0%}"
        return f"analysing {self.behind:,} more events" if self.behind >= _MANY_BEHIND else ""

    def titles(self, *events: int | None) -> tuple[str, ...]:
        """Return the titles of the findings that show one of these among their first events."""
        shown = {*events}
        return tuple(each.title for each in self.findings if not shown.isdisjoint(each.events))
