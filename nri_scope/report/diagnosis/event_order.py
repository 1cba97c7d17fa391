# SPDX-License-Identifier: Apache-2.0
"""Detect events in a valid order that the author of a plugin may not expect, and missed ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum

from nri_scope.events import Event
from nri_scope.nri.events import (
    CONTAINER_ORDER,
    CREATE,
    CREATED_ONLY_EVENTS,
    CREATION_EVENTS,
    POD_ORDER,
    POST_CREATE,
    REMOVE,
    REMOVE_POD,
    RUN_POD,
    STARTS,
    STOP,
    STOP_POD,
    SYNCHRONIZE,
    EventKind,
)
from nri_scope.text.quantities import many

from ..finding import Finding, FindingEvents, FindingKind, Level
from .recording_facts import Detector, Latest, LostEventDetector, RecordingFacts

_START_EVENTS = EventKind.StartContainer, EventKind.PostStartContainer
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
    UNUSED_POD = (
        "A pod was stopped and removed before a container was created in it",
        "containerd does so at once if RunPodSandbox fails; a client can also have removed it.",
        "Look for an error of RunPodSandbox in the runtime's log or the pod's Kubernetes Events.",
    )
    AFTER_POD = (
        "A container had events after its pod was removed",
        "RemovePodSandbox was not the last event of the container.",
        "Keep the data of a container until its own RemoveContainer.",
    )


class EventOrderDetector(Detector):
    """Detector of unexpected orders, by connection, as a plugin sees only its own events."""

    def __init__(self, facts: RecordingFacts, lost: LostEventDetector) -> None:
        """``lost`` has seen each event before this detector."""
        super().__init__(facts)
        self._lost = lost
        self._events: Latest[tuple[int, str], set[str]] = Latest()
        """Names of the events about each pod and container, by connection."""
        self._shown: dict[Rule, FindingEvents] = {}
        self._pairs: dict[str, None] = {}

    def see(self, event: Event) -> None:
        """Process the next event of a connection."""
        session = self._facts.sessions.get(event.session)
        if session is None or not session.is_connection:
            return
        pod = "" if event.is_alone else event.pod_id
        subjects = (pod, POD_ORDER), (event.container_id, CONTAINER_ORDER)
        if event.event == CREATE:
            self._events.setdefault((event.session, pod), set()).add(CREATE)
        for subject, order in subjects:
            if subject and event.event in order:
                self._check(event, subject, order)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each rule."""
        for rule, events in self._shown.items():
            title, detail, advice = rule.value
            count = len(events.containers)
            if rule is Rule.BACKWARDS:
                pairs = [*self._pairs][:_PAIRS_MAX]
                if len(self._pairs) > len(pairs):
                    pairs.append(f"and {len(self._pairs) - len(pairs)} more")
                detail = f"{detail} {'; '.join(pairs)}."
            times = f" This affects {count:,} containers or pods." if count > 1 else ""
            yield events.finding(
                FindingKind.ORDER,
                Level.NOTE,
                title,
                f"{detail}{times}",
                advice,
            )

    def _check(self, event: Event, subject: str, order: tuple[str, ...]) -> None:
        key, name = (event.session, subject), event.event
        earlier = self._events.setdefault(key, set())
        newest = _newest(earlier, order) if earlier else ""
        if name == newest:
            self._note(Rule.REPEATED, event)
        elif newest and order.index(name) < order.index(newest):
            self._backwards(event, newest)
        elif name == REMOVE_POD and earlier == {RUN_POD, STOP_POD}:
            creates = self._facts.sessions[event.session].subscribes_to(EventKind.CreateContainer)
            if creates and self._lost.is_whole(event.session):
                self._note(Rule.UNUSED_POD, event)
        elif subject == event.container_id:
            rule = self._broken_rule(event, earlier, newest)
            if rule is not None:
                self._note(rule, event)
        earlier.add(name)

    def _broken_rule(self, event: Event, earlier: set[str], newest: str) -> Rule | None:
        """Return the rule for an event that did not go backwards; None if its order is usual.

        ``earlier``: the events of the container.
        """
        session = self._facts.sessions[event.session]
        pod = _newest(self._events.get((event.session, event.pod_id)) or (), POD_ORDER)
        if pod == REMOVE_POD:
            return Rule.AFTER_POD
        started = not STARTS.isdisjoint(earlier)
        if event.event == STOP:
            if started and pod == STOP_POD:
                return Rule.POD_FIRST
            # A container whose creation failed also gets StopContainer, which is another case.
            never_ran = newest == POST_CREATE and any(map(session.subscribes_to, _START_EVENTS))
            if never_ran and self._lost.is_whole(event.session):
                return Rule.NEVER_RAN
        unstopped = event.event == REMOVE and started and STOP not in earlier
        unstopped = unstopped and session.subscribes_to(EventKind.StopContainer)
        if unstopped and self._lost.is_whole(event.session):
            return Rule.UNSTOPPED
        return None

    def _backwards(self, event: Event, before: str) -> None:
        if self._facts.wanted(event):
            self._pairs[f"{event.event} arrived after {before}"] = None
        self._note(Rule.BACKWARDS, event)

    def _note(self, rule: Rule, event: Event) -> None:
        if self._facts.wanted(event):
            subject = event.container_id or event.pod_id
            name = self._facts.name_of(subject)
            self._shown.setdefault(rule, FindingEvents()).add(event.id, container=name)


