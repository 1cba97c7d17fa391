# SPDX-License-Identifier: Apache-2.0
"""Rules of runtimes for the lifecycle data that they send to plugins.

Sources: the ``local`` type in containerd's ``internal/nri/nri.go`` and CRI-O's
``internal/nri/nri.go``, iSulad's ``nri_adaption.cc`` and ``nri_convert.cc``, and recorded traffic
of containerd 1.7.24, 2.1.9, 2.4.0-beta and CRI-O 1.37. The order of events is the same: every
runtime sends an event when it happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, TypeVar, cast

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import Event
from nri_scope.nri.request_subject import container_of

_State = api.ContainerState
_RECORDED_STATES: Mapping[Event, api.ContainerState.ValueType] = MappingProxyType({})
M = TypeVar("M", bound=Message)


class _WithContainer(Protocol):
    @property
    def container(self) -> api.Container: ...


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
    states: Mapping[Event, api.ContainerState.ValueType] = field(
        default_factory=lambda: _RECORDED_STATES
    )
    """Container state sent with each event, for containers that have run. (Runtimes remove
    containers that never ran with other states; that is not emulated here.)"""

    def adapted(self, event: Event, request: M) -> M:
        """Return ``request`` as this runtime sends it; the same object if nothing differs."""
        container = container_of(event.name, request)
        if container is None:
            return request
        state = self.states.get(event, container.state)
        omits_id = self.creates_without_id and event is Event.CreateContainer
        if state == container.state and not omits_id:
            return request
        adapted = type(request)()
        adapted.CopyFrom(request)
        copy = cast("_WithContainer", adapted).container
        copy.state = state
        if omits_id:
            copy.ClearField("id")
        return adapted


_COMMON = {
    Event.CreateContainer: _State.CONTAINER_UNKNOWN,
    Event.PostCreateContainer: _State.CONTAINER_CREATED,
    Event.StartContainer: _State.CONTAINER_CREATED,
    Event.PostStartContainer: _State.CONTAINER_RUNNING,
    Event.UpdateContainer: _State.CONTAINER_RUNNING,
    Event.PostUpdateContainer: _State.CONTAINER_RUNNING,
}

VERBATIM = LifecycleRules()

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

CONTAINERD_2_3 = LifecycleRules(
    tracks_containers=True,
    tracks_pods=True,
    forgets_pods=True,
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
    states=MappingProxyType({Event.CreateContainer: _State.CONTAINER_UNKNOWN}),
)
