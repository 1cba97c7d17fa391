# SPDX-License-Identifier: Apache-2.0
"""Run the differ over a recording, or over the events about one container, pod or event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from sys import maxsize
from typing import TypeAlias

from google.protobuf.message import DecodeError

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.entries import OperationOutcome
from nri_scope.errors import THE_RECORDING, UsageError
from nri_scope.events import ASIDE, INTRODUCTION, SET_UP, Container, Event, Pod, Session
from nri_scope.nri.events import CREATE
from nri_scope.recording.query import lookup
from nri_scope.recording.query.container_events import (
    HistoryEvents,
    events_of_histories,
    first_events,
    has_event_before,
    has_recorded_predecessor,
    history_events,
    is_part,
)
from nri_scope.recording.query.creation_outcomes import Creations
from nri_scope.recording.query.subject_queries import (
    absence_test,
    container_of_event,
    containers_by_key,
    containers_touched,
    pod_of_event,
    same_round_near,
)
from nri_scope.recording.reading.reader import Recording

from .attribution.attributed_changes import RoundDiff
from .attribution.differ import Differ
from .attribution.history import History
from .attribution.rounds import Surroundings
from .missing_plugin import missed_creations

OutcomeOf: TypeAlias = Callable[[Event], OperationOutcome]
"""Returns what later events show of the operation of a creation, update or start."""
_NEAR = 500
"""Number of consecutive events that usually include one of each connection."""


def rounds(
    recording: Recording, subject: lookup.Found | None = None, *, differ: Differ | None = None
) -> Iterator[RoundDiff]:
    """Yield the changes of each round of a recording, in order.

    For a container or pod: its own rounds, and side effects of other rounds on it. For an event:
    its round. Requests have the outcome that the whole recording shows. Raises RecordingError.
    """
    differ = differ or differ_of(recording)
    choice = Choice(recording, subject)
    for whole in _with_absences(recording, rounds_of(recording, differ)):
        if (part := choice.part_of(whole)) is not None:
            yield part


def _with_absences(
    recording: Recording, diffs: Iterable[RoundDiff], containers: Sequence[Container] | None = None
) -> Iterator[RoundDiff]:
    """Yield rounds, those of creations with the plugins that missed them.

    ``containers``: the only ones that matter. Raises RecordingError.
    """
    absences = missed_creations(recording, containers)
    for diff in diffs:
        is_missed = diff.name == CREATE and diff.container in absences
        yield replace(diff, absences=absences[diff.container]) if is_missed else diff


def rounds_of(
    recording: Recording,
    differ: Differ,
    among: Sequence[int] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Sequence[RoundDiff]:
    """Feed events of a recording to a differ, and return their rounds.

    Requests have the outcome that all fed events show. ``among``: ids of the events to feed; None
    for all. ``check`` is called for each event, and may raise. Raises RecordingError.
    """
    # Outcomes are recorded after the requests, and the steps of a round get them later.
    return list(_fed(differ, recording, among, check))


def differ_of(
    recording: Recording,
    *,
    keep: bool = True,
    outcome: OutcomeOf | None = None,
) -> Differ:
    """Return a differ for all events of a recording; options as for `Differ`.

    Raises RecordingError.
    """
    return Differ(
        recording.sessions(),
        keep=keep,
        gaps=recording.gaps(),
        around=WholeRecording(recording, outcome),
    )


class LaterOutcomes(Surroundings):
    """The outcomes of operations, by the later events of a recording."""

    has_outcomes = True

    def __init__(self, recording: Recording, outcome: OutcomeOf | None = None) -> None:
        """``outcome``: replacement of `Creations.outcome`."""
        self._recording = recording
        self._outcome = outcome or Creations(recording).outcome

    def outcome(self, event: Event) -> OperationOutcome:
        return self._outcome(event)


class WholeRecording(LaterOutcomes):
    """Surroundings if all events of a recording are fed, which may be a part of another one."""

    def __init__(self, recording: Recording, outcome: OutcomeOf | None = None) -> None:
        super().__init__(recording, outcome)
        self._is_part = is_part(recording)
        self._is_absent = absence_test(recording)

    def follows(self, event: Event) -> bool | None:
        return has_recorded_predecessor(self._recording, event) if self._is_part else None

    def is_absent(self, container_id: str, event: Event) -> bool | None:
        return self._is_absent(container_id, event)


class PartlyFedRecording(WholeRecording):
    """Surroundings if only the events about a few containers are fed, which are not consecutive."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        self._joined_since: dict[int, int] = {}
        """For some sessions, an event by which they had joined."""

    def follows(self, event: Event) -> bool | None:
        return has_recorded_predecessor(self._recording, event)

    def had_its_place(self, session: Session, event: Event) -> bool | None:
        return has_event_before(
            self._recording, session.id, event.id, ASIDE, others=True
        ) or not has_event_before(self._recording, session.id, event.id, SET_UP)

    def had_joined(self, session: Session, event: Event) -> bool:
        since = self._joined_since
        if session.id not in since or since[session.id] > event.id:
            # Most sessions have an event nearby; a search without bounds would read the whole file.
            if not has_event_before(
                self._recording, session.id, event.id, INTRODUCTION, others=True, within=_NEAR
            ):
                return self._firsts.get(session.id, 0) < event.id
            since[session.id] = event.id
        return True

    @cached_property
    def _firsts(self) -> dict[int, int]:
        """The first event that the runtime may send to each session, by session id."""
        joined = first_events(self._recording, sorted(INTRODUCTION), others=True)
        later = first_events(self._recording, sorted(SET_UP), others=True)
        begun = first_events(self._recording, sorted(SET_UP))
        # Without a recorded beginning, the session may have existed before.
        return {
            session: joined.get(session, maxsize) if first < later.get(session, maxsize) else 0
            for session, first in begun.items()
        }


