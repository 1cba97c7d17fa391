# SPDX-License-Identifier: Apache-2.0
"""Run the differ over the events that are relevant to one container or one event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from nri_scope.events import Container, Event, Pod
from nri_scope.recording import lookup
from nri_scope.recording.reader import Recording
from nri_scope.recording.subject_queries import (
    container_of_event,
    containers_by_key,
    containers_touched,
    pod_of_event,
    same_round_near,
)

from .attribution.attributed_changes import RoundDiff
from .attribution.differ import Differ
from .attribution.history import History
from .recording_differ import differ_of_some, events_of_some, rounds_of

_NEAR = 200
"""Number of events before and after an event of a pod that may be part of the same round."""
_OTHERS_MAX = 50
"""Maximum number of other containers that are searched for side effects of an event."""


class Excerpt:
    """The differ's results for the events about some containers."""

    def __init__(
        self, differ: Differ, rounds: Sequence[RoundDiff], names: Mapping[str, str]
    ) -> None:
        self._differ = differ
        self._names = names
        self.rounds = rounds
        """Rounds in order, with the outcome of their changes if the CRI reported it."""

    def history(self, container_id: str) -> History | None:
        """Return a container's history; None if no event describes the container."""
        return self._differ.histories.get(container_id)

    def round_of(self, event_id: int) -> RoundDiff | None:
        """Return the round of an event."""
        return next((one for one in self.rounds if event_id in one.events), None)

    def name_of(self, subject_id: str) -> str:
        """Return ``ns/pod/container`` or ``ns/pod``; the beginning of the id if unknown."""
        return self._names.get(subject_id) or self._differ.name_of(subject_id)


def of_container(recording: Recording, container: Container, check: Callable[[], None]) -> Excerpt:
    """Read a container's rounds, and the side effects of other rounds on it.

    ``check`` is called for each event and may raise, to cancel. Raises RecordingError.
    """
    return _excerpt(recording, [container], check)


def of_event(recording: Recording, event: Event, check: Callable[[], None]) -> Excerpt:
    """Read the events that show the round of an event and its effects, also on other containers.

    For an event without a container, only its effects on containers are examined. Raises
    RecordingError.
    """
    return of_events(recording, [event], check)


def of_events(
    recording: Recording, events: Iterable[Event], check: Callable[[], None] = lambda: None
) -> Excerpt:
    """Do the same as `of_event` for the rounds of several events together."""
    containers: dict[int, Container] = {}
    pods: dict[int, Pod] = {}
    near: set[int] = set()
    for event in events:
        own = container_of_event(recording, event.id)
        touched = containers_touched(recording, event, [] if own is None else [own.key])
        others = containers_by_key(recording, touched[:_OTHERS_MAX])
        containers |= {one.key: one for one in ([] if own is None else [own]) + others}
        pod = pod_of_event(recording, event.id)
        pods |= {} if pod is None else {pod.key: pod}
        near.update(same_round_near(recording, event, _NEAR))
    return _excerpt(recording, list(containers.values()), check, near, pods.values())


def _excerpt(
    recording: Recording,
    containers: Sequence[Container],
    check: Callable[[], None],
    near: Iterable[int] = (),
    pods: Iterable[Pod] = (),
) -> Excerpt:
    differ = differ_of_some(recording, containers)
    numbers = events_of_some(recording, containers, differ)
    rounds = tuple(rounds_of(recording, differ, sorted({*numbers, *near}), check))
    names = {one.id: lookup.container_name(one) for one in containers}
    names |= {pod.id: lookup.pod_name(pod) for pod in pods}
    return Excerpt(differ, rounds, names)
