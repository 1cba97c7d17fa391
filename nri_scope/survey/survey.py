# SPDX-License-Identifier: Apache-2.0
"""Read a recording, also while it grows, write an attribution file and return the findings.

A survey reads each event once. But the outcome of a creation, the id of a container of iSulad, the
end of a session and a gap are recorded after the events that they concern: results depend on them,
and data recorded later may change them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from time import monotonic, process_time
from typing import NamedTuple

from nri_scope.differ.attribution.attributed_changes import WITHOUT_EFFECT, NameOf, RoundDiff
from nri_scope.differ.attribution.owner import OwnerKind
from nri_scope.differ.operations import span_words
from nri_scope.differ.recording_differ import excerpt_of_events
from nri_scope.differ.render import wording
from nri_scope.differ.render.values import clipped
from nri_scope.entries import OperationFate, OperationOutcome
from nri_scope.events import INTRODUCTION, NO_ID, Event, Gap, Problem, Session
from nri_scope.nri.events import CREATE
from nri_scope.recording.query import lookup
from nri_scope.recording.query.attribution_file import AttributionFile, Request
from nri_scope.recording.query.creation_outcomes import Creations
from nri_scope.recording.query.event_pages import SessionTables
from nri_scope.recording.query.log_rows import identity_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.report.finder import Finder, keeps_removed
from nri_scope.report.finding import Finding

WAIT_S = 10.0
"""Maximum time to wait for the outcome of a creation. Runtimes take some tens of milliseconds."""
_WATCHED_MAX = 10_000
"""Maximum number of creations whose outcome may change."""


class Assumptions:
    """Facts that were used so far. Methods raise RecordingError."""

    def __init__(self, recording: Recording, gaps: Sequence[Gap]) -> None:
        """``gaps``: the gaps of the recording that are used."""
        self._recording = recording
        self._tables = SessionTables()
        self._identity = identity_of(recording.path)
        self._gaps = [*gaps]
        self.sessions: tuple[Session, ...] = ()
        """All sessions."""
        self._joined: set[int] = set()
        """Sessions with events after their introduction."""
        self._clocks: dict[int, int] = {}
        """Difference between the two clocks in the newest event of each session, in ns."""
        self._first = 0
        self._newest: Event | None = None
        self._newest_ns = 0
        """Latest wall clock of the events that were read."""
        self._recorded_ns = 0
        """Wall clock of the newest recorded event."""
        self._creations = Creations(recording)
        self._known: dict[int, OperationOutcome] = {}
        """Outcomes that were read since `renew`, by event."""
        self._watched: dict[int, tuple[Event, OperationOutcome]] = {}
        """Creations whose outcome may change, by their first event."""
        self._of_subject: dict[str, set[int]] = {}
        """The same events, by the container and the pod whose events may change the outcome."""
        self._touched: set[int] = set()
        """Those of them whose outcome may have changed."""
        self._passed = ""
        """Container of the newest creation that was read."""
        self._waiting = 0, 0.0
        """The creation whose outcome is awaited, and since when."""

    def renew(self, first: int, newest: int) -> bool:
        """Read the newest state; return whether all facts that were used are still true.

        ``first`` and ``newest``: the first and the last event of the recording.
        """
        # Creations keeps results of searches, which new events may change.
        self._creations = Creations(self._recording)
        self._known.clear()
        last = self._recording.event(newest)
        self._recorded_ns = last.at_ns if last is not None else 0
        self._tables.read(self._recording)
        sessions = self._tables.sessions
        if any(session.failure_policy is None for session in sessions):
            # The policy is not part of the table.
            sessions = tuple(self._recording.sessions())
        earlier = {session.id: session for session in self.sessions}
        self.sessions = sessions
        self._first = self._first or first
        read = self._newest.id if self._newest is not None else 0
        return (
            # A ring has removed more events than it has kept.
            first <= (self._first + max(read, self._first)) // 2
            and newest >= read
            and identity_of(self._recording.path) == self._identity
            and [*self._tables.gaps] == self._gaps
            and all(self._is_compatible(earlier.get(session.id), session) for session in sessions)
        )

    def _is_compatible(self, old: Session | None, new: Session) -> bool:
        """Return whether no result so far depends on what is new about a session."""
        if new == old or self._newest is None or not new.is_connection:
            return True
        if old is None:
            return new.started_ns >= self._newest_ns
        end = {"ended_ns": old.ended_ns, "end_reason": old.end_reason}
        if replace(new, **end) != old and new.id in self._joined:  # type: ignore[arg-type]
            return False
        if end == {"ended_ns": new.ended_ns, "end_reason": new.end_reason}:
            return True
        if old.ended_ns is not None or old.end_reason or new.ended_ns is None:
            return False
        self._touched |= self._watched.keys()
        clock_ns = self._clocks.get(new.id, 0)
        return new.ended_ns > self._newest_ns and new.ended_ns - clock_ns >= self._newest.mono_ns

    def may_read(self, event: Event, *, waits: bool) -> bool:
        """Return whether the next event may be used now, and store that it is.

        ``waits``: whether to wait for the outcome of a creation.
        """
        if event.event == CREATE and event.container_id != self._passed:
            if waits and self._is_early(event):
                return False
            self._passed = event.container_id
        self._newest = event
        self._newest_ns = max(self._newest_ns, event.at_ns)
        self._clocks[event.session] = event.at_ns - event.mono_ns
        # Only these precede the failure policy of a session.
        if event.method not in INTRODUCTION:
            self._joined.add(event.session)
        for subject in (event.container_id, event.pod_id):
            self._touched |= self._of_subject.get(subject, set())
        return True

    def _is_early(self, event: Event) -> bool:
        """Return whether the outcome of a creation, or the container's id, may follow soon."""
        outcome = self._known[event.id] = self._creations.outcome(event)
        if _is_final(event, outcome):
            return False
        if self._waiting[0] != event.id:
            self._waiting = event.id, monotonic()
        # The clock of the recording host may differ from the clock of this one.
        waited_s = max(monotonic() - self._waiting[1], (self._recorded_ns - event.at_ns) / 1e9)
        return waited_s < WAIT_S

    def outcome(self, event: Event) -> OperationOutcome:
        """Return the outcome of the creation to which ``event`` belongs, see `Creations`."""
        outcome = self._known.get(event.id)
        if outcome is None:
            outcome = self._known[event.id] = self._creations.outcome(event)
        if outcome.fate is not OperationFate.CREATED or not _is_final(event, outcome):
            self._watch(event, outcome)
        return outcome

    def _watch(self, event: Event, outcome: OperationOutcome) -> None:
        if event.id in self._watched:
            # The result of the creation depends on its first outcome.
            return
        self._watched[event.id] = event, outcome
        for subject in _subjects(event, outcome):
            self._of_subject.setdefault(subject, set()).add(event.id)
        if len(self._watched) > _WATCHED_MAX:
            self._unwatch(next(iter(self._watched)))

    def _unwatch(self, number: int) -> None:
        for subject in _subjects(*self._watched.pop(number)):
            numbers = self._of_subject.get(subject, set())
            numbers.discard(number)
            if not numbers:
                self._of_subject.pop(subject, None)

    def are_outcomes_true(self) -> bool:
        """Return whether all outcomes that were used are those that the events now show."""
        touched, self._touched = self._touched & self._watched.keys(), set()
        for number in touched:
            event, outcome = self._watched[number]
            now = self._recording.event(number)
            if now is None:
                # A ring has removed it.
                self._unwatch(number)
            elif now.container_id != event.container_id or self._creations.outcome(now) != outcome:
                return False
        return True


