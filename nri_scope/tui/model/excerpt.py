# SPDX-License-Identifier: Apache-2.0
"""The differ over what matters for one container or one event, and no more of a recording."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nri_scope.differ import Differ, History, RoundDiff
from nri_scope.differ.reading import differ_of_some, next_rounds, with_outcome
from nri_scope.nri.subject import decode_request
from nri_scope.recorder import assembly, lookup
from nri_scope.recorder.check import has_effects
from nri_scope.recorder.model import Container, Event, Pod, Role
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.rows import number_of
from nri_scope.recorder.sound import sound
from nri_scope.tui.model.stop import Stop
from nri_scope.tui.model.whom import container_of_event, containers_by_key, pod_of_event

_NEAR = 200
"""Events before and after one of a pod in which the other connections were asked about it."""
_BESIDE = 50
"""Other containers on which side effects are looked at."""
_ANY = "CreateContainer"
"""A request with nothing but a container in it can be read as one."""


class Excerpt:
    """What the differ makes of the events about some containers."""

    def __init__(
        self, differ: Differ, rounds: Sequence[RoundDiff], names: Mapping[str, str]
    ) -> None:
        self._differ = differ
        self._names = names
        self.rounds = rounds
        """In order; where the CRI told what became of the changes, they say so."""

    def history(self, container_id: str) -> History | None:
        """A container's history; None where nothing is known of it."""
        return self._differ.histories.get(container_id)

    def round_of(self, event_id: int) -> RoundDiff | None:
        """The round that an event belongs to."""
        return next((one for one in self.rounds if event_id in one.events), None)

    def name_of(self, thing_id: str) -> str:
        """``ns/pod/container`` of a container, ``ns/pod`` of a pod; else how the id begins."""
        return self._names.get(thing_id) or self._differ.name_of(thing_id)


def of_container(recording: Recording, container: Container, stop: Stop) -> Excerpt:
    """A container's own rounds, and what was done to it beside others'. Raises RecordingError."""
    return _excerpt(recording, [container], stop)


def of_event(recording: Recording, event: Event, stop: Stop) -> Excerpt:
    """Enough for the round of an event and all its effects, on others too. Raises RecordingError.

    What an event without a container finds of containers is not looked at but for its effects.
    """
    own = container_of_event(recording, event.id)
    touched = _touched(recording, event, [] if own is None else [own.key])
    others = containers_by_key(recording, touched[:_BESIDE])
    containers = list({one.key: one for one in ([] if own is None else [own]) + others}.values())
    pod = pod_of_event(recording, event.id)
    pods = [] if pod is None else [pod]
    return _excerpt(recording, containers, stop, _near(recording, event), pods)


def _excerpt(
    recording: Recording,
    containers: Sequence[Container],
    stop: Stop,
    near: Iterable[int] = (),
    pods: Iterable[Pod] = (),
) -> Excerpt:
    sessions = recording.sessions()
    differ = differ_of_some(recording, containers)
    rounds: list[RoundDiff] = []
    numbers = _events(recording, containers, differ)
    among = None if numbers is None else sorted({*numbers, *near})
    for event, request, reply in recording.exchanges(among=among):
        stop.check()
        rounds += differ.feed(event, request, reply)
    rounds += differ.flush()
    if any(session.role == Role.CRI for session in sessions):
        rounds = list(with_outcome(rounds, differ))
    names = {one.id: lookup.container_name(one) for one in containers}
    names |= {pod.id: lookup.pod_name(pod) for pod in pods}
    return Excerpt(differ, rounds, names)


def _events(
    recording: Recording, containers: Sequence[Container], differ: Differ
) -> Sequence[int] | None:
    """The numbers of the events that matter for some containers; None: all."""
    numbers: set[int] = set()
    for container in containers:
        own = lookup.events_for(recording, container)
        if own is None:
            # An old recording: any reply may have updated it.
            return None
        numbers.update(own)
        numbers.update(next_rounds(recording, container))
        told = lookup.existed(recording, container)
        if told is not None and told.event <= min(own, default=told.event):
            _know(differ, told.content, lookup.container_name(container))
    return sorted(numbers)


def _know(differ: Differ, content: bytes, name: str) -> None:
    """Let the differ know a container that Synchronize told of before anything else did."""
    request = assembly.request(_ANY, b"", None, content)
    container = decode_request(_ANY, request).container
    if container is not None:
        differ.know(container, name)


def _touched(recording: Recording, event: Event, own: Sequence[int]) -> list[int]:
    """The keys of containers that were updated beside this event or others of its container."""
    with sound(recording):
        if not has_effects(recording.connection):
            return []
        rows = recording.connection.execute(
            "SELECT DISTINCT container FROM effect WHERE event = ? ORDER BY container", (event.id,)
        ).fetchall()
        for key in own:
            rows += recording.connection.execute(
                "SELECT DISTINCT f.container FROM event AS e JOIN effect AS f ON f.event = e.id "
                "WHERE e.container = ? ORDER BY f.container",
                (key,),
            ).fetchall()
        return list(dict.fromkeys(map(number_of, rows)))


def _near(recording: Recording, event: Event) -> list[int]:
    """The numbers of the events around one that may be of its round; its own is among them."""
    with sound(recording):
        rows = recording.connection.execute(
            "SELECT o.id FROM event AS e JOIN event AS o ON o.id BETWEEN e.id - ? AND e.id + ? "
            "AND o.pod IS e.pod AND o.container IS e.container AND o.method IS e.method "
            "WHERE e.id = ? ORDER BY o.id",
            (_NEAR, _NEAR, event.id),
        ).fetchall()
        return list(map(number_of, rows))