def _newest(names: Collection[str], order: tuple[str, ...]) -> str:
    """Return the event of ``names`` that comes last in the usual order; "" for none."""
    return next((name for name in reversed(order) if name in names), "")


_UNKNOWN_ADVICE = (
    "Treat an unknown pod or container as a new one, whichever event shows it first, and read its "
    "data from that event. What the plugin does at the first event was not done: create it again. "
    "Avoid connecting plugins while pods are being started."
)
_FIRST = {"pod": EventKind.RunPodSandbox, "container": EventKind.CreateContainer}


class MissedSubjectDetector(Detector):
    """Detector of pods and containers that a plugin was never informed of."""

    def __init__(self, facts: RecordingFacts, lost: LostEventDetector) -> None:
        """``lost`` has seen each event before this detector."""
        super().__init__(facts)
        self._lost = lost
        self._known: Latest[tuple[int, str], bool] = Latest()
        self._existed: dict[int, frozenset[str]] = {}
        self._synchronized: set[int] = set()
        self._shown: dict[tuple[int, str], FindingEvents] = {}

    def see(self, event: Event) -> None:
        """Check the first event of a pod and of a container at each connection."""
        if event.event == SYNCHRONIZE:
            self._synchronized.add(event.session)
        is_pod = event.pod_id and not event.is_alone
        if is_pod and event.event in CREATION_EVENTS:
            is_missed = event.event == CREATE and event.session in self._synchronized
            self._first(event, event.pod_id, "pod", is_missed=is_missed)
        if event.event == REMOVE:
            self._known.pop((event.session, event.container_id), None)
        elif event.container_id:
            # A container whose creation an earlier plugin refused is stopped and removed, although
            # later plugins never saw it; that is correct.
            is_missed = event.event in CREATED_ONLY_EVENTS
            self._first(event, event.container_id, "container", is_missed=is_missed)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each connection, and pods or containers."""
        for (number, kind), events in self._shown.items():
            session = self._facts.sessions[number]
            count, first = events.count, _FIRST[kind].name
            yield events.finding(
                FindingKind.MISSED,
                Level.WARNING,
                f"{session.plugin} received events of {count:,} unknown {kind}"
                f"{'s' if count != 1 else ''}",
                f"Neither Synchronize nor {first} contained "
                f"{'them' if count != 1 else 'it'} in session {number}, which lost no event and "
                f"had subscribed to {first}. A runtime can miss {kind}s that are created "
                "while a plugin is being synchronized.",
                _UNKNOWN_ADVICE,
            )

    def _first(self, event: Event, about: str, kind: str, *, is_missed: bool) -> None:
        """Check the first event about a pod or container; ``kind``: a key of `_FIRST`."""
        if (event.session, about) in self._known:
            return
        self._known[event.session, about] = True
        if is_missed and self._is_unknown(event, about, _FIRST[kind]) and self._facts.wanted(event):
            events = self._shown.setdefault((event.session, kind), FindingEvents())
            events.add(event.id, container=self._facts.name_of(about))

    def _is_unknown(self, event: Event, about: str, first: EventKind) -> bool:
        session = self._facts.sessions.get(event.session)
        if session is None or not session.is_connection or not self._lost.is_whole(session.id):
            return False
        if not session.subscribes_to(first):
            return False
        existed = self._existed.get(session.id)
        if existed is None:
            existed = self._existed[session.id] = self._facts.existed(session.id)
        return about not in existed


class UnseenEndDetector(Detector):
    """Detector of pods whose end no event showed, and which a later Synchronize does not list."""

    def __init__(self, facts: RecordingFacts) -> None:
        super().__init__(facts)
        self._running: Latest[str, Event] = Latest()
        """Newest events of the pods that were created and not removed."""
        self._synchronize: Event | None = None

    def see(self, event: Event) -> None:
        """Process the next event of a connection."""
        session = self._facts.sessions.get(event.session)
        if session is None or not session.is_connection:
            return
        if event.event == SYNCHRONIZE and session.synced_ns is not None:
            self._synchronize = event
        elif event.event == REMOVE_POD:
            self._running.pop(event.pod_id, None)
        elif event.event == RUN_POD or event.pod_id in self._running:
            self._running[event.pod_id] = event

    def findings(self) -> Iterator[Finding]:
        """Yield a finding if such pods are not in the newest Synchronize, nor in later events."""
        newest, missed = self._synchronize, FindingEvents()
        existed = self._facts.existed(newest.session) if newest is not None else frozenset()
        for pod, event in self._running.items():
            is_over = newest is not None and event.id < newest.id and pod not in existed
            if is_over and self._facts.wanted(event):
                missed.add(event.id, container=self._facts.name_of(pod))
        if newest is not None and missed.count:
            yield missed.finding(
                FindingKind.UNOBSERVED,
                Level.NOTE,
                f"The end of {many(missed.count, 'pod')} was not recorded",
                f"RunPodSandbox was, and RemovePodSandbox was not; Synchronize of session "
                f"{newest.session} no longer contained {'it' if missed.count == 1 else 'them'}.",
                "Release at Synchronize what belongs to pods and containers that it does not "
                "contain: a plugin that was not connected gets no event of their end.",
            )