def _is_final(event: Event, outcome: OperationOutcome) -> bool:
    return not event.container_id.startswith(NO_ID) and outcome.fate in (
        OperationFate.CREATED,
        OperationFate.FAILED,
    )


def _subjects(event: Event, outcome: OperationOutcome) -> tuple[str, ...]:
    # Other containers of the pod only show that a creation has failed.
    return (
        (event.container_id,) if _is_final(event, outcome) else (event.container_id, event.pod_id)
    )


_COMMIT_S = 0.5
"""Seconds between two commits, each of which makes more results visible."""
_PATHS_MAX, _PATH_MAX = 1_000, 1_000
"""Maximum number of changed paths of one event, and of characters of one path."""
_FULL = "it has more changes than can be analysed"
_OPEN_MAX = 10_000
"""Maximum number of events that are kept until the outcome of their requests is known."""
_FINAL = WITHOUT_EFFECT
"""Outcomes that later events do not change."""
_OWNERS = (OwnerKind.PLUGIN, OwnerKind.ONE_OF, OwnerKind.REQUEST)
"""Owners of requests."""


class Survey(NamedTuple):
    """Result of a pass."""

    findings: tuple[Finding, ...]
    """The findings of `report --diagnose`, the worst first."""
    until: int
    """Id of the last event that was read; 0 for none."""
    cut: str
    """Why later events were not read; "" if all were."""
    has_more: bool
    """Whether the time for the pass was over before all events were read."""


