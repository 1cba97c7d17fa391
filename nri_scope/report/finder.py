# SPDX-License-Identifier: Apache-2.0
"""Find the problems of a recording in one pass, which can go on after the recording has grown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.later_changes import is_not_passed_on
from nri_scope.differ.attribution.round_selection import Choice
from nri_scope.differ.attribution.rounds import (
    CONTAINER_STATUS,
    CREATE,
    SYNCHRONIZE,
    UNSOLICITED,
    UPDATE,
    VALIDATE,
    ConnectionPart,
)
from nri_scope.differ.recording_differ import differ_of
from nri_scope.differ.render.values import clipped
from nri_scope.events import PASSIVE_ROLES, Container, Event, Gap, Pod, Role, Session
from nri_scope.recording import lookup
from nri_scope.recording.creation_outcomes import Creations, Outcome
from nri_scope.recording.cri_answers import is_container_status
from nri_scope.recording.display import SHORT_ID
from nri_scope.recording.reader import Recording
from nri_scope.recording.stats import GapStats
from nri_scope.recording.timeline import sessions_overlap
from nri_scope.specs import Spec

from .diagnosis import Diagnosis, RecordingFacts
from .diagnosis.recording_facts import Latest
from .finding import Finding
from .limits import GAPS_MAX, NAME_MAX, SESSIONS_MAX, TRACKED_MAX, WORDS_MAX
from .report_data import Diagnosed

_WITH_REQUESTS = frozenset({VALIDATE, UNSOLICITED, CONTAINER_STATUS})
"""Events that show what plugins requested, or what the runtime applied."""


def diagnose(
    recording: Recording,
    thing: lookup.Found | None = None,
    *,
    on_progress: Callable[[float], None] | None = None,
    on_round: Callable[[RoundDiff], None] | None = None,
) -> Diagnosed:
    """Collect the findings alone, which takes less time than `collect`.

    ``on_round`` is called for each round; see `collect` for the others. Raises RecordingError.
    """
    if on_round is None and (finder := _passive_finder(recording, thing)) is not None:
        with suppress(_ChangesNeeded):
            finder.read(on_progress)
            finder.conclude()
            return finder.diagnosed()
    finder = Finder(recording, thing, on_round)
    finder.read(on_progress)
    finder.conclude()
    return finder.diagnosed()


class _ChangesNeeded(Exception):
    """A finding names changes that only messages which were not read show."""


def _passive_finder(recording: Recording, thing: lookup.Found | None) -> Finder | None:
    """Return a collector that does not read all messages; None if those of all are needed.

    Passive connections make no requests. So changes matter only as reasons of a failed creation, if
    two connections observed it, for updated containers, as plugins may have requested a part of an
    update, and if NRI may have dropped a removal. The collector raises _ChangesNeeded for an event
    that shows that all messages are needed.
    """
    sessions = recording.sessions()
    if not all(one.role in PASSIVE_ROLES for one in sessions):
        return None
    if not sessions_overlap(sessions):
        return _SingleFinder(recording, thing)
    updated = lookup.containers_with(recording, UPDATE, TRACKED_MAX)
    if updated is None:
        return None

    def needed(event: Event) -> bool:
        if event.event == VALIDATE or (event.event == UPDATE and event.container_id not in updated):
            # It contains the plugins' requests; or the recording has grown.
            raise _ChangesNeeded
        return event.event in (SYNCHRONIZE, CREATE) or event.container_id in updated

    return Finder(recording, thing, needed=needed)


class _Names(Latest[str, str]):
    """The newest `TRACKED_MAX` names of pods and containers in events, by id."""

    def learn(self, event: Event) -> None:
        if event.pod_id and event.pod:
            self._put(event.pod_id, f"{event.namespace}/{event.pod}")
        if event.container_id and event.container:
            pod = event.pod or event.pod_id[:SHORT_ID]
            space = f"{event.namespace}/" if event.namespace else ""
            self._put(event.container_id, f"{space}{pod}/{event.container}")

    def _put(self, thing: str, name: str) -> None:
        if self.get(thing) != name:
            self[thing] = clipped(name, NAME_MAX)


class Finder:
    """Collector of the findings. `read` can be called again after the recording has grown."""

    def __init__(
        self,
        recording: Recording,
        thing: lookup.Found | None = None,
        on_round: Callable[[RoundDiff], None] | None = None,
        *,
        needed: Callable[[Event], bool] | None = None,
        outcome: Callable[[Event], Outcome] | None = None,
    ) -> None:
        """Start without events. ``on_round`` is called for each round. ``needed``: test for events
        whose messages are read. ``outcome``: replacement of `Creations.outcome`.

        Raises RecordingError.
        """
        self._on_round = on_round
        self._needed = needed
        self._recording = recording
        self._thing = thing
        self._choice = None if thing is None else Choice(recording, thing)
        self._ids = _ids_of(recording, thing)
        self._sessions = recording.sessions()
        self.gaps = recording.gaps()
        """The gaps that are used."""
        self._names = _Names()
        self.keeps_removed = keeps_removed(recording, self._sessions)
        """Whether the state of removed containers is kept."""
        self._differ = differ_of(
            recording,
            keep=self.keeps_removed,
            only_findings=self._needs_only_findings,
            outcome=outcome,
        )
        self._scene = RecordingFacts(
            *(tuple(self.gaps), self._wanted, self._covers),
            *(self._name_of, self._existed, self._sessions),
        )
        self._diagnosis = Diagnosis(self._scene, self._spec_of)
        self._allowance = recording.allowance()
        self.newest = 0
        """Id of the newest event that was read."""
        self._times: dict[int, int] = {}
        """Times of the findings' first events, which a ring may remove later."""
        self._events = 0
        self._first_ns: int | None = None
        self._last_ns: int | None = None

    @property
    def _needs_only_findings(self) -> bool:
        """Whether rounds without changes, failures and times are not needed."""
        return self._on_round is None

    def read(
        self,
        on_progress: Callable[[float], None] | None = None,
        *,
        until: int | None = None,
        may_read: Callable[[Event], bool] = lambda _: True,
    ) -> None:
        """Process the events after those that were read before, up to ``until``.

        Ends before the first event that it ``may`` not ``read`` yet. Raises RecordingError, and
        _ChangesNeeded.
        """
        first, last = lookup.event_range(self._recording)
        last = last if until is None else until
        first = max(first, self.newest + 1)
        self._allowance.extend(self._recording.file_size())
        needed = self._needed or (lambda _: True)
        for event, request, reply in self._recording.exchanges(
            after_id=self.newest, allowance=self._allowance, needed=needed
        ):
            if (until is not None and event.id > until) or not may_read(event):
                return
            self.newest = event.id
            self._names.learn(event)
            for diff in self._rounds(event, request, reply):
                self._round(diff)
            self._see(event)
            if on_progress is not None and event.id % 2_000 == 0:
                on_progress((event.id - first) / max(1, last - first))

    def _rounds(self, event: Event, request: bytes, reply: bytes) -> Sequence[RoundDiff]:
        """Return the rounds that an event completes, which precede it."""
        found = self._differ.feed(event, request, reply)
        self._allowance.spend(self._differ.take_work())
        return found

    def learn(self, sessions: Sequence[Session]) -> None:
        """Replace the sessions by their newest states, before newer events are read."""
        for session in sessions:
            self._differ.begin(session)
        self._sessions = [*sessions]
        self._scene.learn(sessions)

    def conclude(self, *, only_over: bool = False) -> None:
        """Process the open rounds, as far as they were observed.

        ``only_over``: if no existing connection can add to them, which allows reading to go on.
        """
        for diff in self._differ.flush_over() if only_over else self._differ.flush():
            self._round(diff)

    @property
    def complete_until(self) -> int:
        """Id of the event up to which all rounds were processed."""
        waiting = self._differ.first_waiting
        return self.newest if waiting is None else waiting - 1

    @property
    def lost_gaps(self) -> list[Gap]:
        """The gaps, without those for events that a part of a recording leaves out."""
        return [gap for gap in self.gaps if not gap.is_left_out]

    def diagnosed(self) -> Diagnosed:
        """Return the findings, after all events were read."""
        return Diagnosed(
            file=clipped(self._recording.path.name, WORDS_MAX),
            about=_about(self._thing),
            sessions=tuple(self._sessions[:SESSIONS_MAX]),
            gaps=tuple(self.lost_gaps[:GAPS_MAX]),
            omitted=GapStats.of(self.gaps).left_out,
            first_ns=self._first_ns,
            last_ns=self._last_ns,
            events=self._events,
            findings=tuple(map(self._with_time, self._diagnosis.findings())),
        )

    def _with_time(self, finding: Finding) -> Finding:
        if not finding.events:
            return finding
        number = finding.events[0]
        if number not in self._times and (first := self._recording.event(number)) is not None:
            self._times[number] = first.at_ns
        return replace(finding, at_ns=self._times.get(number))

    def _see(self, event: Event) -> None:
        self._diagnosis.see(event)
        if self._ids is None or self._wanted(event):
            self._see_wanted(event)

    def _see_wanted(self, event: Event) -> None:
        if is_container_status(event):
            return
        self._events += 1
        self._first_ns = event.at_ns if self._first_ns is None else self._first_ns
        self._last_ns = event.at_ns

    def _round(self, diff: RoundDiff) -> None:
        if self._needed is not None and (
            ((diff.failure or diff.doubt) and diff.name != CREATE)
            or any(is_not_passed_on(step.change) for step in diff.steps)
        ):
            raise _ChangesNeeded
        if self._on_round is not None:
            self._on_round(diff)
        part = diff if self._choice is None else self._choice.part_of(diff)
        if part is not None and part is not diff:
            part = replace(part, spans=())
        self._diagnosis.round(diff if part is None else part, wanted=part is not None)
        if part is not None:
            # A partial round is about another container; only its side effects concern the subject.
            self._round_of(part, is_whole=part is diff)

    def _round_of(self, part: RoundDiff, *, is_whole: bool) -> None:
        """Process a round about the subject."""

    # -- callbacks for other classes ----------------------------------------------------------

    def _wanted(self, event: Event) -> bool:
        if self._ids is None:
            return True
        if isinstance(self._thing, Event):
            return event.id in self._ids or self._is_same(event, self._thing)
        return event.container_id in self._ids or event.pod_id in self._ids

    def _covers(self, container: str) -> bool:
        return self._ids is None or isinstance(self._thing, Event) or container in self._ids

    def _is_same(self, event: Event, thing: Event) -> bool:
        """Return whether this may be the same event at another connection."""
        return (
            event.event == thing.event
            and event.container_id == thing.container_id
            and event.pod_id == thing.pod_id
            and bool(event.container_id or event.pod_id)
        )

    def _name_of(self, thing: str) -> str:
        return self._names.get(thing) or clipped(self._differ.name_of(thing), NAME_MAX)

    def _spec_of(self, container: str) -> Spec:
        history = self._differ.histories.get(container)
        return {} if history is None else history.spec

    def _existed(self, session: int) -> frozenset[str]:
        return lookup.containers_at_start(self._recording, session)


