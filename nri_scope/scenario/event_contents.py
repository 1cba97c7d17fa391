# SPDX-License-Identifier: Apache-2.0
"""The content of events: how they change pods and containers, and what their requests contain."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import METHODS, Event
from nri_scope.nri.merging import with_resources
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.nri.versions import V0_7, runtime_title
from nri_scope.runtime import Profile
from nri_scope.runtime.lifecycle import own_request
from nri_scope.runtime.rules import CONTAINERD_2_3

from .model import Step, Verb
from .subjects import LiveContainer, LivePod, Stage

_SPEC_ANNOTATIONS = "io.kubernetes.cri."
"""Prefix of the annotations that containerd takes from the OCI spec of a pod's own container."""
_AFTER_START = frozenset(
    {
        Event.StartContainer,
        Event.PostStartContainer,
        Event.UpdateContainer,
        Event.PostUpdateContainer,
    }
)


@dataclass(frozen=True, slots=True)
class ContentRules:
    """What a runtime tells about a pod and a container in each event."""

    pid_events: frozenset[Event]
    """Events in which a container has its process id."""
    tells_times: bool
    """Whether a container has the times of its creation, start and end, and its exit status."""
    starts_late: bool
    """Whether the time of the start is not yet known in PostStartContainer."""
    keeps_created: bool
    """Whether a container that was not started is stopped and removed with the state CREATED."""
    pid_of_stopped_pod: bool
    """Whether a pod has a process id in StopPodSandbox and later."""
    forgets_spec: Event | None
    """Event from which on a pod lacks what containerd takes from the OCI spec of its container."""

    def set_container(self, container: api.Container, event: Event, *, was_started: bool) -> None:
        """Remove what the runtime does not tell about a container in ``event``.

        ``was_started``: whether this or an earlier event is StartContainer.
        """
        has_pid = was_started or Event.PostCreateContainer in self.pid_events
        if event not in self.pid_events or not has_pid:
            container.ClearField("pid")
        created = event is not Event.CreateContainer
        started = was_started and event is not Event.StartContainer
        if event is Event.PostStartContainer and self.starts_late:
            started = False
        ended = event in (Event.StopContainer, Event.RemoveContainer)
        if not (created and self.tells_times):
            container.ClearField("created_at")
        if not (started and self.tells_times):
            container.ClearField("started_at")
        if not (ended and self.tells_times):
            container.ClearField("finished_at")
            container.ClearField("exit_code")
        if ended and self.keeps_created and not was_started:
            container.state = api.ContainerState.CONTAINER_CREATED
        if created and not container.hooks.ListFields():
            container.ClearField("hooks")

    def set_pod(self, pod: api.PodSandbox, event: Event, *, is_stopped: bool) -> None:
        """Remove what the runtime does not tell about a pod in ``event``.

        ``is_stopped``: whether this or an earlier event is StopPodSandbox.
        """
        if is_stopped and not self.pid_of_stopped_pod:
            pod.ClearField("pid")
        if self.forgets_spec is Event.StopPodSandbox:
            forgets = is_stopped
        else:
            forgets = event is self.forgets_spec
        if not forgets or not pod.name:
            return
        for key in [key for key in pod.annotations if key.startswith(_SPEC_ANNOTATIONS)]:
            del pod.annotations[key]
        pod.linux.ClearField("cgroups_path")
        pod.linux.ClearField("namespaces")
        pod.linux.ClearField("resources")


def content_rules_of(profile: Profile) -> ContentRules:
    """Return the rules of a runtime; those of containerd if it is unknown."""
    title = runtime_title(profile.runtime_name)
    if title == "CRI-O":
        return ContentRules(
            frozenset(Event) - {Event.CreateContainer},
            tells_times=True,
            starts_late=True,
            keeps_created=False,
            pid_of_stopped_pod=True,
            forgets_spec=None,
        )
    is_modern = profile.lifecycle_rules is CONTAINERD_2_3
    rules = ContentRules(
        _AFTER_START if title == "iSulad" else _AFTER_START | {Event.StopContainer},
        tells_times=is_modern,
        starts_late=False,
        keeps_created=False,
        pid_of_stopped_pod=False,
        forgets_spec=None,
    )
    if is_modern or title == "iSulad":
        return rules
    is_old = profile.version is not None and profile.version < V0_7
    return replace(
        rules,
        keeps_created=True,
        forgets_spec=Event.StopPodSandbox if is_old else Event.RemovePodSandbox,
    )


