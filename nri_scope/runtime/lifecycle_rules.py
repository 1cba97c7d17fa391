# SPDX-License-Identifier: Apache-2.0
"""Rules of runtimes for the lifecycle data that they send to plugins.

Sources: the ``local`` type in containerd's ``internal/nri/nri.go`` and CRI-O's
``internal/nri/nri.go``, iSulad's ``nri_adaption.cc`` and ``nri_convert.cc``, and recorded traffic
of containerd 1.7.24, 2.1.9, 2.4.0-beta and CRI-O 1.37. The order of events is the same: every
runtime sends an event when it happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import Event
from nri_scope.nri.request_subject import (
    container_of,
    name_of_container,
    name_of_pod,
    pod_of,
)
from nri_scope.nri.versions import runtime_title

_State = api.ContainerState
_RECORDED_STATES: Mapping[Event, api.ContainerState.ValueType] = MappingProxyType({})
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class LifecycleRules:
    """Lifecycle data sent by one runtime. The default sends each event as it happens."""

    tracks_containers: bool = False
    """Whether it tracks the containers sent to its plugins: StopContainer is sent once for each, no
    later than just before RemoveContainer; neither is sent for a container that no plugin got."""
    tracks_pods: bool = False
    """Whether it tracks pods: StopPodSandbox and RemovePodSandbox are sent once, and only for pods
    run since the runtime started. (CRI-O repeats StopPodSandbox when the kubelet retries.)"""
    forgets_pods: bool = False
    """Whether StopContainer after RemovePodSandbox has only the pod's id."""
    creates_without_id: bool = False
    """Whether CreateContainer has no container id, because the runtime assigns it later."""
    long_names: bool = False
    """Whether names are those of iSulad: ``k8s_POD_web_shop_UID_0`` for the pod ``shop/web``, and
    ``k8s_app_web_shop_UID_0`` for its container ``app``, but ``app`` in CreateContainer."""
    states: Mapping[Event, api.ContainerState.ValueType] = field(
        default_factory=lambda: _RECORDED_STATES
    )
    """Container state sent with each event, for containers that have run. (Runtimes remove
    containers that never ran with other states; that is not emulated here.)"""

    def adapted(self, event: Event, request: M) -> M:
        """Return ``request`` as this runtime sends it; the same object if nothing differs."""
        container, pod = container_of(event.name, request), pod_of(event.name, request)
        state = container and self.states.get(event, container.state)
        omits_id = self.creates_without_id and event is Event.CreateContainer
        if (container is None or (state == container.state and not omits_id)) and not (
            self.long_names and pod is not None
        ):
            return request
        adapted = type(request)()
        adapted.CopyFrom(request)
        container, pod = container_of(event.name, adapted), pod_of(event.name, adapted)
        if container is not None and state is not None:
            container.state = state
            if omits_id:
                container.ClearField("id")
        if self.long_names and pod is not None:
            if container is not None and event is not Event.CreateContainer:
                _lengthen(container, pod)
            _lengthen(pod, pod)
        return adapted

    def adapted_state(
        self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]
    ) -> tuple[list[api.PodSandbox], list[api.Container]]:
        """Return the pods and containers of Synchronize as this runtime sends them."""
        if not self.long_names:
            return list(pods), list(containers)
        copies = [api.PodSandbox.FromString(pod.SerializeToString()) for pod in pods]
        known = {pod.id: pod for pod in pods}
        for pod in copies:
            _lengthen(pod, pod)
        own = [api.Container.FromString(one.SerializeToString()) for one in containers]
        for container in own:
            if container.pod_sandbox_id in known:
                _lengthen(container, known[container.pod_sandbox_id])
        return copies, own


def _lengthen(subject: api.PodSandbox | api.Container, pod: api.PodSandbox) -> None:
    """Give a pod or its container the name that iSulad sends, unless it has one."""
    if isinstance(subject, api.PodSandbox):
        short, middle = name_of_pod(subject), "POD"
    else:
        short = middle = name_of_container(subject)
    if short == subject.name:
        subject.name = f"k8s_{middle}_{name_of_pod(pod)}_{pod.namespace}_{pod.uid}_0"


def recorded_rules_of(runtime_name: str) -> LifecycleRules:
    """Return the rules for replaying the events of a runtime as they were recorded."""
    return ISULAD_RECORDED if runtime_title(runtime_name) == "iSulad" else VERBATIM


_COMMON = {
    Event.CreateContainer: _State.CONTAINER_UNKNOWN,
    Event.PostCreateContainer: _State.CONTAINER_CREATED,
    Event.StartContainer: _State.CONTAINER_CREATED,
    Event.PostStartContainer: _State.CONTAINER_RUNNING,
    Event.UpdateContainer: _State.CONTAINER_RUNNING,
    Event.PostUpdateContainer: _State.CONTAINER_RUNNING,
}

VERBATIM = LifecycleRules()
# The id of a later event is also that of the creation.
ISULAD_RECORDED = LifecycleRules(creates_without_id=True)

CONTAINERD = LifecycleRules(
    tracks_containers=True,
    tracks_pods=True,
    forgets_pods=True,
    # StopContainer is sent before the exit is stored: the container still counts as running.
    states=MappingProxyType(
        {
            **_COMMON,
            Event.StopContainer: _State.CONTAINER_RUNNING,
            Event.RemoveContainer: _State.CONTAINER_STOPPED,
        }
    ),
)
"""containerd up to 2.2."""

CONTAINERD_2_3 = replace(
    CONTAINERD,
    # StopContainer is sent after the exit is stored; RemoveContainer has an unknown state.
    states=MappingProxyType(
        {
            **_COMMON,
            Event.StopContainer: _State.CONTAINER_STOPPED,
            Event.RemoveContainer: _State.CONTAINER_UNKNOWN,
        }
    ),
)
"""containerd 2.3 and later; observed with 2.4.0-beta, whose code for this equals that of 2.3.0."""

CRI_O = LifecycleRules(
    tracks_containers=True,
    states=MappingProxyType(
        {
            **_COMMON,
            # CRI-O reads the new state only after this event.
            Event.PostStartContainer: _State.CONTAINER_CREATED,
            Event.StopContainer: _State.CONTAINER_STOPPED,
            Event.RemoveContainer: _State.CONTAINER_STOPPED,
        }
    ),
)

ISULAD = LifecycleRules(
    creates_without_id=True,
    long_names=True,
    states=MappingProxyType(dict.fromkeys(Event, _State.CONTAINER_UNKNOWN)),
)
