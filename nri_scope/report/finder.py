# SPDX-License-Identifier: Apache-2.0
"""Find the problems of a recording in one pass, which can go on after the recording has grown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import cast

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.observed_round import ConnectionPart
from nri_scope.differ.missing_plugin import Creation, created_without
from nri_scope.differ.recording_differ import Choice, differ_of
from nri_scope.differ.render.values import clipped
from nri_scope.doctor.known_bugs import KnownBug, known_bugs
from nri_scope.entries import OperationFate, OperationOutcome
from nri_scope.events import (
    CONTAINER_STATUS,
    PASSIVE_ROLES,
    Container,
    Event,
    Gap,
    Pod,
    Role,
    Session,
)
from nri_scope.filter import parse
from nri_scope.nri.changes import REQUIRED_PLUGINS
from nri_scope.nri.events import (
    CREATE,
    CREATION_EVENTS,
    POST_UPDATE,
    RUN_POD,
    START,
    SYNCHRONIZE,
    UNSOLICITED,
    UPDATE,
    VALIDATE,
)
from nri_scope.nri.request_subject import decode_request
from nri_scope.oci.runtime_rules import shows_start
from nri_scope.recording.query import lookup
from nri_scope.recording.query.coverage import Coverage, coverage
from nri_scope.recording.query.creation_outcomes import Creations
from nri_scope.recording.query.event_times import sender_facts
from nri_scope.recording.query.log_rows import sessions_overlap
from nri_scope.recording.query.stats import GapStats
from nri_scope.recording.reading.event_messages import is_container_status
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.work_budget import OnShare
from nri_scope.text.quantities import SHORT_ID

from .diagnosis import Diagnosis, RecordingFacts
from .diagnosis.deadlines import misses_deadline
from .diagnosis.recording_facts import STOPPED, Latest
from .finding import Finding
from .limits import GAPS_MAX, NAME_MAX, SESSIONS_MAX, TRACKED_MAX, WORDS_MAX
from .report_data import Diagnosed

_EVENTS = parse(f"event:{UPDATE} OR event:{POST_UPDATE}")
_CREATIONS = parse(f"event:{CREATE}")


def without_plain_updates(recording: Recording, updated: frozenset[str]) -> frozenset[str]:
    """Return those of the containers updated at one connection that the differ must examine.

    Each UpdateContainer of the others is followed by a PostUpdateContainer with its values, so none
    of its requests was dropped or refused; the values that the first one replaces are those of the
    creation. Raises RecordingError.
    """
    requested: dict[str, api.LinuxResources] = {}
    left: set[str] = set()
    states: dict[str, api.LinuxResources] = {}
    """Resources before the first update, if that replaces one."""
    for event, request, _ in recording.exchanges(where=_EVENTS):
        decoded = decode_request(event.method, request)
        before = requested.pop(event.container_id, None)
        if event.event == UPDATE:
            if before is not None or decoded.message is None:
                left.add(event.container_id)
            else:
                message = cast("api.UpdateContainerRequest", decoded.message)
                asked = requested[event.container_id] = message.linux_resources
                state = message.container.linux.resources
                if event.container_id not in states and _replaces(asked, state):
                    states[event.container_id] = state
        elif (
            before is None
            or decoded.container is None
            or not _has_all(decoded.container.linux.resources, before)
        ):
            left.add(event.container_id)
    calls = recording.exchanges(where=_CREATIONS, needed=lambda event: event.container_id in states)
    for event, request, _ in calls if states else ():
        made = decode_request(event.method, request).container
        before = states.get(event.container_id)
        if made is not None and before is not None and not _has_all(made.linux.resources, before):
            left.add(event.container_id)
    return updated & (left | requested.keys())


def _replaces(asked: api.LinuxResources, before: api.LinuxResources) -> bool:
    """Return whether a request for memory or CPU replaces a value that is not zero."""
    return any(_differing(before, asked))


def _differing(left: api.LinuxResources, right: api.LinuxResources) -> Iterator[bool]:
    """Yield for each value of ``left`` that is not in ``right`` whether its field is set there.

    Only values for memory and CPU that are not zero.
    """
    for group, counterpart in ((left.memory, right.memory), (left.cpu, right.cpu)):
        others = {field.name: value for field, value in counterpart.ListFields()}
        for field, value in group.ListFields():
            is_set = value if isinstance(value, str) else value.value
            if is_set and others.get(field.name) != value:
                yield field.name in others


def _has_all(reported: api.LinuxResources, requested: api.LinuxResources) -> bool:
    """Return whether all values of a request are reported; zeros ask for nothing."""
    if any(True for _ in _differing(requested, reported)):
        return False
    # A swap limit that is not requested follows the memory limit.
    limit = requested.memory.swap if requested.memory.HasField("swap") else requested.memory.limit
    if limit.value and reported.memory.swap.value != limit.value:
        return False
    return all(
        field.name in ("memory", "cpu") or not value for field, value in requested.ListFields()
    )


_WITH_REQUESTS = frozenset({VALIDATE, UNSOLICITED, CONTAINER_STATUS})
"""Events that show what plugins requested, or what the runtime applied."""


def diagnose(
    recording: Recording,
    subject: lookup.Found | None = None,
    *,
    on_progress: OnShare | None = None,
    on_round: Callable[[RoundDiff], None] | None = None,
) -> Diagnosed:
    """Collect the findings alone, which takes less time than `collect`.

    ``on_round`` is called for each round; see `collect` for the others. Raises RecordingError.
    """
    if on_round is None and (finder := _single_finder(recording, subject)) is not None:
        with suppress(_ChangesNeeded):
            finder.read(on_progress)
            finder.conclude()
            return finder.diagnosed()
    finder = Finder(recording, subject, on_round)
    finder.read(on_progress)
    finder.conclude()
    return finder.diagnosed()


class _ChangesNeeded(Exception):
    """A finding names changes that only messages which were not read show."""


def _single_finder(recording: Recording, subject: lookup.Found | None) -> Finder | None:
    """Return a collector that reads the messages of some updated containers only.

    None if it needs those of all. Passive connections make no requests, but plugins may have
    requested a part of an update, and later events show what became of it. The collector raises
    _ChangesNeeded for an event that shows that all messages are needed.
    """
    sessions = recording.sessions()
    is_passive = all(session.role in PASSIVE_ROLES for session in sessions)
    if not is_passive or sessions_overlap(sessions):
        return None
    updated = lookup.containers_with(recording, UPDATE, TRACKED_MAX)
    if updated is None:
        return None
    return _SingleFinder(recording, subject, without_plain_updates(recording, updated))


class _NewestNames(Latest[str, str]):
    """The newest `TRACKED_MAX` names of pods and containers in events, by id."""

    def learn(self, event: Event) -> None:
        if event.pod_id and event.pod:
            self._put(event.pod_id, f"{event.namespace}/{event.pod}")
        if event.container_id and event.container:
            pod = event.pod or event.pod_id[:SHORT_ID]
            space = f"{event.namespace}/" if event.namespace else ""
            above = "" if event.is_alone else f"{space}{pod}/"
            self._put(event.container_id, f"{above}{event.container}")

    def _put(self, key: str, name: str) -> None:
        if self.get(key) != name:
            self[key] = clipped(name, NAME_MAX)


class Finder(RecordingFacts):
    """Collector of the findings. `read` can be called again after the recording has grown."""

    def __init__(
        self,
        recording: Recording,
        subject: lookup.Found | None = None,
        on_round: Callable[[RoundDiff], None] | None = None,
        *,
        outcome: Callable[[Event], OperationOutcome] | None = None,
    ) -> None:
        """Start without events. ``on_round`` is called for each round. ``outcome``: replacement of
        `Creations.outcome`.

        Raises RecordingError.
        """
        sessions = recording.sessions()
        self.keeps_removed = keeps_removed(recording, sessions)
        """Whether the state of removed containers is kept."""
        self._differ = differ_of(recording, keep=self.keeps_removed, outcome=outcome)
        super().__init__(recording.gaps(), sessions)
        self._on_round = on_round
        self._recording = recording
        self._choice = Choice(recording, subject)
        self._names = _NewestNames()
        self._diagnosis = Diagnosis(self, self._differ.histories.get)
        self._allowance = recording.allowance()
        self.newest = 0
        """Id of the newest event that was read."""
        self._requiring: Latest[str, bool] = Latest()
        """By id, whether the pod may require plugins."""
        self._first_events: dict[int, Event] = {}
        """The findings' first events, which a ring may remove later."""
        self._events = 0
        self._first_ns: int | None = None
        self._last_ns: int | None = None

    def read(
        self,
        on_progress: OnShare | None = None,
        *,
        until: int | None = None,
        may_read: Callable[[Event], bool] = lambda _: True,
    ) -> None:
        """Process the events after those that were read before, up to ``until``.

        Ends before the first event for which ``may_read`` returns False. Raises RecordingError, and
        _ChangesNeeded.
        """
        first, last = lookup.event_range(self._recording)
        last = last if until is None else until
        first = max(first, self.newest + 1)
        self._allowance.extend(self._recording.file_size())
        # The first request about a pod has its annotations.
        for event, request, reply in self._recording.exchanges(
            after_id=self.newest,
            allowance=self._allowance,
            needed=lambda event: event.event == RUN_POD or self._needs(event),
        ):
            if (until is not None and event.id > until) or not may_read(event):
                return
            self.newest = event.id
            self._names.learn(event)
            for diff in self._rounds(event, request, reply):
                self._round(diff)
            self._see(event, request)
            if on_progress is not None and event.id % 2_000 == 0:
                on_progress((event.id - first) / max(1, last - first))
        if self._allowance.is_over and self.newest < last:
            self.unread = next(self._recording.events(after_id=self.newest), None)

    def _needs(self, event: Event) -> bool:
        """Return whether the messages of the next event are needed."""
        return True

    def _rounds(self, event: Event, request: bytes, reply: bytes) -> Sequence[RoundDiff]:
        """Return the rounds that an event completes, which precede it."""
        rounds = self._differ.feed(event, request, reply)
        self._allowance.spend(self._differ.take_work())
        return rounds

    def learn(self, sessions: Iterable[Session]) -> None:
        """Replace the sessions by their newest states, before newer events are read."""
        super().learn(sessions)
        for session in self.sessions.values():
            self._differ.begin(session)

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
            about=_about(self._choice.subject),
            sessions=tuple(islice(self.sessions.values(), SESSIONS_MAX)),
            gaps=tuple(self.lost_gaps[:GAPS_MAX]),
            omitted=GapStats.of(self.gaps).left_out,
            first_ns=self._first_ns,
            last_ns=self._last_ns,
            events=self._events,
            findings=tuple(map(self._with_evidence, self._diagnosis.findings())),
            coverage=self._coverage(),
            sender_facts=sender_facts(self._recording),
        )

    def _coverage(self) -> Coverage:
        """Return what was observed, and decoded."""
        observed, unread = coverage(self._recording), self.unread
        return observed if unread is None else observed.stopped(unread.at_ns, STOPPED)

    def _with_evidence(self, finding: Finding) -> Finding:
        """Add the time of the finding's first event, and the known bugs that it may show."""
        number = finding.events[0] if finding.events else 0
        if number not in self._first_events and (event := self._recording.event(number)):
            self._first_events[number] = event
        first = self._first_events.get(number)
        if first is None:
            return finding
        reason = self.sessions[first.session].end_reason if first.session in self.sessions else ""
        errors = (clipped(error, WORDS_MAX) for error in (first.status_message, reason))
        text = "\n".join((finding.title, finding.detail, *errors))
        known = tuple(
            bug.name
            for bug in known_bugs().values()
            if bug.is_shown_by(finding.kind, first.event, text) and self._may_explain(bug, finding)
        )
        return replace(finding, at_ns=first.at_ns, known=known)

    def _may_explain(self, bug: KnownBug, finding: Finding) -> bool:
        """Return whether all runtimes whose events show a finding have a bug."""
        events = filter(None, map(self._recording.event, finding.events))
        sessions = [self.sessions.get(number) for number in {event.session for event in events}]
        return bool(sessions) and all(
            each and bug.affects(each.runtime_name, each.runtime_version, each.nri_version)
            for each in sessions
        )

    def _see(self, event: Event, request: bytes) -> None:
        if not event.is_sent_again:
            self._diagnosis.see(event)
        if event.event in CREATION_EVENTS and event.pod_id not in self._requiring:
            request = request or self._recording.request(event.id)
            self._requiring[event.pod_id] = REQUIRED_PLUGINS.encode() in request
        if self.wanted(event):
            self._see_wanted(event)

    def _see_wanted(self, event: Event) -> None:
        if not is_container_status(event):
            self._events += 1
            self._first_ns = event.at_ns if self._first_ns is None else self._first_ns
            self._last_ns = event.at_ns

    def _round(self, diff: RoundDiff) -> None:
        if self._on_round is not None:
            self._on_round(diff)
        part = self._choice.part_of(diff)
        if part is not None and part is not diff:
            part = replace(part, spans=())
        self._diagnosis.round(diff if part is None else part, wanted=part is not None)
        if part is not None:
            # A partial round is about another container; only its side effects concern the subject.
            self._round_of(part, is_whole=part is diff)

    def _round_of(self, part: RoundDiff, *, is_whole: bool) -> None:
        """Process a round about the subject."""

    # -- facts for the detectors --------------------------------------------------------------

    def wanted(self, event: Event) -> bool:
        return self._choice.has_event(event)

    def covers(self, container: str) -> bool:
        return isinstance(self._choice.subject, Event) or self._choice.has(container)

    def name_of(self, key: str) -> str:
        """Return ``ns/pod/container`` or ``ns/pod``; the beginning of the id if unknown."""
        return self._names.get(key) or clipped(self._differ.name_of(key), NAME_MAX)

    def existed(self, session: int) -> frozenset[str]:
        return lookup.ids_at_start(self._recording, session)

    def created_without(self) -> Iterator[Creation]:
        pods = {pod for pod, requires in self._requiring.items() if requires}
        subject = self._choice.subject
        for creation in created_without(self._recording, pods) if pods else ():
            is_own = isinstance(subject, Event) and creation.event == subject.id
            if is_own or self._choice.has(creation.id):
                yield creation