def survey(
    path: Path, into: Path, on_progress: Callable[[float, int], None] = lambda share, until: None
) -> Survey:
    """Read the recording ``path``, and write the attribution file ``into``.

    ``on_progress`` receives the share of events read, 0 to 1, and the id up to which ``into`` is
    complete. Raises RecordingError, and UsageError if ``into`` cannot be written.
    """
    with closing(SurveyRun(path, into)) as run:
        result = run.go_on(on_progress)
        assert result is not None
        return result


class SurveyRun:
    """Survey of a recording, which goes on with the new events after the recording has grown.

    Methods raise RecordingError, and UsageError if the attribution file cannot be written.
    """

    def __init__(
        self, path: Path, into: Path, is_recorded: Callable[[], bool] | None = None
    ) -> None:
        """Start before the first event, with a new attribution file ``into``.

        ``is_recorded``: test whether a recorder is writing to the recording, so that open rounds
        may be continued; None if `go_on` is called once.
        """
        self._is_recorded = is_recorded
        self._result: Survey | None = None
        """The newest result."""
        self._is_valid = True
        self._is_concluded = False
        """Whether no more events can be read."""
        with ExitStack() as stack:
            self._recording = stack.enter_context(Recording.open(path))
            self._finder = Finder(
                self._recording,
                on_round=lambda diff: self._writer.add(diff),
                outcome=lambda event: self._assumptions.outcome(event),
            )
            self._writer = _Writer(AttributionFile(into), self._finder.name_of)
            stack.callback(self._writer.close)
            self._assumptions = Assumptions(self._recording, self._finder.gaps)
            self._files = stack.pop_all()

    def go_on(
        self, on_progress: Callable[[float, int], None], *, most_s: float | None = None
    ) -> Survey | None:
        """Read the new events; return the result for all events that were read so far.

        ``most_s``: processor time in seconds for the events, after which the rest is left to the
        next call, while a recorder is writing. None, from then on, if earlier results are no longer
        valid. See `survey`.
        """
        # In this order: an event that is added in between is read in the next call.
        waits = self._is_recorded is not None and self._is_recorded()
        first, newest = lookup.event_range(self._recording)
        is_valid = self._assumptions.renew(first, newest)
        if self._is_recorded is not None:
            keeps = keeps_removed(self._recording, self._assumptions.sessions)
            is_valid = is_valid and keeps == self._finder.keeps_removed
            if self._is_concluded and self._result is not None:
                is_valid = is_valid and self._result.until == newest
            self._is_valid = self._is_valid and is_valid
        if self._is_valid and not self._is_concluded:
            waits = waits and not self._recording.is_copy
            self._read(first, newest, on_progress, waits=waits, most_s=most_s if waits else None)
        return self._result if self._is_valid else None

    def _read(
        self,
        first: int,
        newest: int,
        on_progress: Callable[[float, int], None],
        *,
        waits: bool,
        most_s: float | None,
    ) -> None:
        """Read the new events up to ``newest``. ``waits``: whether more events may follow."""
        finder, recording, assumed = self._finder, self._recording, self._assumptions
        before, end_s = finder.newest, None if most_s is None else process_time() + most_s
        has_more = False

        def may_read(event: Event) -> bool:
            nonlocal has_more
            has_more = end_s is not None and process_time() > end_s and finder.newest > before
            return not has_more and assumed.may_read(event, waits=waits)

        def progress(share: float) -> None:
            self._writer.commit()
            on_progress(share, self._writer.until)

        with warnings.catch_warnings(record=True) as cuts:
            warnings.simplefilter("always")
            self._writer.file.remove(first)
            finder.learn(assumed.sessions)
            finder.read(progress, until=newest, may_read=may_read)
            if self._is_recorded is not None and not assumed.are_outcomes_true():
                self._is_valid = False
                return
            if not waits:
                finder.conclude()
            elif finder.newest == lookup.event_range(recording)[1]:
                finder.conclude(only_over=True)
        cut = str(cuts[0].message).removeprefix(f"{recording.path}: ") if cuts else ""
        cut = cut or (_FULL if self._writer.is_full else "")
        if not cut:
            self._writer.until = finder.complete_until if waits else newest
        self._writer.commit(now=True)
        on_progress(1.0, self._writer.until)
        self._result = Survey(finder.diagnosed().findings, self._writer.until, cut, has_more)
        self._is_concluded = bool(cut) or not waits

    def close(self) -> None:
        """Close the files."""
        self._files.close()


