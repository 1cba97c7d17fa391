# SPDX-License-Identifier: Apache-2.0
"""Detect events in a valid order that the author of a plugin may not expect.

A container that is created while a plugin is being synchronized can be missing in both Synchronize
and CreateContainer (containerd#13698).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from nri_scope.differ.attribution.rounds import CREATE
from nri_scope.events import Event
from nri_scope.nri.events import Event as NriEvent

from ..finding import Finding, FindingKind, Level, Shown
from .recording_facts import Detector, Latest, RecordingFacts, Sequence

_RANKS = {
    "CreateContainer": 1,
    "PostCreateContainer": 2,
    "StartContainer": 3,
    "PostStartContainer": 4,
    "StopContainer": 5,
    "RemoveContainer": 6,
}
_CREATED, _STARTED, _STOPPED = 2, 3, 5
_POD_RANKS = {"RunPodSandbox": 1, "StopPodSandbox": 2, "RemovePodSandbox": 3}
_POD_STOPPED, _POD_REMOVED = 2, 3
_START_BITS = NriEvent.StartContainer.bit | NriEvent.PostStartContainer.bit
_STOP_BIT = NriEvent.StopContainer.bit
_PAIRS_MAX = 4
"""Maximum number of misordered events that are named."""


class Rule(Enum):
    """An unexpected order: title, explanation, and advice."""

    POD_FIRST = (
        "A container was stopped after its pod",
        "StopPodSandbox arrived before StopContainer of a container in the pod.",
        "Keep the data that StopContainer needs when the pod stops; clean up at RemovePodSandbox, "
        "or at the last event of the container or pod.",
    )
    UNSTOPPED = (
        "A container was removed without having been stopped",
        "RemoveContainer arrived without StopContainer, though the container was started and the "
        "connection had subscribed to both.",
        "Release resources at StopContainer and at RemoveContainer, whichever arrives first.",
    )
    NEVER_RAN = (
        "A container was stopped that never ran",
        "StopContainer arrived without StartContainer: the container could not be started, or no "
        "client started it.",
        "Do not assume at StopContainer that the container ran: release the resources of the "
        "creation, and do not rely on anything set up at StartContainer.",
    )
    BACKWARDS = (
        "An event arrived after one that usually follows it",
        "The lifecycle of a container (create, start, stop, remove) or pod went backwards.",
        "Do not derive a container's state from the newest event alone.",
    )
    REPEATED = (
        "An event arrived more than once",
        "Runtimes repeat failed operations, and CRI-O repeats StopPodSandbox.",
        "Make handlers idempotent: the second call must neither fail nor release anything twice.",
    )
    AFTER_POD = (
        "A container had events after its pod was removed",
        "RemovePodSandbox was not the last event of the container.",
        "Keep the data of a container until its own RemoveContainer.",
    )


@dataclass(slots=True)
class _Lifecycle:
    rank: int = 0
    started: bool = False
    stopped: bool = False


class Order(Detector):
    """Detector of unexpected orders, by connection, as a plugin sees only its own events."""

    def __init__(self, scene: RecordingFacts, sequence: Sequence) -> None:
        """``sequence`` has seen each event before this detector."""
        super().__init__(scene)
        self._sequence = sequence
        self._containers: Latest[tuple[int, str], _Lifecycle] = Latest()
        self._pods: Latest[tuple[int, str], int] = Latest()
        self._shown: dict[Rule, Shown] = {}
        self._pairs: dict[str, None] = {}

    def see(self, event: Event) -> None:
        """Process the next event of a connection."""
        session = self._scene.sessions.get(event.session)
        if session is None or not session.is_connection:
            return
        if event.event in _POD_RANKS and event.pod_id:
            self._pod(event)
        elif event.event in _RANKS and event.container_id:
            self._container(event, session.mask)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each rule."""
        for rule, shown in self._shown.items():
            title, detail, advice = rule.value
            count = len(shown.containers)
            if rule is Rule.BACKWARDS:
                pairs = [*self._pairs][:_PAIRS_MAX]
                more = [f"and {len(self._pairs) - len(pairs)} more"] * (
                    len(self._pairs) > len(pairs)
                )
                detail = f"{detail} {'; '.join([*pairs, *more])}."
            times = f" This affects {count:,} containers or pods." if count > 1 else ""
            yield shown.finding(
                FindingKind.ORDER,
                Level.NOTE,
                title,
                f"{detail}{times}",
                advice,
            )

    def _pod(self, event: Event) -> None:
        key, rank = (event.session, event.pod_id), _POD_RANKS[event.event]
        before = self._pods.get(key) or 0
        if rank == before:
            self._note(Rule.REPEATED, event)
        elif rank < before:
            self._backwards(event, _POD_RANKS, before)
        self._pods[key] = max(rank, before)

    def _container(self, event: Event, mask: int) -> None:
        key, rank = (event.session, event.container_id), _RANKS[event.event]
        lifecycle = self._containers.get(key)
        if lifecycle is None:
            lifecycle = self._containers[key] = _Lifecycle()
        if rank == lifecycle.rank:
            self._note(Rule.REPEATED, event)
        elif rank < lifecycle.rank:
            self._backwards(event, _RANKS, lifecycle.rank)
        else:
            rule = self._broken_rule(event, lifecycle, mask)
            if rule is not None:
                self._note(rule, event)
        lifecycle.rank = max(rank, lifecycle.rank)
        lifecycle.started |= rank in (_STARTED, _STARTED + 1)
        lifecycle.stopped |= rank == _STOPPED

    def _broken_rule(self, event: Event, lifecycle: _Lifecycle, mask: int) -> Rule | None:
        """Return the rule for an event that did not go backwards; None if its order is usual."""
        pod = self._pods.get((event.session, event.pod_id)) or 0
        if pod == _POD_REMOVED:
            return Rule.AFTER_POD
        if event.event == "StopContainer":
            if lifecycle.started and pod == _POD_STOPPED:
                return Rule.POD_FIRST
            # A container whose creation failed also gets StopContainer, which is another case.
            never_ran = lifecycle.rank == _CREATED and _subscribed(mask, _START_BITS)
            if never_ran and self._sequence.is_whole(event.session):
                return Rule.NEVER_RAN
        unstopped = event.event == "RemoveContainer" and lifecycle.started and not lifecycle.stopped
        if unstopped and _subscribed(mask, _STOP_BIT) and self._sequence.is_whole(event.session):
            return Rule.UNSTOPPED
        return None

    def _backwards(self, event: Event, ranks: Mapping[str, int], newest: int) -> None:
        before = next(name for name, rank in ranks.items() if rank == newest)
        if self._scene.wanted(event):
            self._pairs[f"{event.event} arrived after {before}"] = None
        self._note(Rule.BACKWARDS, event)

    def _note(self, rule: Rule, event: Event) -> None:
        if self._scene.wanted(event):
            subject = event.container_id or event.pod_id
            name = self._scene.name_of(subject)
            self._shown.setdefault(rule, Shown()).add(event.id, container=name)