class _SingleFinder(Finder):
    """Collector of the findings of passive connections of which only one existed at a time.

    No other connection shows what plugins changed, so a failed creation is the only finding about
    rounds, and the events after it show the failure.
    """

    def __init__(self, recording: Recording, thing: lookup.Found | None) -> None:
        super().__init__(recording, thing, needed=lambda _: False)
        self._creations = Creations(recording)

    def _rounds(self, event: Event, request: bytes, reply: bytes) -> Sequence[RoundDiff]:
        session = self._scene.sessions.get(event.session)
        if session is None:
            # It began after this pass.
            return ()
        is_error = event.status_code and ConnectionPart(event, session).is_error
        if is_error or event.event in _WITH_REQUESTS:
            raise _ChangesNeeded
        if event.event != CREATE or not self._creations.outcome(event).words:
            return ()
        # No other connection can add to the round.
        return [*self._differ.feed(event), *self._differ.flush()]


def keeps_removed(recording: Recording, sessions: Sequence[Session]) -> bool:
    """Return whether a pass must keep the state of removed containers. Raises RecordingError.

    The CRI's answers are recorded later, possibly after their container was removed.
    """
    return any(one.role == Role.CRI for one in sessions) and (
        lookup.container_count(recording) <= TRACKED_MAX
    )


def _about(thing: lookup.Found | None) -> str:
    match thing:
        case None:
            return ""
        case Event():
            return f"event {thing.id} ({thing.event})"
        case Pod():
            return f"pod {lookup.pod_name(thing)}"
        case Container():
            return f"container {lookup.container_name(thing)}"


def _ids_of(recording: Recording, thing: lookup.Found | None) -> frozenset[str | int] | None:
    """Return the ids of the subject and its containers; None for the whole recording."""
    if thing is None:
        return None
    within = lookup.containers_of(recording, thing) if isinstance(thing, Pod) else ()
    return frozenset({thing.id, *(one.id for one in within)})
