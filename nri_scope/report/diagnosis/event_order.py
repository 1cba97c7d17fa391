# SPDX-License-Identifier: Apache-2.0
"""Detect events in a valid order that the author of a plugin may not expect.

A container that is created while a plugin is being synchronized can be missing in both Synchronize
and CreateContainer (containerd#13698).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum

from nri_scope.events import Event
from nri_scope.nri.events import (
    CONTAINER_ORDER,
    CREATE,
    FIRST,
    POD_ORDER,
    POST_CREATE,
    PROOFS,
    REMOVE,
    REMOVE_POD,
    RUN_POD,
    STARTS,
    STOP,
    STOP_POD,
    SYNCHRONIZE,
)
from nri_scope.nri.events import Event as NriEvent

from ..finding import Finding, FindingKind, Level, Shown
from .recording_facts import Detector, Latest, RecordingFacts, Sequence

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


class Order(Detector):
    """Detector of unexpected orders, by connection, as a plugin sees only its own events."""

    def __init__(self, scene: RecordingFacts, sequence: Sequence) -> None:
        """``sequence`` has seen each event before this detector."""
        super().__init__(scene)
        self._sequence = sequence
        self._events: Latest[tuple[int, str], set[str]] = Latest()
        """Names of the events about each pod and container, by connection."""
        self._shown: dict[Rule, Shown] = {}
        self._pairs: dict[str, None] = {}

    def see(self, event: Event) -> None:
        """Process the next event of a connection."""
        session = self._scene.sessions.get(event.session)
        if session is None or not session.is_connection:
            return
        subjects = (event.pod_id, POD_ORDER), (event.container_id, CONTAINER_ORDER)
        for subject, order in subjects:
            if subject and event.event in order:
                self._check(event, subject, order, session.mask)

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

    def _check(self, event: Event, subject: str, order: tuple[str, ...], mask: int) -> None:
        key, name = (event.session, subject), event.event
        seen = self._events.get(key)
        if seen is None:
            seen = self._events[key] = set()
        newest = _newest(seen, order)
        if name == newest:
            self._note(Rule.REPEATED, event)
        elif newest and order.index(name) < order.index(newest):
            self._backwards(event, newest)
        elif subject == event.container_id:
            rule = self._broken_rule(event, seen, newest, mask)
            if rule is not None:
                self._note(rule, event)
        seen.add(name)

    def _broken_rule(self, event: Event, seen: set[str], newest: str, mask: int) -> Rule | None:
        """Return the rule for an event that did not go backwards; None if its order is usual.

        ``seen``: the earlier events of the container.
        """
        pod = _newest(self._events.get((event.session, event.pod_id)) or (), POD_ORDER)
        if pod == REMOVE_POD:
            return Rule.AFTER_POD
        started = not STARTS.isdisjoint(seen)
        if event.event == STOP:
            if started and pod == STOP_POD:
                return Rule.POD_FIRST
            # A container whose creation failed also gets StopContainer, which is another case.
            never_ran = newest == POST_CREATE and _subscribed(mask, _START_BITS)
            if never_ran and self._sequence.is_whole(event.session):
                return Rule.NEVER_RAN
        unstopped = event.event == REMOVE and started and STOP not in seen
        if unstopped and _subscribed(mask, _STOP_BIT) and self._sequence.is_whole(event.session):
            return Rule.UNSTOPPED
        return None

    def _backwards(self, event: Event, before: str) -> None:
        if self._scene.wanted(event):
            self._pairs[f"{event.event} arrived after {before}"] = None
        self._note(Rule.BACKWARDS, event)

    def _note(self, rule: Rule, event: Event) -> None:
        if self._scene.wanted(event):
            subject = event.container_id or event.pod_id
            name = self._scene.name_of(subject)
            self._shown.setdefault(rule, Shown()).add(event.id, container=name)


def _newest(seen: Collection[str], order: tuple[str, ...]) -> str:
    """Return the last one of ``seen`` events in the usual order; "" for none."""
    return next((name for name in reversed(order) if name in seen), "")


def _subscribed(mask: int, bits: int) -> bool:
    return mask == 0 or bool(mask & bits)


_UNKNOWN_ADVICE = (
    "Treat an unknown pod or container as a new one, whichever event shows it first, and read its "
    "data from that event. What the plugin does at the first event was not done: create it again. "
    "Avoid connecting plugins while pods are being started."
)
_CREATE_BIT, _RUN_BIT = NriEvent.CreateContainer.bit, NriEvent.RunPodSandbox.bit
_FIRST = {"pod": RUN_POD, "container": CREATE}


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
        if event.event == SYNCHRONIZE:
            self._synchronized.add(event.session)
        # Docker has no events of pods: a pod has the id of its container.
        is_pod = event.pod_id not in ("", event.container_id)
        if is_pod and event.event in FIRST:
            is_missed = event.event == CREATE and event.session in self._synchronized
            self._first(event, event.pod_id, "pod", _RUN_BIT, is_missed=is_missed)
        if event.event == REMOVE:
            self._known.pop((event.session, event.container_id), None)
        elif event.container_id:
            # A container whose creation an earlier plugin refused is stopped and removed, although
            # later plugins never saw it; that is correct.
            is_missed = event.event in PROOFS
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
