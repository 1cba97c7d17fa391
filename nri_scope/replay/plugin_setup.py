# SPDX-License-Identifier: Apache-2.0
"""Set-up of a replay's plugins before their first event."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.runtime import Profile, synchronize_parts

from .world import World


class SetUp:
    """A plugin gets what exists in the replay's world when its turn comes."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.world = World()

    @property
    def profile(self) -> Profile:
        """How the runtime behaves."""
        return self._profile

    def configure(self, plugin: str, config: str) -> bytes:
        """Return the same request for every plugin, except for the configuration."""
        return self._profile.configure_request(config).SerializeToString()

    def synchronize(self, plugin: str) -> list[bytes]:
        """Return the state, split where this runtime can do that."""
        pods, containers = self.world.state()
        if self._profile.split_sync:
            return synchronize_parts(pods, containers)
        return [api.SynchronizeRequest(pods=pods, containers=containers).SerializeToString()]


def size_of(world: World) -> int:
    """Return the approximate size of its state in Synchronize, in bytes."""
    pods, containers = world.state()
    return sum(one.ByteSize() for one in (*pods, *containers))


def crowd(world: World, count: int) -> None:
    """Add ``count`` containers that look like one of those that are there."""
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