def _subscribed(mask: int, bits: int) -> bool:
    return mask == 0 or bool(mask & bits)


_LIVING = frozenset(
    {
        "PostCreateContainer",
        "StartContainer",
        "PostStartContainer",
        "UpdateContainer",
        "PostUpdateContainer",
    }
)
"""Events of successfully created containers only. A container whose creation an earlier plugin
refused is stopped and removed, although later plugins never saw it; that is correct."""
_UNKNOWN_ADVICE = (
    "Treat an unknown pod or container as a new one, whichever event shows it first, and read its "
    "data from that event. What the plugin does at the first event was not done: create it again. "
    "Avoid connecting plugins while pods are being started."
)
_CREATE_BIT, _RUN_BIT = NriEvent.CreateContainer.bit, NriEvent.RunPodSandbox.bit
_FIRST = {"pod": "RunPodSandbox", "container": CREATE}


class Missed(Detector):
    """Detector of pods and containers that a plugin was never informed of."""

    def __init__(self, scene: RecordingFacts, sequence: Sequence) -> None:
        """``sequence`` has seen each event before this detector."""
        super().__init__(scene)
        self._sequence = sequence
        self._known: Latest[tuple[int, str], bool] = Latest()
        self._existed: dict[int, frozenset[str]] = {}
        self._synchronized: set[int] = set()
        self._shown: dict[tuple[int, str], Shown] = {}

    def see(self, event: Event) -> None:
        """Check the first event of a pod and of a container at each connection."""
        if event.event == "Synchronize":
            self._synchronized.add(event.session)
        # Docker has no events of pods: a pod has the id of its container.
        is_pod = event.pod_id not in ("", event.container_id)
        if is_pod and event.event in ("RunPodSandbox", CREATE):
            is_missed = event.event == CREATE and event.session in self._synchronized
            self._first(event, event.pod_id, "pod", _RUN_BIT, is_missed=is_missed)
        if event.event == "RemoveContainer":
            self._known.pop((event.session, event.container_id), None)
        elif event.container_id:
            is_missed = event.event in _LIVING
            self._first(event, event.container_id, "container", _CREATE_BIT, is_missed=is_missed)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each connection, and pods or containers."""
        for (number, kind), shown in self._shown.items():
            session = self._scene.sessions[number]
            count = shown.count
            yield shown.finding(
                FindingKind.MISSED,
                Level.WARNING,
                f"{session.plugin} received events of {count:,} unknown {kind}"
                f"{'s' if count != 1 else ''}",
                f"Neither Synchronize nor {_FIRST[kind]} contained "
                f"{'them' if count != 1 else 'it'} in session {number}, which lost no event and "
                f"had subscribed to {_FIRST[kind]}. A runtime can miss {kind}s that are created "
                "while a plugin is being synchronized.",
                _UNKNOWN_ADVICE,
            )

    def _first(self, event: Event, about: str, kind: str, bit: int, *, is_missed: bool) -> None:
        """Check the first event about a pod or container; ``bit``: the event that begins it."""
        if (event.session, about) in self._known:
            return
        self._known[event.session, about] = True
        if is_missed and self._is_unknown(event, about, bit) and self._scene.wanted(event):
            shown = self._shown.setdefault((event.session, kind), Shown())
            shown.add(event.id, container=self._scene.name_of(about))

    def _is_unknown(self, event: Event, about: str, bit: int) -> bool:
        session = self._scene.sessions.get(event.session)
        if session is None or not session.is_connection or not self._sequence.is_whole(session.id):
            return False
        if not _subscribed(session.mask, bit):
            return False
        existed = self._existed.get(session.id)
        if existed is None:
            existed = self._existed[session.id] = self._scene.existed(session.id)
        return about not in existed
