# SPDX-License-Identifier: Apache-2.0
"""Plugins that annotate containers, and the events of a container for them."""

from __future__ import annotations

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import EventKind
from tests.runtime_emulation.profiles import patient
from tests.runtime_emulation.runtime import Runtime
from tests.runtime_emulation.small_plugin import SmallPlugin

OLD, MIDDLE, NEW = patient("containerd-1.7"), patient("containerd-2.1"), patient("containerd-2.3")
POD = api.PodSandbox(id="pod-1", namespace="shop", name="web")


def annotating(plugin: str, mask: int = 0x07FF) -> SmallPlugin:
    """Return a plugin that adds its name to the annotations of every container."""
    small = SmallPlugin(plugin, mask)
    adjust = api.ContainerAdjustment(annotations={plugin: "was here"})
    small.on["CreateContainer"] = lambda request: api.CreateContainerResponse(adjust=adjust)
    return small


def a_container(name: str = "app") -> api.Container:
    return api.Container(id=f"{name}-0123456789", pod_sandbox_id="pod-1", name=name)


async def create(runtime: Runtime, name: str = "app") -> None:
    """Send the events of a container from its creation to its start."""
    container = a_container(name)
    for event, kind in (
        (EventKind.CreateContainer, api.CreateContainerRequest),
        (EventKind.PostCreateContainer, api.PostCreateContainerRequest),
        (EventKind.StartContainer, api.StartContainerRequest),
        (EventKind.PostStartContainer, api.PostStartContainerRequest),
    ):
        outcome = await runtime.operate(event, kind(pod=POD, container=container))
        assert not outcome.failure
