# SPDX-License-Identifier: Apache-2.0
"""Events in an order that is allowed, and that a plugin's author may not have thought of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from nri_scope.differ.model import RoundDiff
from nri_scope.nri.events import Event as NriEvent
from nri_scope.recorder.model import Event, Role
from nri_scope.report.finding import Finding, Kind, Level, Shown

from .scene import Latest, Scene, Sequence

_RANKS = {
    "CreateContainer": 1,
    "PostCreateContainer": 2,
    "StartContainer": 3,
    "PostStartContainer": 4,
    "StopContainer": 5,
    "RemoveContainer": 6,
}
_STARTED, _STOPPED = 3, 5
_POD_RANKS = {"RunPodSandbox": 1, "StopPodSandbox": 2, "RemovePodSandbox": 3}
_POD_STOPPED, _POD_REMOVED = 2, 3
_STOP_BIT = NriEvent.StopContainer.bit


class Rule(Enum):
    """What may surprise: what happened, what it means, and what to do."""

    POD_FIRST = (
        "A container was stopped after its pod",
        "StopPodSandbox came while a container of the pod had not been stopped.",
        "Do not throw away what StopContainer still needs when the pod stops; wait for "
        "RemovePodSandbox, or clean up at whichever comes last.",
    )
    UNSTOPPED = (
        "A container was removed without having been stopped",
        "RemoveContainer came, and StopContainer had not, though the container was started and "
        "the connection had subscribed to both.",
        "Release resources at StopContainer and at RemoveContainer, whichever comes first.",
    )
    BACKWARDS = (
        "An event came after one that usually follows it",
        "The course of a container (create, start, stop, remove) went backwards.",
        "Do not derive a container's state from the newest event alone.",
    )
    REPEATED = (
        "An event came more than once",
        "Runtimes repeat an operation that did not succeed, and CRI-O repeats StopPodSandbox.",
        "Make handlers idempotent: the second call must neither fail nor release anything twice.",
    )
    AFTER_POD = (
        "A container had events after its pod was removed",
        "RemovePodSandbox was not the end of it.",
        "Keep what belongs to a container until its own RemoveContainer.",
    )


@dataclass(slots=True)
class _Course:
    rank: int = 0
    started: bool = False
    stopped: bool = False


class Order:
    """See `Part`. Each connection is looked at by itself: it is what a plugin sees."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._sequence = Sequence(scene)
        self._containers: Latest[_Course] = Latest()
        self._pods: Latest[int] = Latest()
        self._shown: dict[Rule, Shown] = {}

    def see(self, event: Event) -> None:
        """The next event of a connection."""
        self._sequence.see(event)
        session = self._scene.sessions.get(event.session)
        if session is None or session.role == Role.CRI:
            return
        if event.event in _POD_RANKS and event.pod_id:
            self._pod(event)
        elif event.event in _RANKS and event.container_id:
            self._container(event, stops=session.mask == 0 or bool(session.mask & _STOP_BIT))

    def round(self, diff: RoundDiff, *, wanted: bool) -> None:
        """Connections tell it each for itself."""

    def findings(self) -> Iterator[Finding]:
        """One for each rule."""
        for rule, shown in self._shown.items():
            title, detail, advice = rule.value
            count = len(shown.containers)
            times = f" It happened to {count:,} of them." if count > 1 else ""
            yield Finding(
                Kind.ORDER,
                Level.NOTE,
                title,
                f"{detail}{times}",
                advice,
                shown.events,
                shown.count,
                tuple(shown.containers),
            )

    def _pod(self, event: Event) -> None:
        key, rank = (event.session, event.pod_id), _POD_RANKS[event.event]
        before = self._pods.get(key) or 0
        if rank == before:
            self._note(Rule.REPEATED, event)
        elif rank < before:
            self._note(Rule.BACKWARDS, event)
        self._pods[key] = max(rank, before)

    def _container(self, event: Event, *, stops: bool) -> None:
        key, rank = (event.session, event.container_id), _RANKS[event.event]
        course = self._containers.get(key)
        if course is None:
            course = self._containers[key] = _Course()
        pod = self._pods.get((event.session, event.pod_id)) or 0
        if rank == course.rank:
            self._note(Rule.REPEATED, event)
        elif rank < course.rank:
            self._note(Rule.BACKWARDS, event)
        elif pod == _POD_REMOVED:
            self._note(Rule.AFTER_POD, event)
        elif event.event == "StopContainer" and course.started and pod == _POD_STOPPED:
            self._note(Rule.POD_FIRST, event)
        elif (
            event.event == "RemoveContainer"
            and course.started
            and not course.stopped
            and stops
            and self._sequence.is_whole(event.session)
        ):
            self._note(Rule.UNSTOPPED, event)
        course.rank = max(rank, course.rank)
        course.started |= rank == _STARTED
        course.stopped |= rank == _STOPPED

    def _note(self, rule: Rule, event: Event) -> None:
        if self._scene.wanted(event):
            thing = event.container_id or event.pod_id
            name = self._scene.name_of(thing)
            self._shown.setdefault(rule, Shown()).add(event.id, container=name)
