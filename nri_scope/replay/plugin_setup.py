# SPDX-License-Identifier: Apache-2.0
"""Set up plugins before their first event: Configure and Synchronize."""

from __future__ import annotations

from dataclasses import dataclass, field

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.runtime import ProfileSetUp

from .world import World


@dataclass(slots=True)
class SetUp(ProfileSetUp):
    """Set-up whose Synchronize lists the pods and containers of the replay's world."""

    world: World = field(default_factory=World)

    def state(self) -> tuple[list[api.PodSandbox], list[api.Container]]:
        """Return the world's pods and containers, as the runtime sends them."""
        return self.profile.lifecycle_rules.adapted_state(*self.world.state())


def size_of(world: World) -> int:
    """Return the approximate size of the world's state in Synchronize, in bytes."""
    pods, containers = world.state()
    return sum(one.ByteSize() for one in (*pods, *containers))


def add_copies(world: World, count: int) -> None:
    """Add a pod with ``count`` copies of an existing container."""
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
