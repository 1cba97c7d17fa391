# SPDX-License-Identifier: Apache-2.0
"""Models of a load: the events of one recorded pod, from its start to its end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import Event
from nri_scope.nri.methods import METHODS
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.runtime import Profile
from nri_scope.runtime.state_change import own_request
from nri_scope.scenario.content_rules import content_rules_of
from nri_scope.scenario.event_contents import KILLED

from .script import ReplayStep

EVENTS_MAX = 1_000
"""Maximum number of recorded events of one model."""
_ENDS = (Event.StopContainer, Event.RemoveContainer)
_POD_ENDS = (Event.StopPodSandbox, Event.RemovePodSandbox)


@dataclass(slots=True)
class ContainerModel:
    """Events of one container: of its life, and of its end."""

    life: list[ReplayStep] = field(default_factory=list[ReplayStep])
    end: list[ReplayStep] = field(default_factory=list[ReplayStep])


@dataclass(slots=True)
class PodModel:
    """Events of one pod, in the order in which they are sent for each copy."""

    start: list[ReplayStep] = field(default_factory=list[ReplayStep])
    containers: dict[str, ContainerModel] = field(default_factory=dict[str, ContainerModel])
    end: list[ReplayStep] = field(default_factory=list[ReplayStep])
    count: int = 0

    def add(self, step: ReplayStep) -> None:
        """Add an event, if the pod was started in the session and its model is not full."""
        if self.count >= EVENTS_MAX:
            return
        self.count += 1
        container = step.recorded.container_id
        if not container:
            (self.end if step.event in _POD_ENDS else self.start).append(step)
        elif step.event is Event.CreateContainer:
            self.containers.setdefault(container, ContainerModel()).life.append(step)
        elif container in self.containers:
            model = self.containers[container]
            (model.end if step.event in _ENDS else model.life).append(step)

    def add_ends(self, profile: Profile) -> None:
        """Add the stops and removals that are missing, as the runtime sends them.

        An end with a removal is as recorded: some runtimes send no stop before it.
        """
        for one in self.containers.values():
            for event in _missing(_ENDS, one.end):
                one.end.append(_ending(event, one.end[-1:] or one.life, one.life, profile))
        for event in _missing(_POD_ENDS, self.end):
            self.end.append(_ending(event, self.end[-1:] or self.start, [], profile))


def _missing(ends: tuple[Event, Event], steps: list[ReplayStep]) -> tuple[Event, ...]:
    stop, removal = ends
    found = {step.event for step in steps}
    if removal in found:
        return ()
    return (removal,) if stop in found else ends


def _ending(
    event: Event, before: list[ReplayStep], life: list[ReplayStep], profile: Profile
) -> ReplayStep:
    """Return an event that ends the subject of ``before``, whose last message it repeats.

    ``life``: the events of the container; empty for a pod.
    """
    latest = before[-1]
    assert latest.event is not None
    assert latest.message is not None
    about = api.StateChangeEvent(
        pod=pod_of(latest.event.name, latest.message),
        container=container_of(latest.event.name, latest.message),
    )
    if life and not about.container.finished_at:
        about.container.finished_at, about.container.exit_code = latest.recorded.at_ns, KILLED
    own = own_request(METHODS[event.name].request, about)
    adapted = profile.lifecycle_rules.adapted(event, own)
    message = type(adapted)()
    message.CopyFrom(adapted)
    rules = content_rules_of(profile)
    container, pod = container_of(event.name, message), pod_of(event.name, message)
    if container is not None:
        was_started = any(step.event is Event.StartContainer for step in life)
        rules.set_container(container, event, was_started=was_started)
    if pod is not None:
        rules.set_pod(pod, event, is_stopped=event in _POD_ENDS)
    recorded = replace(latest.recorded, method=event.name, event=event.name)
    return replace(latest, recorded=recorded, event=event, message=message)
