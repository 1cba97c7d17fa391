# SPDX-License-Identifier: Apache-2.0
"""State at a point of a replay: pods and containers, as modified by the plugins under test.

The recording determines which pods and containers come and go, and their states, process ids and
times. The content of a container created here is determined by the plugins of this replay: in each
message about it, the adjustable fields (`ADJUSTABLE`) are those merged here, and all others are as
recorded. A container that existed before the replay keeps the adjustments of the recorded plugins.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import cast

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.nri.events import EventKind
from nri_scope.nri.merging import ADJUSTABLE, adjusted, with_resources
from nri_scope.nri.plain import clear_fields
from nri_scope.nri.request_subject import (
    WithContainer,
    container_of,
    name_of_container,
    name_of_pod,
    pod_of,
)

_OTHERS = tuple(
    field.name for field in api.Container.DESCRIPTOR.fields if field.name not in ADJUSTABLE
)


@dataclass(slots=True)
class World:
    """Pods and containers by id, in the order of their arrival.

    Without ``effects``, the state is as recorded.
    """

    effects: bool = True
    shows_rlimits: bool = True
    """See `Profile.shows_rlimits`."""
    shows_devices: bool = False
    """Whether, without ``effects``, later messages have the adjusted devices, as in iSulad."""
    is_partial: bool = False
    """Whether containers may exist that no Synchronize has listed; see `Script.is_partial`."""
    pods: dict[str, api.PodSandbox] = field(default_factory=dict)
    containers: dict[str, api.Container] = field(default_factory=dict)
    _ended_containers: set[str] = field(default_factory=set)
    _shaped: set[str] = field(default_factory=set)
    """Ids of containers created in this replay, or updated by its plugins."""
    _devices: dict[str, list[api.LinuxDevice]] = field(default_factory=dict)
    """Adjusted devices by container, with ``shows_devices``."""
    _names: dict[str, str] = field(default_factory=dict)
    """Names by id of all containers that appeared, including those not created here."""

    def arrive(self, pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]) -> None:
        """Add pods and containers that existed already and are only listed in Synchronize."""
        self.pods.update((pod.id, pod) for pod in pods)
        for container in containers:
            self.containers[container.id] = container
            self._named(container)

    # -- requests to plugins ------------------------------------------------------------------

    def state(self) -> tuple[list[api.PodSandbox], list[api.Container]]:
        """Return the state for Synchronize. As in containerd, ended containers are omitted."""
        return (
            list(self.pods.values()),
            [
                container
                for key, container in self.containers.items()
                if key not in self._ended_containers
            ],
        )

    def shown(self, event: EventKind, recorded: Message) -> Message:
        """Return the request with this replay's adjustments, as a copy if it differs."""
        container = container_of(event.name, recorded)
        if container is None or event is EventKind.CreateContainer:
            return recorded
        ours = self.containers.get(container.id)
        devices = self._devices.get(container.id) if self.shows_devices else None
        if devices is None and (
            not self.effects or ours is None or container.id not in self._shaped
        ):
            return recorded
        request = deepcopy(recorded)
        if devices is not None:
            shown = cast("WithContainer", request).container.linux
            del shown.devices[:]
            shown.devices.extend(devices)
        elif ours is not None:
            _overlay(cast("WithContainer", request).container, ours)
        return request

    def check_known(self, number: int, event: EventKind, recorded: Message, subject: str) -> None:
        """Raise `UsageError` if ``event`` is about an unknown container.

        If the state is partial, add the container instead.
        """
        container = container_of(event.name, recorded)
        if container is None or event is EventKind.CreateContainer or container.id in self._names:
            return
        if self.is_partial:
            pod = pod_of(event.name, recorded)
            self.arrive([pod] if pod is not None and pod.id not in self.pods else [], [container])
            return
        raise UsageError(
            f"event {number}, {event.name}: no Synchronize or CreateContainer lists its container "
            f"{subject}",
            "exclude it with --where, or replay unmodified requests with --profile verbatim",
        )

    def applies(self, event: EventKind, request: Message) -> bool:
        """Return whether ``event`` applies here: its container, or else its pod, exists."""
        container = container_of(event.name, request)
        if container is not None and event is not EventKind.CreateContainer:
            return container.id in self.containers
        pod = pod_of(event.name, request)
        return pod is None or event is EventKind.RunPodSandbox or pod.id in self.pods

    def name_of(self, container_id: str) -> str:
        """Return ``namespace/pod/container`` of a container that appeared; else the id itself."""
        return self._names.get(container_id, container_id)

    def _named(self, container: api.Container) -> None:
        pod = self.pods.get(container.pod_sandbox_id)
        prefix = f"{container.pod_sandbox_id}/"
        if container.pod_sandbox_id == container.id:
            # Docker Engine has no pods.
            prefix = ""
        elif pod is not None:
            prefix = f"{pod.namespace}/{name_of_pod(pod)}/"
        self._names[container.id] = f"{prefix}{name_of_container(container)}"

    # -- events -------------------------------------------------------------------------------

    def happened(self, event: EventKind, request: Message) -> None:
        """Apply ``event``; ``request`` is the request for plugins, sent or not."""
        if event is EventKind.RemovePodSandbox:
            pod = pod_of(event.name, request)
            if pod is not None:
                self.pods.pop(pod.id, None)
            return
        pod = pod_of(event.name, request)
        if pod is not None and pod.id and (pod.name or pod.id not in self.pods):
            self.pods[pod.id] = pod
        container = container_of(event.name, request)
        if container is None:
            return
        if event is EventKind.RemoveContainer:
            self.containers.pop(container.id, None)
            self._ended_containers.discard(container.id)
            self._shaped.discard(container.id)
            self._devices.pop(container.id, None)
            return
        self.containers[container.id] = container
        if event is EventKind.CreateContainer:
            self._named(container)
            self._ended_containers.discard(container.id)
        if event is EventKind.StopContainer:
            self._ended_containers.add(container.id)
        if event is EventKind.UpdateContainer:
            self._update(container.id, cast("api.UpdateContainerRequest", request).linux_resources)

    def created(self, container: api.Container, adjustment: api.ContainerAdjustment) -> None:
        """Add a container as the plugins adjusted it."""
        self._shaped.add(container.id)
        ours = adjusted(container, adjustment, shows_rlimits=self.shows_rlimits)
        self.containers[container.id] = ours
        if self.shows_devices:
            self._devices[container.id] = [_with_zeros(device) for device in ours.linux.devices]

    def not_created(self, container: api.Container, pod: api.PodSandbox | None) -> None:
        """Record that the creation of ``container`` in ``pod`` failed."""
        if pod is not None and pod.id:
            # The pod may be unknown if no other event about it was recorded.
            self.pods.setdefault(pod.id, pod)
        self._named(container)
        self.containers.pop(container.id, None)
        self._shaped.discard(container.id)
        self._devices.pop(container.id, None)

    def update(self, container_id: str, resources: api.LinuxResources) -> None:
        """Apply plugins' changes to a container's resources; ignore an unknown container."""
        if container_id in self.containers:
            self._shaped.add(container_id)
        self._update(container_id, resources)

    def _update(self, container_id: str, resources: api.LinuxResources) -> None:
        container = self.containers.get(container_id)
        if container is not None and self.effects:
            self.containers[container_id] = with_resources(container, resources)


def _with_zeros(device: api.LinuxDevice) -> api.LinuxDevice:
    """Return a copy that has the mode and the owner, as iSulad always sends them."""
    copy = deepcopy(device)
    for value in (copy.file_mode, copy.uid, copy.gid):
        value.SetInParent()
    return copy


def _overlay(recorded: api.Container, ours: api.Container) -> None:
    """Copy the adjustable fields of ``ours`` to ``recorded``."""
    clear_fields(recorded, ADJUSTABLE)
    adjustable = deepcopy(ours)
    clear_fields(adjustable, _OTHERS)
    recorded.MergeFrom(adjustable)
