# SPDX-License-Identifier: Apache-2.0
"""Differences in what runtimes send their plugins about a lifecycle, apart from the events.

Sources: the ``local`` type in containerd's ``internal/nri/nri.go`` and CRI-O's
``internal/nri/nri.go``, iSulad's ``nri_adaption.cc`` and ``nri_convert.cc``, and recorded traffic
of containerd 1.7.24, 2.1.9, 2.4.0-beta and CRI-O 1.37. Of what comes first and what later there is
nothing more to say: all of them tell an event when they come to it.
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
class Habits:
    """The behaviour of a runtime in every lifecycle. The default sends each event as it happens."""

    books_containers: bool = False
    """It knows which containers its plugins have got: StopContainer comes once for each, just
    before RemoveContainer at the latest, and neither comes for one that no plugin knows."""
    books_pods: bool = False
    """The same of pods: StopPodSandbox and RemovePodSandbox come once, and only for pods that were
    run since the runtime began. (CRI-O repeats StopPodSandbox at each try of the kubelet.)"""
    forgets_pods: bool = False
    """StopContainer for a container whose pod is gone tells nothing of the pod but its id."""
    creates_without_id: bool = False
    """CreateContainer does not tell the container's id: there is none yet."""
    states: Mapping[Event, api.ContainerState.ValueType] = field(default_factory=lambda: _NOTHING)
    """The state that a container which ran is in, as the request of each event tells it. (One that
    never ran is told with other states when it is removed; that is not followed here.)"""

    def told(self, event: Event, request: M) -> M:
        """Return ``request`` as this runtime words it; itself where nothing differs."""
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

VERBATIM = Habits()

CONTAINERD = Habits(
    books_containers=True,
    books_pods=True,
    forgets_pods=True,
    # The exit is told before it is in the books, so a container that stops is still running.
    states=MappingProxyType(
        {
            **_COMMON,
            Event.StopContainer: _State.CONTAINER_RUNNING,
            Event.RemoveContainer: _State.CONTAINER_STOPPED,
        }
    ),
)
"""containerd up to 2.2."""

CONTAINERD_2_3 = Habits(
    books_containers=True,
    books_pods=True,
    forgets_pods=True,
    # The state comes with the exit now; of one that is being removed it is unknown.
    states=MappingProxyType(
        {
            **_COMMON,
            Event.StopContainer: _State.CONTAINER_STOPPED,
            Event.RemoveContainer: _State.CONTAINER_UNKNOWN,
        }
    ),
)
"""containerd from 2.3 on; seen with 2.4.0-beta, whose code for it is that of 2.3.0."""

CRI_O = Habits(
    books_containers=True,
    states=MappingProxyType(
        {
            **_COMMON,
            # The state is looked up only afterwards.
            Event.PostStartContainer: _State.CONTAINER_CREATED,
            Event.StopContainer: _State.CONTAINER_STOPPED,
            Event.RemoveContainer: _State.CONTAINER_STOPPED,
        }
    ),
)

ISULAD = Habits(
    creates_without_id=True,
    states=MappingProxyType({Event.CreateContainer: _State.CONTAINER_UNKNOWN}),
)