KILLED = 137
"""Exit status of a container that is stopped: killed by SIGKILL."""


class EventContents:
    """The contents of one runtime's events. For each, call `begin`, `request` and `end`."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._rules = content_rules_of(profile)

    def begin(
        self, event: Event, pod: LivePod, container: LiveContainer | None, step: Step, now_ns: int
    ) -> Message:
        """Change the subjects as they are when the event is sent.

        Returns the event's own request message with all that is known about them.
        """
        if event is Event.RunPodSandbox and pod.stage is Stage.ABSENT:
            pod.run()
        elif event is Event.RunPodSandbox:
            pod.stage = Stage.RUNNING
        if event is Event.StopPodSandbox:
            pod.stage = Stage.STOPPED
        if container is not None:
            _begin(event, container, step, now_ns)
            if step.container is not None:
                step.container.apply(container.message)
        if step.pod is not None:
            step.pod.apply(pod.message)
        about = api.StateChangeEvent(
            pod=pod.message, container=container.message if container else None
        )
        request = own_request(METHODS[event.name].request, about)
        if isinstance(request, api.UpdateContainerRequest | api.UpdatePodSandboxRequest):
            request.linux_resources.CopyFrom(step.resources or api.LinuxResources())
        if isinstance(request, api.UpdatePodSandboxRequest):
            request.overhead_linux_resources.CopyFrom(step.overhead or api.LinuxResources())
        return request

    def request(
        self, event: Event, own: Message, pod: LivePod, live: LiveContainer | None, step: Step
    ) -> Message:
        """Return a request with what this runtime tells about its subjects in ``event``."""
        adapted = self._profile.lifecycle_rules.adapted(event, own)
        request = deepcopy(adapted)
        shown_pod, container = pod_of(event.name, request), container_of(event.name, request)
        if container is not None and live is not None:
            self._rules.set_container(container, event, was_started=live.was_started)
            if step.container is not None:
                step.container.apply(container)
        if shown_pod is not None:
            if (
                self._profile.lifecycle_rules.forgets_pods
                and event is Event.StopContainer
                and pod.stage is Stage.ABSENT
            ):
                shown_pod.CopyFrom(api.PodSandbox(id=shown_pod.id))
            self._rules.set_pod(shown_pod, event, is_stopped=pod.stage is Stage.STOPPED)
            if step.pod is not None:
                step.pod.apply(shown_pod)
        return request

    def end(self, event: Event, pod: LivePod, container: LiveContainer | None, step: Step) -> None:
        """Change the subjects as they are after the event."""
        match event:
            case Event.UpdateContainer if container is not None and step.resources is not None:
                container.message = with_resources(container.message, step.resources)
            case Event.UpdatePodSandbox:
                if step.resources is not None:
                    pod.message.linux.pod_resources.CopyFrom(step.resources)
                if step.overhead is not None:
                    pod.message.linux.pod_overhead.CopyFrom(step.overhead)
            case Event.RemoveContainer if container is not None:
                container.stage = Stage.ABSENT
            case Event.RemovePodSandbox:
                pod.stage = Stage.ABSENT
            case _:
                pass


def _begin(event: Event, container: LiveContainer, step: Step, now_ns: int) -> None:
    match event:
        case Event.CreateContainer:
            container.create()
        case Event.PostCreateContainer:
            container.message.created_at = container.message.created_at or now_ns
        case Event.StartContainer:
            container.stage, container.was_started = Stage.RUNNING, True
        case Event.PostStartContainer:
            container.message.started_at = now_ns
        case Event.StopContainer | Event.RemoveContainer if container.stage is not Stage.STOPPED:
            container.stage = Stage.STOPPED
            container.message.finished_at = now_ns
            container.message.exit_code = _exit_code(step)
        case _:
            pass


def _exit_code(step: Step) -> int:
    if step.exit_code is not None:
        return step.exit_code
    return 1 if step.what is Verb.CRASH else KILLED
