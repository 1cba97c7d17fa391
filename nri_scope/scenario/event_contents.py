# SPDX-License-Identifier: Apache-2.0
"""The content of events: how they change pods and containers, and what their requests contain."""

from __future__ import annotations

from copy import deepcopy

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import METHODS, Event
from nri_scope.nri.merging import with_resources
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.runtime import Profile
from nri_scope.runtime.lifecycle import own_request

from .model import Step, Verb
from .subjects import LiveContainer, LivePod, Stage

KILLED = 137
"""Exit status of a container that is stopped: killed by SIGKILL."""


class EventContents:
    """The contents of one runtime's events. For each, call `begin`, `request` and `end`."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._rules = profile.lifecycle_rules.contents

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
