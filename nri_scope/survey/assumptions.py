# SPDX-License-Identifier: Apache-2.0
"""Facts that results depend on, and that data recorded later may change.

A survey reads each event once. But the outcome of a creation, the id of a container of iSulad, the
end of a session and a gap are recorded after the events that they concern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic

from nri_scope.differ.attribution.rounds import CREATE
from nri_scope.events import NO_ID, Event, Gap, Session
from nri_scope.recording.creation_outcomes import CreationFate, Creations, Outcome
from nri_scope.recording.event_pages import SessionTables
from nri_scope.recording.reader import Recording

_WAIT_S = 10.0
"""Maximum time to wait for the outcome of a creation. Runtimes take some tens of milliseconds."""
_WATCHED_MAX = 10_000
"""Maximum number of creations whose outcome may change."""
_INTRODUCTION = frozenset({"RegisterPlugin", "Configure"})
"""Methods before the failure policy of a session is known."""


class Assumptions:
    """Facts that were used so far. Methods raise RecordingError."""

    def __init__(self, recording: Recording, gaps: Sequence[Gap]) -> None:
        """``gaps``: the gaps of the recording that are used."""
        self._recording = recording
        self._tables = SessionTables()
        self._identity = _identity_of(recording)
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
        self._known: dict[int, Outcome] = {}
        """Outcomes that were read since `renew`, by event."""
        self._watched: dict[int, tuple[Event, Outcome]] = {}
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
        # It stores results of searches.
        self._creations = Creations(self._recording)
        self._known.clear()
        last = self._recording.event(newest)
        self._recorded_ns = last.at_ns if last is not None else 0
        self._tables.read(self._recording)
        sessions = self._tables.sessions
        if any(one.failure_policy is None for one in sessions):
            # The policy is not part of the table.
            sessions = tuple(self._recording.sessions())
        known = {one.id: one for one in self.sessions}
        self.sessions = sessions
        self._first = self._first or first
        read = self._newest.id if self._newest is not None else 0
        return (
            # A ring has removed more events than it has kept.
            first <= (self._first + max(read, self._first)) // 2
            and newest >= read
            and _identity_of(self._recording) == self._identity
            and [*self._tables.gaps] == self._gaps
            and all(self._is_compatible(known.get(one.id), one) for one in sessions)
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
        if event.method not in _INTRODUCTION:
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
        return waited_s < _WAIT_S

    def outcome(self, event: Event) -> Outcome:
        """Return the outcome of the creation to which ``event`` belongs, see `Creations`."""
        found = self._known.get(event.id)
        if found is None:
            found = self._known[event.id] = self._creations.outcome(event)
        if found.fate is not CreationFate.CREATED or not _is_final(event, found):
            self._watch(event, found)
        return found

    def _watch(self, event: Event, outcome: Outcome) -> None:
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


def _is_final(event: Event, outcome: Outcome) -> bool:
    return not event.container_id.startswith(NO_ID) and outcome.fate in (
        CreationFate.CREATED,
        CreationFate.FAILED,
    )


def _subjects(event: Event, outcome: Outcome) -> tuple[str, ...]:
    # Other containers of the pod only show that a creation has failed.
    return (
        (event.container_id,) if _is_final(event, outcome) else (event.container_id, event.pod_id)
    )


def _identity_of(recording: Recording) -> tuple[int, int] | None:
    try:
        status = recording.path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