class _SingleFinder(Finder):
    """Collector of the findings of passive connections of which only one existed at a time.

    No other connection shows what plugins changed, so only failed creations and updated containers
    have findings about rounds.
    """

    def __init__(
        self, recording: Recording, subject: lookup.Found | None, updated: frozenset[str]
    ) -> None:
        super().__init__(recording, subject)
        self._updated = updated
        self._creations = Creations(recording)

    def _needs(self, event: Event) -> bool:
        is_state = event.event == SYNCHRONIZE and bool(self._updated)
        return is_state or event.container_id in self._updated

    def _rounds(self, event: Event, request: bytes, reply: bytes) -> Sequence[RoundDiff]:
        session = self.sessions.get(event.session)
        if session is None:
            # The session began after this pass.
            return ()
        is_error = event.status_code and ConnectionPart(event, session).is_error
        is_late_start = event.event == START and not shows_start(START, session.runtime_name)
        if is_late_start:
            is_error = is_error or self._creations.outcome(event).fate is OperationFate.FAILED
        # Its finding says what became of the creation.
        is_late = event.event == CREATE and misses_deadline(event)
        if is_error or is_late or event.event in _WITH_REQUESTS:
            raise _ChangesNeeded
        if event.event == CREATE and self._creations.outcome(event).words:
            # No other connection can add to the round.
            return [*super()._rounds(event, request, reply), *self._differ.flush()]
        return super()._rounds(event, request, reply) if self._needs(event) else ()

    def _round(self, diff: RoundDiff) -> None:
        if (diff.failure or diff.doubt) and diff.name not in (CREATE, UPDATE):
            raise _ChangesNeeded
        super()._round(diff)


def keeps_removed(recording: Recording, sessions: Sequence[Session]) -> bool:
    """Return whether a pass must keep the state of removed containers. Raises RecordingError.

    The CRI's answers are recorded later, possibly after their container was removed.
    """
    return any(session.role == Role.CRI for session in sessions) and (
        lookup.container_count(recording) <= TRACKED_MAX
    )


def _about(subject: lookup.Found | None) -> str:
    match subject:
        case None:
            return ""
        case Event():
            return f"event {subject.id} ({subject.event})"
        case Pod():
            return f"pod {lookup.pod_name(subject)}"
        case Container():
            return f"container {lookup.container_name(subject)}"
