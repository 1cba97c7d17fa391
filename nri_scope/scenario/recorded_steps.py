# SPDX-License-Identifier: Apache-2.0
"""Make steps of recorded events: verbs where a verb leads to them, else the events themselves."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple, TypeVar

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import EventKind
from nri_scope.nri.merging import ADJUSTABLE
from nri_scope.nri.plain import clear_fields, fields_of
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.oci.runtime_rules import runtime_rules_of
from nri_scope.runtime import Profile

from .model import FieldChanges, Scenario, Step, Verb
from .subjects import KILLED, EventContents, LiveContainer, LivePod, Subjects, SubjectStage

TIMES = frozenset({"created_at", "started_at", "finished_at"})
"""Fields of a container that the time of the scenario determines."""

_STEP_BYTES = 700
"""Size that is counted for each step in addition to its messages."""
_PAIRS = {
    EventKind.CreateContainer: (EventKind.PostCreateContainer, Verb.CREATE),
    EventKind.StartContainer: (EventKind.PostStartContainer, Verb.START),
    EventKind.UpdateContainer: (EventKind.PostUpdateContainer, Verb.UPDATE),
    EventKind.UpdatePodSandbox: (EventKind.PostUpdatePodSandbox, Verb.UPDATE),
}
"""Verbs that lead to two events."""
_SINGLE = {
    EventKind.RunPodSandbox: Verb.RUN,
    EventKind.StopContainer: Verb.STOP,
    EventKind.RemoveContainer: Verb.REMOVE,
    EventKind.StopPodSandbox: Verb.STOP,
    EventKind.RemovePodSandbox: Verb.REMOVE,
}

M = TypeVar("M", api.PodSandbox, api.Container)


class _Recorded(NamedTuple):
    event: EventKind
    request: Message
    pod: LivePod
    container: LiveContainer | None


class RecordedSteps:
    """The steps of a scenario, one recorded event after the other."""

    def __init__(self, scenario: Scenario, profile: Profile) -> None:
        """Begin with the pods and containers that exist at the start of ``scenario``."""
        self._subjects = Subjects(scenario)
        self._contents = EventContents(profile)
        self._steps: list[Step] = []
        self.bytes = 0
        """Size of the steps and the messages in them."""
        self._pending: list[_Recorded] = []
        self._pauses: list[Step] = []
        self._is_restarted = False
        # Otherwise, requests do not depend on the plugins.
        rules = runtime_rules_of(profile.runtime_name)
        self._reports_adjustments = rules.reports_adjustments
        for pod in self._subjects.pods:
            if pod.spec.exists:
                pod.exist(tells_states=profile.lifecycle_rules.tells_states)

    def add(self, event: EventKind, request: Message, pod: str, container: str) -> None:
        """Add an event about the pod and the container with these keys; "" for no container."""
        (live,) = self._subjects.find_pods(pod)
        own = live.containers[container] if container else None
        self._pending.append(_Recorded(event, request, live, own))
        self._resolve()

    def wait(self, pause_ns: int) -> None:
        """Add a pause. One between the events of a verb follows the verb."""
        self._pauses.append(Step(Verb.WAIT, pause_ns=pause_ns))
        self._resolve()

    def restart(self) -> None:
        """Add a restart of the runtime."""
        self._finish()
        self._steps.append(Step(Verb.RESTART))
        self._is_restarted = True

    def finished(self) -> tuple[Step, ...]:
        """Return the steps."""
        self._finish()
        return tuple(self._steps)

    # -- verbs and events ---------------------------------------------------------------------

    def _finish(self) -> None:
        while self._pending:
            self._add_event(self._pending.pop(0))
        self._steps += self._pauses
        self._pauses = []

    def _resolve(self) -> None:
        while self._pending:
            first, *rest = self._pending
            pair = _PAIRS.get(first.event)
            if pair is None:
                self._pending = rest
                self._add_single(first)
            elif not rest:
                # The next event decides.
                return
            else:
                second, verb = pair
                follows = rest[0].event is second and rest[0][2:] == first[2:]
                if follows and _may(verb, first) and self._play(verb, [first, rest[0]]):
                    self._pending = rest[1:]
                else:
                    self._pending = rest
                    self._add_event(first)
        self._steps += self._pauses
        self._pauses = []

    def _add_single(self, recorded: _Recorded) -> None:
        verb = _SINGLE.get(recorded.event)
        if verb is None or not self._is_plain(verb, recorded) or not self._play(verb, [recorded]):
            self._add_event(recorded)

    def _add_event(self, recorded: _Recorded) -> None:
        self._play(recorded.event, [recorded])

    def _is_plain(self, verb: Verb, recorded: _Recorded) -> bool:
        """Return whether the verb leads to this event alone."""
        if recorded.container is not None:
            if verb is Verb.REMOVE:
                return recorded.container.stage is SubjectStage.STOPPED
            return recorded.container.stage in (SubjectStage.CREATED, SubjectStage.RUNNING)
        stages = {each.stage for each in recorded.pod.containers.values()}
        match verb:
            case Verb.RUN:
                return recorded.pod.stage is SubjectStage.ABSENT
            case Verb.STOP if not self._is_restarted:
                return (
                    recorded.pod.stage is SubjectStage.RUNNING
                    and SubjectStage.RUNNING not in stages
                )
            case Verb.REMOVE if not self._is_restarted:
                return recorded.pod.stage is SubjectStage.STOPPED and stages <= {
                    SubjectStage.ABSENT
                }
        return False

    def _play(self, what: Verb | EventKind, events: Sequence[_Recorded]) -> bool:
        """Add a step for events; return False, without effects, if it leads to other requests."""
        first = events[0]
        pod, container = first.pod, first.container
        step = Step(what, container.name if container is not None else pod.name)
        if isinstance(first.request, api.UpdateContainerRequest | api.UpdatePodSandboxRequest):
            step = replace(step, resources=first.request.linux_resources)
        if isinstance(first.request, api.UpdatePodSandboxRequest):
            step = replace(step, overhead=first.request.overhead_linux_resources)
        recorded = container_of(first.event.name, first.request)
        if first.event is EventKind.StopContainer and recorded is not None:
            code = recorded.exit_code
            if (code or recorded.finished_at) and code != KILLED:
                step = replace(step, exit_code=code)
        before = _states(pod, container)
        made = self._made(first, step)
        step = replace(
            step,
            pod=_changes(*_pods(first, made), frozenset()),
            container=None
            if container is None
            else _changes(*_containers(first, made), self._ignored(container)),
        )
        _restore(before, pod, container)
        for each in events:
            made = self._made(each, step)
            if each is first or not isinstance(what, Verb):
                continue
            changes = [_changes(*_pods(each, made), frozenset())]
            if container is not None:
                changes.append(_changes(*_containers(each, made), self._ignored(container)))
            if any(changes):
                _restore(before, pod, container)
                return False
        self._steps.append(step)
        self.bytes += _STEP_BYTES
        for fields in (step.pod, step.container):
            self.bytes += fields.message.ByteSize() if fields is not None else 0
        for resources in (step.resources, step.overhead):
            self.bytes += resources.ByteSize() if resources is not None else 0
        return True

    def _made(self, recorded: _Recorded, step: Step) -> Message:
        """Let an event happen; return the request that the scenario leads to."""
        own = self._contents.begin(recorded.event, recorded.pod, recorded.container, step, 0)
        made = self._contents.request(recorded.event, own, recorded.pod, recorded.container, step)
        self._contents.end(recorded.event, recorded.pod, recorded.container, step)
        return made

    def _ignored(self, container: LiveContainer) -> frozenset[str]:
        """Return the fields of a container that need not be as recorded."""
        if container.spec.exists or not self._reports_adjustments:
            return TIMES
        # Adjustments of the plugins that ran at the time of the recording are not part of it.
        return TIMES.union(ADJUSTABLE)


def _may(verb: Verb, recorded: _Recorded) -> bool:
    """Return whether the verb is possible at this point."""
    stage = recorded.container.stage if recorded.container is not None else recorded.pod.stage
    match verb:
        case Verb.CREATE:
            return stage is SubjectStage.ABSENT and recorded.pod.stage is SubjectStage.RUNNING
        case Verb.START:
            return stage is SubjectStage.CREATED
    return stage is not SubjectStage.ABSENT


class _States(NamedTuple):
    """Copies of the states of a pod and a container."""

    pod: tuple[SubjectStage, int, api.PodSandbox]
    container: tuple[SubjectStage, bool, int, api.Container] | None


def _states(pod: LivePod, container: LiveContainer | None) -> _States:
    own = (pod.stage, pod.runs, deepcopy(pod.message))
    if container is None:
        return _States(own, None)
    return _States(
        own,
        (container.stage, container.was_started, container.creations, deepcopy(container.message)),
    )


def _restore(states: _States, pod: LivePod, container: LiveContainer | None) -> None:
    pod.stage, pod.runs, message = states.pod
    pod.message = deepcopy(message)
    if container is not None and states.container is not None:
        container.stage, container.was_started, container.creations, content = states.container
        container.message = deepcopy(content)


# -- differences ------------------------------------------------------------------------------


def _pods(entry: _Recorded, made: Message) -> tuple[api.PodSandbox, api.PodSandbox]:
    recorded, ours = pod_of(entry.event.name, entry.request), pod_of(entry.event.name, made)
    return recorded or api.PodSandbox(), ours or api.PodSandbox()


def _containers(entry: _Recorded, made: Message) -> tuple[api.Container, api.Container]:
    recorded = container_of(entry.event.name, entry.request)
    ours = container_of(entry.event.name, made)
    return recorded or api.Container(), ours or api.Container()


def _changes(recorded: M, made: M, ignored: frozenset[str]) -> FieldChanges | None:
    """Return the fields of ``recorded`` that differ from ``made``; None if none does."""
    names = frozenset(
        name
        for name, field in fields_of(type(recorded)).items()
        if name not in ignored
        and (
            getattr(recorded, name) != getattr(made, name)
            or (field.has_presence and recorded.HasField(name) != made.HasField(name))  # type: ignore[arg-type]
        )
    )
    if not names:
        return None
    message = deepcopy(recorded)
    clear_fields(message, (name for name in fields_of(type(recorded)) if name not in names))
    return FieldChanges(message, names)