def survey_some(recording: Recording, events: Sequence[Event], into: Path) -> None:
    """Write the attribution file ``into`` for these events alone, at least one. Raises as `survey`
    does.
    """
    excerpt = excerpt_of_events(recording, events)
    writer = _Writer(AttributionFile(into), excerpt.name_of)
    try:
        # Also the rounds of other events of the same containers, as in a whole survey.
        for diff in excerpt.rounds:
            writer.add(diff)
        writer.until = max(event.id for event in events)
        writer.commit(now=True)
    finally:
        writer.close()


class _Writer:
    """Writer of the rounds, in any order of their events."""

    def __init__(self, file: AttributionFile, name_of: NameOf) -> None:
        self.file = file
        self._name_of = name_of
        self._next_s = 0.0
        self.until = 0
        """Id of the event up to which all rounds were written."""
        self.is_full = False
        """Whether the file has no space for more events."""
        self._open: dict[int, tuple[RoundDiff, str, str]] = {}
        """Events with requests whose outcome may change."""

    def add(self, diff: RoundDiff) -> None:
        """Write the changes and problems of a round."""
        if self.is_full:
            return
        self.until = max(self.until, diff.event - 1)
        changing = {step.event for step in diff.steps if step.owner.who in _OWNERS}
        delays = {
            diff.events[diff.seen_by.index(span.before)]: clipped(span_words(span), _PATH_MAX)
            for span in diff.spans
            if span.before and wording.slow(span)
        }
        problems = dict.fromkeys(delays, Problem.SLOW)
        if diff.failure:
            problems[diff.event] = Problem.FAILED
        for event in {*changing, *problems}:
            self._write(event, diff, problems.get(event, ""), delays.get(event, ""))
        for event in {step.event for step in diff.settled}:
            if event in self._open:
                self._write(event, *self._open.pop(event))

    def _write(self, event: int, diff: RoundDiff, problem: str, delay: str) -> None:
        """Write an event; keep its requests whose outcome later events may show."""
        requests: dict[Request, None] = {}
        for step in diff.steps:
            if step.event != event or step.owner.who not in _OWNERS or len(requests) >= _PATHS_MAX:
                continue
            path = clipped(step.change.path or "/", _PATH_MAX)
            container, title = step.container or "-", wording.NO_CONTAINER
            if step.container:
                container = "" if container == diff.container else container
                title = clipped(self._name_of(container), _PATH_MAX) if container else ""
            requests[Request(str(step.owner), path, step.outcome.kind, container, title)] = None
        if not self.file.add(event, requests, problem, delay):
            self.is_full = True
        if not _FINAL.issuperset(request.kind for request in requests):
            self._open[event] = diff, problem, delay
            if len(self._open) > _OPEN_MAX:
                del self._open[next(iter(self._open))]

    def commit(self, *, now: bool = False) -> None:
        """Make the rounds so far visible to readers, unless that was done just before."""
        if now or monotonic() >= self._next_s:
            self.file.commit(self.until)
            self._next_s = monotonic() + _COMMIT_S

    def close(self) -> None:
        """Close the file."""
        self.file.close()
