# SPDX-License-Identifier: Apache-2.0
"""NRI plugin that gives whole CPUs to containers that request them, and the rest to all others.

A container whose CPU request and limit are the same whole number gets that many CPUs of its own;
all other containers share the remaining ones. Whenever CPUs are taken or returned, the containers
that run already move: by updates in the replies to CreateContainer and StopContainer, and by
unsolicited ones.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Iterator, Sequence

from nri_scope.errors import UsageError
from nri_scope.plugin import RuntimeHandle, api, run

CREATION_S = 60.0
"""Seconds after which a container that was not created loses its CPUs: a runtime sends no event if
a creation fails after this plugin has replied."""

log = logging.getLogger("cpu-pool")


class CpuPool:
    """Plugin that gives whole CPUs to containers that request them, and the rest to all others."""

    def __init__(self, cpus: str, creation_s: float = CREATION_S) -> None:
        self.cpus = parse_cpus(cpus)
        self.creation_s = creation_s
        self.exclusive: dict[str, list[int]] = {}
        """CPUs of containers that have their own, by id."""
        self.sharing: dict[str, str] = {}
        """CPUs of all other containers, as last requested, by id."""
        self.unconfirmed: dict[str, asyncio.TimerHandle] = {}
        """Containers of which it is not known yet whether their creation succeeds, by id."""

    @property
    def shared(self) -> str:
        """The CPUs that no container has for itself."""
        taken = {cpu for cpus in self.exclusive.values() for cpu in cpus}
        return format_cpus(cpu for cpu in self.cpus if cpu not in taken)

    def configure(self, config: str, runtime: RuntimeHandle) -> None:
        """Use the CPUs of the configuration, if there is one."""
        self.runtime = runtime
        if config.strip():
            self.cpus = parse_cpus(config.strip())
        if len(self.cpus) < 2:
            raise UsageError(
                f"{format_cpus(self.cpus) or 'none'}: too few CPUs",
                "name two or more with --cpus, or in the configuration",
            )

    def synchronize(
        self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]
    ) -> list[api.ContainerUpdate]:
        """Place all existing containers; those with CPUs of their own keep them if possible."""
        self.exclusive.clear()
        self.sharing.clear()
        for container in sorted(containers, key=lambda one: not one.linux.resources.cpu.cpus):
            self._place(container)
        own = [_update(key, format_cpus(cpus)) for key, cpus in self.exclusive.items()]
        return own + self._move_sharing()

    def create_container(
        self, pod: api.PodSandbox, container: api.Container
    ) -> api.CreateContainerResponse:
        """Place a container, and move others if it gets CPUs of its own."""
        reply = api.CreateContainerResponse()
        if self._place(container):
            cpus = format_cpus(self.exclusive[container.id])
            log.info("%s/%s: CPUs %s, shared %s", pod.name, container.name, cpus, self.shared)
            reply.update.extend(self._move_sharing())
        else:
            cpus = self.sharing[container.id] = self.shared
        reply.adjust.linux.resources.cpu.cpus = cpus
        self.unconfirmed[container.id] = asyncio.get_running_loop().call_later(
            self.creation_s, self._expire, container.id
        )
        return reply

    def post_create_container(self, pod: api.PodSandbox, container: api.Container) -> None:
        """Confirm a creation; others may have taken CPUs since CreateContainer."""
        self._confirm(container.id)
        self._request(self._move_sharing())

    def stop_container(
        self, pod: api.PodSandbox, container: api.Container
    ) -> list[api.ContainerUpdate]:
        """Return a container's CPUs to the others."""
        return self._release(container.id)

    def remove_container(self, pod: api.PodSandbox, container: api.Container) -> None:
        """Return the CPUs of a container that ended without StopContainer."""
        self._request(self._release(container.id))

    def closed(self, reason: str) -> None:
        """Stop all timers: `synchronize` places the containers anew."""
        for timer in self.unconfirmed.values():
            timer.cancel()
        self.unconfirmed.clear()

    def _request(self, updates: list[api.ContainerUpdate]) -> None:
        if updates:
            self.runtime.update_containers(updates)

    def _expire(self, container_id: str) -> None:
        log.warning("%s was not created, its CPUs are returned", container_id[:12])
        self._request(self._release(container_id))

    def _confirm(self, container_id: str) -> None:
        if timer := self.unconfirmed.pop(container_id, None):
            timer.cancel()

    def _place(self, container: api.Container) -> bool:
        """Return whether the container gets CPUs of its own."""
        count = whole_cpus(container)
        present = parse_cpus(container.linux.resources.cpu.cpus or "")
        taken = {cpu for cpus in self.exclusive.values() for cpu in cpus}
        free = [cpu for cpu in self.cpus if cpu not in taken]
        if count and len(present) == count and set(present) <= set(free):
            free = [*present, *(cpu for cpu in free if cpu not in present)]
        # At least one CPU remains shared.
        if 0 < count < len(free):
            self.exclusive[container.id] = sorted(free[:count])
            return True
        if count:
            log.warning("%s: %d of %d CPUs are available", container.name, len(free) - 1, count)
        self.sharing.setdefault(container.id, "")
        return False

    def _release(self, container_id: str) -> list[api.ContainerUpdate]:
        self.sharing.pop(container_id, None)
        self._confirm(container_id)
        self.exclusive.pop(container_id, None)
        return self._move_sharing()

    def _move_sharing(self) -> list[api.ContainerUpdate]:
        """Return updates of the created containers that have other CPUs than the shared ones."""
        shared = self.shared
        moving = [
            key
            for key, cpus in self.sharing.items()
            if cpus != shared and key not in self.unconfirmed
        ]
        self.sharing.update(dict.fromkeys(moving, shared))
        return [_update(key, shared) for key in moving]


def _update(container_id: str, cpus: str) -> api.ContainerUpdate:
    # A container may end at any time, which must not fail the request of another one.
    update = api.ContainerUpdate(container_id=container_id, ignore_failure=True)
    update.linux.resources.cpu.cpus = cpus
    return update


def whole_cpus(container: api.Container) -> int:
    """Return the number of CPUs that are request and limit of a container; 0 if they differ."""
    cpu = container.linux.resources.cpu
    period = cpu.period.value or 100_000
    count, rest = divmod(cpu.quota.value, period)
    return count if count > 0 and not rest and cpu.shares.value == 1024 * count else 0


def parse_cpus(text: str) -> list[int]:
    """Return the numbers in a list such as ``0-3,8``, sorted."""
    try:
        ranges = [part.partition("-") for part in text.split(",") if part]
        numbers = {n for a, _, b in ranges for n in range(int(a), int(b or a) + 1)}
    except ValueError:
        raise UsageError(f"{text!r} is not a list of CPUs", "write it as 0-3,8") from None
    return sorted(numbers)


def format_cpus(cpus: Iterator[int] | Sequence[int]) -> str:
    """Return a list such as ``0,1,2,3``."""
    return ",".join(map(str, cpus))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--cpus", default="", help="the CPUs for containers, such as 1-7")
    options, rest = parser.parse_known_args()
    run(CpuPool(options.cpus), name="cpu-pool", index="40", arguments=rest)


if __name__ == "__main__":
    main()
