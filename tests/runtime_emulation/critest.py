# SPDX-License-Identifier: Apache-2.0
"""The situations in which critest checks NRI, for an emulated runtime and for a real one.

After the contracts in ``pkg/validate/nri_linux.go`` of cri-tools 1.37, written anew: critest itself
needs a CRI endpoint, which an emulated runtime does not have. `NodeUnderTest.differences` are those
that it tolerates.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RpcError
from nri_scope.nri.events import CONFIGURE, SYNCHRONIZE
from nri_scope.nri.request_subject import container_of, pod_of
from nri_scope.wire import RequestReceived
from tests.replay.plays import decode_event

from .small_plugin import SmallPlugin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATIENCE = 20.0
"""Seconds to wait for what must happen."""
A_WHILE = 0.3
"""Seconds to wait for what must not happen; shorter than the deadline of a request."""
OLD_EVENTS = 0x07FF
"""Mask of the events that all runtimes have."""
INDUCED = RpcError(2, "induced failure")
POD = "checkout-api-7d9f8c6b5d-x2x9z"


class Difference(Enum):
    """A known difference of a runtime from the contracts."""

    NO_NAMES = auto()
    """A container has no name, unless the client of the CRI labels it with one."""
    REUSES_STOPPED_PODS = auto()
    """A container can be created in a stopped pod."""
    LOSES_CONTAINERS = auto()
    """A container that is created while a plugin is synchronized may be in no message."""


class Told(NamedTuple):
    """What one event told a plugin."""

    event: str
    pod_id: str
    container_id: str
    pod: tuple[str, str, str]
    """Namespace, name and uid."""
    container: str


class Observer(SmallPlugin):
    """A plugin that can hold an event, or fail it once."""

    def __init__(self, plugin: str = "10-observer") -> None:
        super().__init__(plugin, OLD_EVENTS)
        self.told: list[Told] = []
        self.pods: set[str] = set()
        self.containers: set[str] = set()
        """Ids in Synchronize."""
        self.failing: set[str] = set()
        self.holding = ""
        """Event whose requests are not answered yet."""
        self._held: list[RequestReceived] = []

    def serve(self, link: object, request: RequestReceived, arrived_ns: int) -> None:
        if request.method == CONFIGURE:
            super().serve(link, request, arrived_ns)  # type: ignore[arg-type]
            return
        event, message = decode_event(request.method, request.payload)
        if isinstance(message, api.SynchronizeRequest):
            self.pods.update(pod.id for pod in message.pods)
            self.containers.update(container.id for container in message.containers)
        else:
            pod = pod_of(event, message) or api.PodSandbox()
            container = container_of(event, message) or api.Container()
            names = (pod.namespace, pod.name, pod.uid)
            self.told.append(Told(event, pod.id, container.id, names, container.name))
        if event == self.holding:
            self.requests.append(request)
            self._held.append(request)
            return
        if event in self.failing:
            self.failing.remove(event)
            self.requests.append(request)
            self.answer(request, INDUCED)
            return
        super().serve(link, request, arrived_ns)  # type: ignore[arg-type]

    def events(self, *, pod: str = "", container: str = "") -> list[str]:  # type: ignore[override]
        """Return the names of the events about a pod itself, or about a container."""
        return [
            told.event
            for told in self.told
            if (told.container_id == container if container else told.pod_id == pod)
            and bool(told.container_id) == bool(container)
        ]

    async def held(self) -> None:
        """Wait until the event to hold has arrived."""
        await until(lambda: bool(self._held))

    def release(self) -> None:
        """Answer the requests that were held."""
        self.holding = ""
        for request in self._held:
            self.answer(request, b"")
        self._held.clear()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


class NodeUnderTest(ABC):
    """A runtime, by the calls of the CRI. They raise RpcError if they fail."""

    differences: frozenset[Difference] = frozenset()

    @abstractmethod
    async def join(self, plugin: Observer) -> None:
        """Connect a plugin, up to its Synchronize."""

    @abstractmethod
    async def run_pod(self, name: str = POD) -> str:
        """Run a pod in the namespace payments-prod, with the uid ``uid-`` and its name."""

    @abstractmethod
    async def stop_pod(self, pod: str) -> None: ...

    @abstractmethod
    async def remove_pod(self, pod: str) -> None: ...

    @abstractmethod
    async def create(self, pod: str, name: str, *, fails: bool = False) -> str:
        """Create a container without labels; ``fails``: one that exits with 3 when it runs."""

    @abstractmethod
    async def start(self, container: str) -> None: ...

    @abstractmethod
    async def ended(self, container: str) -> None:
        """Wait until the CRI tells that a failing container has ended."""

    @abstractmethod
    async def stop(self, container: str) -> None: ...

    @abstractmethod
    async def remove(self, container: str) -> None: ...

    @abstractmethod
    async def exposed(self) -> set[str]:
        """Return the ids of the pods and containers that the CRI lists."""


@asynccontextmanager
async def observed(node: NodeUnderTest, plugin: Observer | None = None) -> AsyncIterator[Observer]:
    """Connect a plugin for a block."""
    plugin = plugin or Observer()
    await node.join(plugin)
    try:
        yield plugin
    finally:
        plugin.release()
        plugin.connected.close()
        await plugin.connected.wait_closed()


# -- situations -----------------------------------------------------------------------------------


async def pod_events_are_in_order(node: NodeUnderTest) -> None:
    async with observed(node) as plugin:
        pod = await node.run_pod()
        await node.stop_pod(pod)
        await node.remove_pod(pod)
        await until(lambda: "RemovePodSandbox" in plugin.events(pod=pod))
        events = ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]
        assert plugin.events(pod=pod) == events
        assert plugin.told[0].pod == ("payments-prod", POD, f"uid-{POD}")
        assert not any(told.container_id for told in plugin.told)


async def container_events_are_in_order(node: NodeUnderTest) -> None:
    async with observed(node) as plugin:
        pod = await node.run_pod()
        container = await node.create(pod, "istio-proxy")
        await node.start(container)
        await node.stop(container)
        await node.remove(container)
        await until(lambda: "RemoveContainer" in plugin.events(container=container))
        assert plugin.events(container=container) == [
            "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer",
            "StopContainer", "RemoveContainer",
        ]  # fmt: skip
        names = {told.container for told in plugin.told if told.container_id == container}
        assert names == ({""} if Difference.NO_NAMES in node.differences else {"istio-proxy"})


async def a_failed_container_is_stopped_without_a_removal(node: NodeUnderTest) -> None:
    async with observed(node) as plugin:
        pod = await node.run_pod()
        container = await node.create(pod, "istio-proxy", fails=True)
        await node.start(container)
        await until(lambda: "StopContainer" in plugin.events(container=container))
        await node.ended(container)
        assert "RemoveContainer" not in plugin.events(container=container)
        await node.remove(container)
        await until(lambda: "RemoveContainer" in plugin.events(container=container))
        assert plugin.events(container=container).count("StopContainer") == 1


async def a_pod_is_not_exposed_while_it_is_run(node: NodeUnderTest) -> None:
    async with observed(node) as plugin:
        plugin.holding = "RunPodSandbox"
        running = asyncio.create_task(node.run_pod())
        await plugin.held()
        pod = plugin.told[0].pod_id
        assert pod not in await node.exposed()
        creating = asyncio.create_task(node.create(pod, "too-early"))
        await asyncio.sleep(A_WHILE)
        assert "CreateContainer" not in [told.event for told in plugin.told]
        plugin.release()
        assert await running == pod
        with pytest.raises(RpcError):
            await creating
        assert pod in await node.exposed()
        assert await node.create(pod, "in-time")


async def a_failed_pod_is_cleaned_up_and_retried(node: NodeUnderTest) -> None:
    async with observed(node) as plugin:
        plugin.failing.add("RunPodSandbox")
        with pytest.raises(RpcError, match=INDUCED.message):
            await node.run_pod()
        failed = plugin.told[0].pod_id
        assert failed not in await node.exposed()
        await until(lambda: "RemovePodSandbox" in plugin.events(pod=failed))
        pod = await node.run_pod()
        assert pod in await node.exposed()
        assert plugin.events(pod=pod) == ["RunPodSandbox"]


async def containers_are_stopped_before_their_pod(node: NodeUnderTest) -> None:
    async with observed(node) as plugin:
        pod = await node.run_pod()
        containers = [await node.create(pod, name) for name in ("checkout-api", "istio-proxy")]
        for container in containers:
            await node.start(container)
        plugin.holding = "StopPodSandbox"
        stopping = asyncio.create_task(node.stop_pod(pod))
        await plugin.held()
        for container in containers:
            assert plugin.events(container=container)[-1] == "StopContainer"
        assert pod in await node.exposed()
        plugin.release()
        await stopping


async def a_pod_is_stopped_once_and_not_used_again(node: NodeUnderTest) -> None:
    async with observed(node) as plugin:
        pod = await node.run_pod()
        await node.stop_pod(pod)
        await node.stop_pod(pod)
        try:
            container = await node.create(pod, "too-late")
        except RpcError:
            assert Difference.REUSES_STOPPED_PODS not in node.differences
            assert "CreateContainer" not in [told.event for told in plugin.told]
        else:
            assert Difference.REUSES_STOPPED_PODS in node.differences
            await node.remove(container)
        await asyncio.sleep(A_WHILE)
        assert plugin.events(pod=pod) == ["RunPodSandbox", "StopPodSandbox"]


async def a_container_is_not_exposed_while_it_is_created(node: NodeUnderTest) -> None:
    async with observed(node) as plugin:
        pod = await node.run_pod()
        plugin.holding = "CreateContainer"
        creating = asyncio.create_task(node.create(pod, "istio-proxy"))
        await plugin.held()
        container = plugin.told[-1].container_id
        assert container not in await node.exposed()
        plugin.release()
        assert await creating == container
        assert container in await node.exposed()


async def a_failed_creation_leaks_nothing_and_is_retried(node: NodeUnderTest) -> None:
    async with observed(node) as plugin:
        pod = await node.run_pod()
        plugin.failing.add("CreateContainer")
        before = await node.exposed()
        with pytest.raises(RpcError, match=INDUCED.message):
            await node.create(pod, "istio-proxy")
        failed = plugin.told[1].container_id
        assert await node.exposed() == before
        container = await node.create(pod, "istio-proxy-2")
        await node.start(container)
        await node.stop(container)
        await node.remove(container)
        await until(lambda: "RemoveContainer" in plugin.events(container=container))
        assert "StartContainer" not in plugin.events(container=failed)


async def a_late_plugin_is_told_what_exists_and_what_follows(node: NodeUnderTest) -> None:
    async with observed(node, Observer("00-first")):
        pod = await node.run_pod()
        container = await node.create(pod, "checkout-api")
        await node.start(container)
        async with observed(node) as late:
            assert (pod in late.pods, container in late.containers) == (True, True)
            created = await node.create(pod, "istio-proxy")
            await until(lambda: "CreateContainer" in late.events(container=created))


async def no_container_is_lost_while_a_plugin_is_synchronized(node: NodeUnderTest) -> None:
    async with observed(node, Observer("00-first")):
        pod = await node.run_pod()
        late = Observer()
        late.holding = SYNCHRONIZE
        joining = asyncio.create_task(node.join(late))
        try:
            await late.held()
            creating = [
                asyncio.create_task(node.create(pod, name)) for name in ("one", "two", "three")
            ]
            await asyncio.sleep(A_WHILE)
            late.release()
            await joining
            created = {await task for task in creating} | {await node.create(pod, "four")}
            told = {told.container_id for told in late.told} | late.containers
            if Difference.LOSES_CONTAINERS in node.differences:
                assert created & told
            else:
                assert created <= told
        finally:
            late.connected.close()
            await late.connected.wait_closed()


SITUATIONS: tuple[Callable[[NodeUnderTest], Awaitable[None]], ...] = (
    pod_events_are_in_order,
    container_events_are_in_order,
    a_failed_container_is_stopped_without_a_removal,
    a_pod_is_not_exposed_while_it_is_run,
    a_failed_pod_is_cleaned_up_and_retried,
    containers_are_stopped_before_their_pod,
    a_pod_is_stopped_once_and_not_used_again,
    a_container_is_not_exposed_while_it_is_created,
    a_failed_creation_leaks_nothing_and_is_retried,
    a_late_plugin_is_told_what_exists_and_what_follows,
    no_container_is_lost_while_a_plugin_is_synchronized,
)