def history_of(recording: Recording, container: Container) -> History:
    """Return one container's history; see `history_from`."""
    return history_from(history_events(recording, container))


def history_from(events: HistoryEvents) -> History:
    """Return the history of the container that has these events.

    Raises RecordingError, and UsageError if the recording does not show the container's spec.
    """
    (container,) = events.containers
    history = _excerpt(events).history(container.id)
    if history is None:
        name = lookup.container_name(container) or f"container {container.id}"
        raise UsageError(
            f"{THE_RECORDING} does not contain the spec of {name}",
            "no event describes it: messages contain only its id",
            events.recording.path,
        )
    return history


def histories(
    recording: Recording,
    on_round: Callable[[RoundDiff], None] = lambda diff: None,
    check: Callable[[], None] = lambda: None,
) -> dict[str, History]:
    """Return every container's history, by its id. Raises RecordingError."""
    differ = differ_of(recording)
    for diff in _fed(differ, recording, check=check):
        on_round(diff)
    return differ.histories


def _fed(
    differ: Differ,
    recording: Recording,
    among: Sequence[int] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[RoundDiff]:
    allowance = recording.allowance()
    for event, request, reply in recording.exchanges(among=among, allowance=allowance):
        check()
        yield from differ.feed(event, request, reply)
        allowance.spend(differ.take_work())
    yield from differ.flush()


class Choice:
    """Selection of what is about one subject, or of all. Other events still serve as evidence."""

    def __init__(self, recording: Recording, subject: lookup.Found | None) -> None:
        """``subject``: None for all. Raises RecordingError."""
        self.subject = subject
        self._event = subject if isinstance(subject, Event) else None
        self._pod = subject.id if isinstance(subject, Pod) else ""
        self._containers: set[str] = set()
        if isinstance(subject, Container):
            self._containers = {subject.id}
        elif isinstance(subject, Pod):
            self._containers = {each.id for each in lookup.containers_of(recording, subject)}

    def has(self, subject_id: str) -> bool:
        """Return whether a pod or container is the subject, or in it, by its id."""
        return self.subject is None or subject_id in (*self._containers, self._pod or None)

    def has_event(self, event: Event) -> bool:
        """Return whether an event is about the subject, or may be it at another connection."""
        own = self._event
        if own is None:
            return self.has(event.container_id) or self.has(event.pod_id)
        about = own.container_id, own.pod_id
        is_same = (event.event, event.container_id, event.pod_id) == (own.event, *about)
        return event.id == own.id or (is_same and any(about))

    def part_of(self, diff: RoundDiff) -> RoundDiff | None:
        """Return a round about the subject, or only its side effects on the subject, or None."""
        if self.subject is None:
            return diff
        if self._event is not None:
            return diff if self._event.id in diff.events else None
        if diff.container in self._containers or (self._pod and diff.pod == self._pod):
            return diff
        steps = tuple(step for step in diff.steps if step.container in self._containers)
        settled = tuple(step for step in diff.settled if step.container in self._containers)
        if not steps and not settled:
            return None
        return replace(diff, steps=steps, settled=settled)


_SAME_ROUND_NEAR = 200
"""Number of events before and after an event of a pod that may be part of the same round."""
_OTHERS_MAX = 50
"""Maximum number of other containers that are searched for side effects of an event."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The differ's results for the events about some containers."""

    _differ: Differ
    rounds: Sequence[RoundDiff]
    """Rounds in order, with the outcome of their changes if the CRI reported it."""
    _names: Mapping[str, str]

    def history(self, container_id: str) -> History | None:
        """Return a container's history; None if no event describes the container."""
        return self._differ.histories.get(container_id)

    def round_of(self, event_id: int) -> RoundDiff | None:
        """Return the round of an event."""
        return next((diff for diff in self.rounds if event_id in diff.events), None)

    def name_of(self, subject_id: str) -> str:
        """Return ``ns/pod/container`` or ``ns/pod``; the beginning of the id if unknown."""
        return self._names.get(subject_id) or self._differ.name_of(subject_id)


def excerpt_of_container(
    recording: Recording, container: Container, check: Callable[[], None] = lambda: None
) -> Excerpt:
    """Read a container's rounds, and the side effects of other rounds on it.

    ``check`` is called for each event and may raise, to cancel. Raises RecordingError.
    """
    return _excerpt(history_events(recording, container), check)


def excerpt_of_events(
    recording: Recording, events: Iterable[Event], check: Callable[[], None] = lambda: None
) -> Excerpt:
    """Read the events that show the rounds of `events` and their effects, also on other containers.

    For an event without a container, only its effects on containers are examined. ``check`` is
    called for each event that is read, and may raise, to cancel. Raises RecordingError.
    """
    containers: dict[int, Container] = {}
    pods: dict[int, Pod] = {}
    near: set[int] = set()
    for event in events:
        own = container_of_event(recording, event.id)
        touched = containers_touched(recording, event, [] if own is None else [own.key])
        others = containers_by_key(recording, touched[:_OTHERS_MAX])
        containers |= {each.key: each for each in ([] if own is None else [own]) + others}
        pod = pod_of_event(recording, event.id)
        pods |= {} if pod is None else {pod.key: pod}
        near.update(same_round_near(recording, event, _SAME_ROUND_NEAR))
    read = events_of_histories(recording, list(containers.values()), near)
    return _excerpt(read, check, pods.values())


def _excerpt(
    events: HistoryEvents, check: Callable[[], None] = lambda: None, pods: Iterable[Pod] = ()
) -> Excerpt:
    recording, containers = events.recording, events.containers
    differ = Differ(
        recording.sessions(),
        only=[container.id for container in containers],
        gaps=recording.gaps(),
        around=PartlyFedRecording(recording),
    )
    for container, content in events.listed:
        with suppress(DecodeError):
            known = api.Container.FromString(content)
            differ.add_existing(known, lookup.container_name(container))
    diffs = rounds_of(recording, differ, events.numbers, check)
    rounds = tuple(_with_absences(recording, diffs, containers))
    for diff in rounds:
        if diff.absences and diff.container in differ.histories:
            differ.histories[diff.container].absences = diff.absences
    if events.coverage is not None and containers[0].id in differ.histories:
        differ.histories[containers[0].id].coverage = events.coverage
    names = {container.id: lookup.container_name(container) for container in containers}
    names |= {pod.id: lookup.pod_name(pod) for pod in pods}
    return Excerpt(differ, rounds, names)
