# SPDX-License-Identifier: Apache-2.0
"""Many pods, several at a time, and the specs of their containers reported by the runtime."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from nri_scope.specs import Json, value_at
from tests.cri.driver import Resources

from .containerd import Containerd
from .driver import Container, Driver

SHARES = 512
"""CPU shares in CRI updates; the pod's number is added."""
_UNLIMITED = 1 << 62
"""Smallest value of a memory limit in a cgroup that stands for none."""

Spec = dict[str, Json]


@dataclass(eq=False)
class Life:
    """One container of the crowd, from its creation to its end."""

    id: str
    name: str
    """``ns/pod/container``."""
    shares: int | None
    """CPU shares in the CRI update; None without an update."""
    real: list[Spec] = field(default_factory=list)
    """Specs reported by the runtime over time, without a memory limit that the cgroup lacks."""


class Crowd:
    """Runs of pods with one container each, with actions in between, see :attr:`at`."""

    def __init__(self, containerd: Containerd) -> None:
        self._containerd = containerd
        self._driver = Driver(containerd)
        self.lives: dict[str, Life] = {}
        """By the container's id."""
        self.ended = 0
        """Number of removed pods."""
        self.at: dict[int, Callable[[], Awaitable[None]]] = {}
        """Actions by number of removed pods; other pods continue meanwhile."""
        self.meanwhile: Callable[[Container], Awaitable[None]] | None = None
        """Function to await in the middle of each life."""

    async def live(self, pods: int, *, at_a_time: int, first: int = 0) -> None:
        """Play the whole lives of ``pods`` pods."""
        room = asyncio.Semaphore(at_a_time)

        async def one(number: int) -> None:
            async with room:
                await self._live(number)
                self.ended += 1
                action = self.at.pop(self.ended, None)
            if action is not None:
                await action()

        async with asyncio.TaskGroup() as group:
            for number in range(first, first + pods):
                group.create_task(one(number))

    async def start(self, number: int) -> Container:
        """Play the first half of a life: return a running container."""
        driver, name = self._driver, f"pod-{number}"
        pod = await driver.run_pod("crowd", name)
        env = {"SHARED": "of-the-pod", "POD_ONLY": "1", "STAYS": name}
        container = await driver.create(pod, "app", env=env)
        shares = SHARES + number if number % 2 else None
        life = self.lives[container.id] = Life(container.id, f"crowd/{name}/app", shares)
        await self._look(life)
        await driver.start(container)
        await self._look(life)
        return container

    async def end(self, container: Container) -> None:
        """Play the second half of a life."""
        driver, life = self._driver, self.lives[container.id]
        if life.shares is not None:
            await driver.update(container, Resources(cpu_shares=life.shares))
        await self._look(life)
        await driver.stop(container)
        await driver.remove(container)
        await driver.remove_pod(container.pod)

    async def _live(self, number: int) -> None:
        container = await self.start(number)
        if self.meanwhile is not None:
            await self.meanwhile(container)
        await self.end(container)

    async def _look(self, life: Life) -> None:
        details = await self._containerd.cri.container_status(life.id)
        assert details.runtime_spec is not None
        spec = copy.deepcopy(dict(details.runtime_spec))
        # containerd stores an update of a container that is about to start, and does not apply it.
        group = f"/sys/fs/cgroup/memory{value_at(spec, '/linux/cgroupsPath')}"
        limit = Path(group, "memory.limit_in_bytes")
        if limit.exists() and int(limit.read_text()) >= _UNLIMITED:
            memory = value_at(spec, "/linux/resources/memory")
            assert isinstance(memory, dict)
            memory.pop("limit", None)
            memory.pop("swap", None)
        life.real.append(spec)
