# SPDX-License-Identifier: Apache-2.0
"""Set-up of a replay's plugins before their first event."""

from __future__ import annotations

from dataclasses import dataclass, field

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.runtime import ProfileSetUp

from .world import World


@dataclass(slots=True)
class SetUp(ProfileSetUp):
    """Sends a plugin the pods and containers that exist in the replay's world at that time."""

    world: World = field(default_factory=World)

    def state(self) -> tuple[list[api.PodSandbox], list[api.Container]]:
        """Return the state of the world."""
        return self.world.state()


def size_of(world: World) -> int:
    """Return the approximate size of the world's state in Synchronize, in bytes."""
    pods, containers = world.state()
    return sum(one.ByteSize() for one in (*pods, *containers))


def crowd(world: World, count: int) -> None:
    """Add ``count`` containers that resemble one of the existing ones."""
    if not count:
        return
    pod = api.PodSandbox(id="nri-scope-crowd", name="crowd", namespace="nri-scope", uid="crowd")
    model = next(iter(world.containers.values()), api.Container())
    containers: list[api.Container] = []
    for number in range(count):
        container = api.Container()
        container.CopyFrom(model)
        container.id = f"nri-scope-crowd-{number:06d}"
        container.name = f"crowd-{number}"
        container.pod_sandbox_id = pod.id
        containers.append(container)
    world.arrive([pod], containers)
