# SPDX-License-Identifier: Apache-2.0
"""Differences between the data that runtimes send their plugins about a lifecycle.

Sources: the ``local`` type in containerd's ``internal/nri/nri.go`` and CRI-O's
``internal/nri/nri.go``, iSulad's ``nri_adaption.cc`` and ``nri_convert.cc``, and recorded traffic
of containerd 1.7.24, 2.1.9, 2.4.0-beta and CRI-O 1.37. The order of events does not differ: all
runtimes send an event when it happens.
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
_NOTHING: Mapping[Event, api.ContainerState.ValueType] = MappingProxyType({})
M = TypeVar("M", bound=Message)


class _WithContainer(Protocol):
    @property
    def container(self) -> api.Container: ...


@dataclass(frozen=True, slots=True)
class LifecycleRules:
    """The behaviour of a runtime in every lifecycle. The default sends each event as it happens."""

    books_containers: bool = False
    """Whether it keeps track of the containers sent to its plugins: StopContainer is sent once for
    each, at the latest just before RemoveContainer, and neither for one that no plugin got."""
    books_pods: bool = False
    """Whether it keeps track of pods: StopPodSandbox and RemovePodSandbox are sent once, and only
    for pods run since the runtime started. (CRI-O repeats StopPodSandbox at each kubelet try.)"""
    forgets_pods: bool = False
    """Whether StopContainer for a container whose pod is gone has only the id of the pod."""
    creates_without_id: bool = False
    """Whether CreateContainer lacks the container's id, which does not exist yet."""
    states: Mapping[Event, api.ContainerState.ValueType] = field(default_factory=lambda: _NOTHING)
    """State of a container that has run, as sent in the request of each event. (One that never ran
    is sent with other states on removal; that is not emulated here.)"""

    def told(self, event: Event, request: M) -> M:
        """Return ``request`` as this runtime sends it; the same object if nothing differs."""
        container = container_of(event.name, request)
        if container is None:
            return request
        state = self.states.get(event, container.state)
        nameless = self.creates_without_id and event is Event.CreateContainer
        if state == container.state and not nameless:
            return request
        worded = type(request)()
        worded.CopyFrom(request)
        told = cast("_WithContainer", worded).container
        told.state = state
        if nameless:
            told.ClearField("id")
        return worded


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
    books_containers=True,
    books_pods=True,
    forgets_pods=True,
    # The exit is sent before it is stored, so a stopping container is still running.
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
    books_containers=True,
    books_pods=True,
    forgets_pods=True,
    # The state is sent with the exit now; that of a container being removed is unknown.
    states=MappingProxyType(
        {
            **_COMMON,
            Event.StopContainer: _State.CONTAINER_STOPPED,
            Event.RemoveContainer: _State.CONTAINER_UNKNOWN,
        }
    ),
)
"""containerd from 2.3 on; observed with 2.4.0-beta, whose code for this equals that of 2.3.0."""

CRI_O = LifecycleRules(
    books_containers=True,
    states=MappingProxyType(
        {
            **_COMMON,
            # The state is looked up only after this event.
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
