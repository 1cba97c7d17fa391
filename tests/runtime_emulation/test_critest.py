# SPDX-License-Identifier: Apache-2.0
"""Emulated runtimes in the situations in which critest checks real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RpcError
from nri_scope.nri.events import EventKind
from nri_scope.nri.versions import runtime_title
from nri_scope.runtime import PROFILES, EmulatedRuntime, LifecycleState, Profile, ProfileSetUp
from nri_scope.runtime.lifecycle import request_about

from .critest import SITUATIONS, Difference, NodeUnderTest, Observer
from .profiles import patient

RUNTIMES = [
    name
    for name, profile in PROFILES.items()
    if runtime_title(profile.runtime_name) in ("containerd", "CRI-O")
]
"""Profiles of the runtimes for which critest has these checks."""


class EmulatedNode(NodeUnderTest):
    """An emulated runtime with the calls of a CRI. The emulation decides which events are sent."""

    def __init__(self, runtime: EmulatedRuntime, setup: ProfileSetUp) -> None:
        self._runtime, self._setup = runtime, setup
        self._course = LifecycleState(setup.profile)
        self._pods: dict[str, api.PodSandbox] = {}
        self._containers: dict[str, api.Container] = {}
        self._failing: set[str] = set()
        self._ids = count(1)
        self.differences = differences_of(setup.profile)

    async def join(self, plugin: Observer) -> None:
        await plugin.join(self._runtime)

    async def run_pod(self, name: str = "checkout-api-7d9f8c6b5d-x2x9z") -> str:
        pod = api.PodSandbox(
            id=f"pod-{next(self._ids)}", name=name, namespace="payments-prod", uid=f"uid-{name}"
        )
        await self._perform(EventKind.RunPodSandbox, pod)
        self._pods[pod.id] = pod
        self._setup.pods.append(pod)
        return pod.id

    async def stop_pod(self, pod: str) -> None:
        for container in [*self._containers.values()]:
            if container.pod_sandbox_id == pod:
                await self.stop(container.id)
        await self._perform(EventKind.StopPodSandbox, self._pods[pod])

    async def remove_pod(self, pod: str) -> None:
        self._setup.pods.remove(self._pods[pod])
        await self._perform(EventKind.RemovePodSandbox, self._pods.pop(pod))

    async def create(self, pod: str, name: str, *, fails: bool = False) -> str:
        if pod not in self._pods:
            # A runtime's CRI finds no sandbox that is ready.
            raise RpcError(2, f"sandbox {pod} is not ready")
        container = api.Container(id=f"container-{next(self._ids)}", pod_sandbox_id=pod, name=name)
        skipped = await self._perform(EventKind.CreateContainer, self._pods[pod], container)
        if skipped:
            raise RpcError(2, skipped)
        self._containers[container.id] = container
        self._setup.containers.append(container)
        if fails:
            self._failing.add(container.id)
        await self._about(EventKind.PostCreateContainer, container.id)
        return container.id

    async def start(self, container: str) -> None:
        await self._about(EventKind.StartContainer, container)
        await self._about(EventKind.PostStartContainer, container)
        if container in self._failing:
            await self.stop(container)

    async def ended(self, container: str) -> None:
        assert container in self._failing

    async def stop(self, container: str) -> None:
        await self._about(EventKind.StopContainer, container)

    async def remove(self, container: str) -> None:
        self._setup.containers.remove(self._containers[container])
        await self._about(EventKind.RemoveContainer, container)
        del self._containers[container]

    async def exposed(self) -> set[str]:
        pods, containers = self._setup.state()
        return {pod.id for pod in pods} | {container.id for container in containers}

    async def _about(self, event: EventKind, container_id: str) -> None:
        container = self._containers[container_id]
        await self._perform(event, self._pods[container.pod_sandbox_id], container)

    async def _perform(
        self, event: EventKind, pod: api.PodSandbox, container: api.Container | None = None
    ) -> str:
        """Send what the runtime sends for an event; return why it does not send the event itself.

        Raises RpcError if it fails the request.
        """
        skipped = ""
        for step in self._course.steps_of(event, request_about(event, pod, container)):
            if step.skipped:
                skipped = step.skipped
                continue
            outcome = await self._runtime.operate(step.event, step.request)
            if outcome.failure:
                for undone in self._course.steps_after_failure(step.event, step.request):
                    await self._runtime.operate(undone.event, undone.request, undoes=True)
                raise RpcError(2, outcome.failure)
        return skipped


def differences_of(profile: Profile) -> frozenset[Difference]:
    """Return the known differences of an emulated runtime."""
    known = set()
    if profile.lifecycle_rules.name_annotation:
        known.add(Difference.NO_NAMES)
    # 2.2.6 and 2.3.3 are the first of their series that refuse it.
    if profile.name in ("containerd-2.0", "containerd-2.1", "containerd-2.2", "containerd-2.3"):
        known.add(Difference.REUSES_STOPPED_PODS)
    return frozenset(known)


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
async def test_situation(name: str, situation: Callable[[NodeUnderTest], Awaitable[None]]) -> None:
    setup = ProfileSetUp(patient(name))
    async with EmulatedRuntime(setup) as runtime, asyncio.timeout(60):
        await situation(EmulatedNode(runtime, setup))
