# SPDX-License-Identifier: Apache-2.0
"""Collect a report's facts in one pass through a recording, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields

from nri_scope import __version__
from nri_scope.differ.attribution.attributed_changes import RoundDiff
from nri_scope.differ.attribution.round_selection import Choice
from nri_scope.differ.attribution.rounds import CREATE, SYNCHRONIZE, UPDATE, VALIDATE
from nri_scope.differ.recording_differ import differ_of
from nri_scope.differ.render import wording
from nri_scope.differ.render.values import clipped
from nri_scope.events import PASSIVE_ROLES, Container, Event, Gap, Pod, Role
from nri_scope.oci import Spec
from nri_scope.recording import lookup
from nri_scope.recording.cri_answers import is_container_status
from nri_scope.recording.display import SHORT_ID, many, runtime
from nri_scope.recording.plugin_calls import by_plugin, measured_times
from nri_scope.recording.reader import Recording
from nri_scope.recording.summary import time_range
from nri_scope.recording.timeline import sessions_overlap

from .chain import Links
from .changed_containers import Changes
from .diagnosis import Diagnosis, RecordingFacts
from .diagnosis.recording_facts import Latest
from .lifetime_lanes import Lanes
from .limits import (
    GAPS_MAX,
    NAME_MAX,
    NOTES_MAX,
    PLUGINS_MAX,
    SESSIONS_MAX,
    TRACKED_MAX,
    TROUBLES_MAX,
    WORDS_MAX,
)
from .report_data import Diagnosed, Facts, LeftOut, Mark, ProblemEvent

_BY_EVENT_MAX = 40


def collect(
    recording: Recording,
    thing: lookup.Found | None = None,
    *,
    on_progress: Callable[[float], None] | None = None,
) -> Facts:
    """Collect the facts of a recording, or of one subject in it.

    All events are read, as events of other subjects also serve as evidence. ``on_progress`` is
    called every 2,000 events with the completed share, from 0 to 1. Raises RecordingError.
    """
    collector = _Collector(recording, thing)
    collector.read(on_progress)
    return collector.facts()


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
    if on_round is None and (needed := _needed_without_changes(recording)) is not None:
        finder = _Finder(recording, thing, needed=needed)
        with suppress(_ChangesNeeded):
            finder.read(on_progress)
            return finder.diagnosed()
    finder = _Finder(recording, thing, on_round)
    finder.read(on_progress)
    return finder.diagnosed()


class _ChangesNeeded(Exception):
    """A finding names changes that only messages which were not read show."""


def _needed_without_changes(recording: Recording) -> Callable[[Event], bool] | None:
    """Return the test for events whose messages are needed; None if those of all are needed.

    Passive connections make no requests. So changes matter only as reasons of a failed creation, if
    two connections observed it, and for updated containers, as plugins may have requested a part of
    an update. The test raises _ChangesNeeded for an event that shows that all messages are needed.
    """
    sessions = recording.sessions()
    if not all(one.role in PASSIVE_ROLES for one in sessions):
        return None
    updated = lookup.containers_with(recording, UPDATE, TRACKED_MAX)
    if updated is None:
        return None
    names = {SYNCHRONIZE, CREATE} if sessions_overlap(sessions) else {SYNCHRONIZE}

    def needed(event: Event) -> bool:
        if event.event == VALIDATE or (event.event == UPDATE and event.container_id not in updated):
            # It contains the plugins' requests; or the recording has grown.
            raise _ChangesNeeded
        return event.event in names or event.container_id in updated

    return needed


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
        name = clipped(name, NAME_MAX)
        if self.get(thing) != name:
            self[thing] = name


class _Finder:
    """Collector of the findings."""

    def __init__(
        self,
        recording: Recording,
        thing: lookup.Found | None,
        on_round: Callable[[RoundDiff], None] | None = None,
        *,
        needed: Callable[[Event], bool] | None = None,
    ) -> None:
        self._on_round = on_round
        self._needed = needed
        self._recording = recording
        self._thing = thing
        self._choice = None if thing is None else Choice(recording, thing)
        self._ids = _ids_of(recording, thing)
        self._sessions = recording.sessions()
        self._gaps = recording.gaps()
        self._names = _Names()
        # The CRI's answers are recorded later, possibly after their container was removed.
        has_cri = any(one.role == Role.CRI for one in self._sessions)
        keep = has_cri and len(recording.containers()) <= TRACKED_MAX
        self._differ = differ_of(recording, keep=keep, only_findings=self._needs_only_findings)
        self._diagnosis = Diagnosis(
            RecordingFacts(
                {one.id: one for one in self._sessions},
                tuple(self._gaps),
                self._wanted,
                self._name_of,
                self._existed,
            ),
            self._spec_of,
        )
        self._events = 0
        self._first_ns: int | None = None
        self._last_ns: int | None = None

    @property
    def _needs_only_findings(self) -> bool:
        """Whether rounds without changes, failures and times are not needed."""
        return self._on_round is None

    def read(self, on_progress: Callable[[float], None] | None) -> None:
        """Process all events. Raises _ChangesNeeded."""
        first, last = lookup.event_range(self._recording)
        allowance = self._recording.allowance()
        needed = self._needed or (lambda _: True)
        for event, request, reply in self._recording.exchanges(allowance=allowance, needed=needed):
            self._names.learn(event)
            # The completed rounds precede this event.
            for diff in self._differ.feed(event, request, reply):
                self._round(diff)
            allowance.spend(self._differ.take_work())
            self._see(event)
            if on_progress is not None and event.id % 2_000 == 0:
                on_progress((event.id - first) / max(1, last - first))
        for diff in self._differ.flush():
            self._round(diff)

    def diagnosed(self) -> Diagnosed:
        """Return the findings, after all events were read."""
        return Diagnosed(
            file=clipped(self._recording.path.name, WORDS_MAX),
            about=_about(self._thing),
            sessions=tuple(self._sessions[:SESSIONS_MAX]),
            gaps=tuple(self._gaps[:GAPS_MAX]),
            first_ns=self._first_ns,
            last_ns=self._last_ns,
            events=self._events,
            findings=self._diagnosis.findings(),
        )

    def _see(self, event: Event) -> None:
        self._diagnosis.see(event)
        if self._wanted(event):
            self._see_wanted(event)

    def _see_wanted(self, event: Event) -> None:
        if is_container_status(event):
            return
        self._events += 1
        self._first_ns = event.at_ns if self._first_ns is None else self._first_ns
        self._last_ns = event.at_ns

    def _round(self, diff: RoundDiff) -> None:
        if self._needed is not None and (diff.failure or diff.doubt) and diff.name != CREATE:
            raise _ChangesNeeded
        if self._on_round is not None:
            self._on_round(diff)
        part = diff if self._choice is None else self._choice.part_of(diff)
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


class _Collector(_Finder):
    """Collector of everything in a report."""

    def __init__(self, recording: Recording, thing: lookup.Found | None) -> None:
        super().__init__(recording, thing)
        about = thing if isinstance(thing, Pod | Container) else None
        self._lanes = Lanes(*time_range(recording, about))
        self._links = Links(self._sessions)
        self._changes = Changes(self._name_of)
        self._by_event: dict[str, list[int]] = {}
        self._troubles: list[ProblemEvent] = []
        self._troubles_in_all = 0
        self._containers: set[str] = set()
        self._pods: set[str] = set()

    @property
    def _needs_only_findings(self) -> bool:
        return False

    def _see_wanted(self, event: Event) -> None:
        super()._see_wanted(event)
        self._links.see(event)
        if is_container_status(event):
            return
        if event.event in self._by_event or len(self._by_event) < _BY_EVENT_MAX:
            tally = self._by_event.setdefault(event.event, [0, 0])
            tally[0] += 1
            tally[1] += event.status_code != 0
        if event.container_id and len(self._containers) < TRACKED_MAX:
            self._containers.add(event.container_id)
        if event.pod_id and len(self._pods) < TRACKED_MAX:
            self._pods.add(event.pod_id)
        self._lanes.see(event)

    def _round_of(self, part: RoundDiff, *, is_whole: bool) -> None:
        self._changes.round(part)
        if not is_whole:
            return
        self._links.round(part)
        slow = [wording.slow_span(one) for one in part.spans if wording.slow(one)]
        kind = Mark.CALM
        text = f"{part.name}, event {part.event}"
        if part.failure:
            kind, text = Mark.FAILED, f"{text}: {part.failure}"
            self._trouble(part, Mark.FAILED, part.failure)
        elif slow:
            kind, text = Mark.SLOW, f"{text}: {'; '.join(slow)}"
        elif wording.fresh(part, part.own):
            kind = Mark.CHANGED
            text = f"{text}: {many(len(wording.fresh(part, part.own)), 'change')}"
        for one in slow:
            self._trouble(part, Mark.SLOW, one)
        self._lanes.mark(part.container or part.pod, part.at_ns, kind, clipped(text, WORDS_MAX))

    def _trouble(self, diff: RoundDiff, kind: Mark, text: str) -> None:
        self._troubles_in_all += 1
        if len(self._troubles) < TROUBLES_MAX:
            self._troubles.append(
                ProblemEvent(
                    diff.event,
                    diff.at_ns,
                    diff.name,
                    wording.subject(diff, self._name_of),
                    kind,
                    clipped(text, WORDS_MAX),
                )
            )

    def _drawn_gaps(self) -> list[Gap]:
        """Return the gaps for the timeline, without those outside the time of the subject."""
        first, last = self._lanes.first_ns, self._lanes.last_ns
        if self._thing is None:
            return self._gaps
        return [gap for gap in self._gaps if gap.to_ns >= first and gap.from_ns <= last]

    def facts(self) -> Facts:
        """Return the facts, after all events were read."""
        found = self.diagnosed()
        notes = self._recording.notes()
        plugins = [one for one in self._sessions if one.role != Role.CRI]
        runtimes = [*dict.fromkeys(map(runtime, plugins))]
        timeline = None
        if self._events:
            timeline = self._lanes.timeline(self._sessions, self._drawn_gaps(), self._name_of)
        containers, rows = self._changes.kept
        measured = by_plugin(measured_times(self._recording)) if self._thing is None else []
        lanes = 0 if timeline is None else len(timeline.lanes)
        left_out = (
            LeftOut("sessions", min(SESSIONS_MAX, len(self._sessions)), len(self._sessions)),
            LeftOut("gaps", min(GAPS_MAX, len(self._gaps)), len(self._gaps)),
            LeftOut("notes", min(NOTES_MAX, len(notes)), len(notes)),
            LeftOut("plugins", min(PLUGINS_MAX, len(measured)), len(measured)),
            LeftOut("changed containers", containers, self._changes.containers),
            LeftOut("changes", rows, self._changes.rows),
            LeftOut("slow or failing events", len(self._troubles), self._troubles_in_all),
            LeftOut("pods and containers in the timeline", lanes, self._lanes.seen),
        )
        return Facts(
            **{one.name: getattr(found, one.name) for one in fields(found)},
            tool=f"nri-scope {__version__}",
            runtimes=tuple(clipped(one, WORDS_MAX) for one in runtimes[:SESSIONS_MAX]),
            lost=sum(gap.lost or 0 for gap in self._gaps if not gap.is_left_out),
            notes=tuple(notes[:NOTES_MAX]),
            pods=len(self._pods),
            containers=len(self._containers),
            by_event=tuple(
                sorted(
                    ((name, count, bad) for name, (count, bad) in self._by_event.items()),
                    key=lambda one: (-one[1], one[0]),
                )
            ),
            chain=tuple(self._links.links()),
            changed=self._changes.result(),
            legend=self._changes.legend(),
            troubles=tuple(self._troubles),
            timeline=timeline,
            left_out=tuple(one for one in left_out if one.kept < one.all),
            measured=tuple(measured[:PLUGINS_MAX]),
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
