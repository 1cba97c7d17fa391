# SPDX-License-Identifier: Apache-2.0
"""Thousands of generated chains of replies to merge; deterministic.

Keys come from small sets, so that some are used by several plugins, and most values are set rarely,
so that most chains do not fail at the first plugin. Some keys are invalid: empty, only the removal
mark, or marked twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2 as api

PLUGINS = ("10-alpha", "20-beta", "30-gamma", "40-delta")
CREATED = "created"
OTHERS = ("left", "right")

Request = api.CreateContainerRequest | api.UpdateContainerRequest | api.StopContainerRequest
Reply = api.CreateContainerResponse | api.UpdateContainerResponse | api.StopContainerResponse


@dataclass(frozen=True)
class Case:
    """An event and the replies of the first plugins of the chain."""

    name: str
    request: Request
    replies: tuple[Reply, ...]

    @property
    def event(self) -> str:
        """Name of the event, such as ``CreateContainer``."""
        return type(self.request).__name__.removesuffix("Request")


@cache
def generated(count: int) -> tuple[Case, ...]:
    """Return ``count`` cases."""
    return tuple(_case(number) for number in range(count))


def _case(number: int) -> Case:
    maker = _Maker(Random(number))
    kind = number % 10
    if kind == 0:
        event, request, reply = "stop", maker.stop(), maker.stop_reply
    elif kind <= 3:
        event, request, reply = "update", maker.update(), maker.update_reply
    else:
        event, request, reply = "create", maker.create(), maker.create_reply
    replies = tuple(reply(plugin) for plugin in range(maker.random.randint(1, len(PLUGINS))))
    return Case(f"{event} {number}", request, replies)


_OPTIONAL = {
    "memory": {
        "limit": 1 << 30,
        "reservation": 1 << 20,
        "swap": -1,
        "kernel": 1 << 22,
        "kernel_tcp": 1 << 23,
        "swappiness": 60,
        "disable_oom_killer": True,
        "use_hierarchy": False,
    },
    "cpu": {
        "shares": 512,
        "quota": -1,
        "period": 100_000,
        "realtime_runtime": 950_000,
        "realtime_period": 0,
    },
}
_ANNOTATIONS = ("example.com/a", "example.com/b", "c")
_DESTINATIONS = ("/data", "/data/sub", "/etc/config", "/")
_PATHS = ("/dev/kvm", "/dev/fuse", "/dev/null")
_VARIABLES = ("PATH", "HOME", "LANG", "X=Y")
_NAMESPACES = ("network", "pid", "ipc", "user")
_SYSCTLS = ("net.ipv4.ip_forward", "kernel.shm_rmid_forced", "fs.mqueue.msg_max")
_INTERFACES = ("eth0", "eth1", "net1")
_RLIMITS = ("RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_NPROC", "RLIMIT_AS")
_HOOKS = (
    "prestart",
    "create_runtime",
    "create_container",
    "start_container",
    "poststart",
    "poststop",
)


class _Maker:
    def __init__(self, random: Random) -> None:
        self.random = random
        # How much plugins change, and how often they use the same keys.
        self.busy = random.choice((0.05, 0.15, 0.4))
        self.meeting = random.choice((0.0, 0.1, 0.5))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def some(self, choices: tuple[str, ...]) -> list[str]:
        """Return some of the choices, usually none, in random order."""
        if not self.chance(self.busy):
            return []
        return self.random.sample(choices, self.random.randint(1, len(choices)))

    def keys(self, choices: tuple[str, ...], plugin: int, both: float = 0.25) -> Iterator[str]:
        """Yield keys that a plugin sets, removes or (with probability ``both``) both.

        One in a hundred calls also yields a malformed key.
        """
        for choice in self.some(choices):
            key = choice if self.chance(self.meeting) else f"{choice}{plugin}"
            kind = self.random.random()
            if kind < 0.2:
                yield f"-{choice}"
            elif kind < 0.2 + both:
                yield from self.random.sample((f"-{choice}", choice), 2)
            else:
                yield key
        if self.chance(0.01):
            yield self.random.choice(("", "-", "--a", "-a", "a"))

    def value(self) -> str:
        return f"v{self.random.randint(1, 1000)}"

    # Requests of runtimes.

    def pod(self) -> api.PodSandbox:
        return api.PodSandbox(id="pod", name="web", namespace="shop")

    def container(self, container_id: str) -> api.Container:
        container = api.Container(id=container_id, pod_sandbox_id="pod", name="app")
        if self.chance(0.1):
            return container
        for key in _ANNOTATIONS[:2]:
            container.annotations[key] = self.value()
        container.args.extend(("sleep", "inf"))
        container.env.extend(("PATH=/bin", "LANG=C=D", "EMPTY=", "BARE"))
        for destination in (*_DESTINATIONS[:3], "/proc", "/data"):
            container.mounts.add(destination=destination, type="bind", source="/src")
        container.hooks.poststop.add(path="/bin/hook")
        container.rlimits.add(type=_RLIMITS[0], hard=10, soft=5)
        linux = container.linux
        for name in (*_NAMESPACES[:3], "mount"):
            linux.namespaces.add(type=name)
        for path in _PATHS[:2]:
            linux.devices.add(path=path, type="c", major=10)
        linux.sysctl[_SYSCTLS[0]] = "1"
        linux.net_devices[_INTERFACES[0]].name = "eth0"
        linux.oom_score_adj.value = 100
        linux.cgroups_path = "/kubepods"
        self.resources(linux.resources, 0.5)
        return container

    def create(self) -> Request:
        return api.CreateContainerRequest(pod=self.pod(), container=self.container(CREATED))

    def update(self) -> Request:
        request = api.UpdateContainerRequest(pod=self.pod(), container=self.container(CREATED))
        if self.chance(0.8):
            self.resources(request.linux_resources, 0.4)
        return request

    def stop(self) -> Request:
        return api.StopContainerRequest(pod=self.pod(), container=self.container(CREATED))

    # Replies of plugins.

    def create_reply(self, plugin: int) -> Reply:
        reply = api.CreateContainerResponse()
        if self.chance(0.9):
            self.adjust(reply.adjust, plugin)
        reply.update.extend(self.updates(plugin, own=0.01))
        self.evict(reply.evict)
        return reply

    def update_reply(self, plugin: int) -> Reply:
        reply = api.UpdateContainerResponse(update=self.updates(plugin, own=0.6))
        self.evict(reply.evict)
        return reply

    def stop_reply(self, plugin: int) -> Reply:
        return api.StopContainerResponse(update=self.updates(plugin, own=0.1))

    def evict(self, evictions: Any) -> None:
        if self.chance(0.05):
            evictions.add(container_id="left", reason="no room")

    def updates(self, plugin: int, own: float) -> list[api.ContainerUpdate]:
        chosen = [CREATED] if self.chance(own) else []
        while self.chance(0.4):
            chosen.append(self.random.choice(OTHERS))
        self.random.shuffle(chosen)
        return [self.one_update(container_id, plugin) for container_id in chosen]

    def one_update(self, container_id: str, plugin: int) -> api.ContainerUpdate:
        update = api.ContainerUpdate(container_id=container_id)
        update.ignore_failure = self.chance(0.4)
        if self.chance(0.1):
            return update
        # In an update whose failure is ignored, upstream keeps the fields claimed before the
        # conflict, and iterates over the map in random order: therefore use one key only.
        unified = 1 if update.ignore_failure else 3
        self.resources(update.linux.resources, self.busy / 3, plugin, unified)
        return update

    def resources(
        self, resources: api.LinuxResources, often: float, plugin: int = 0, unified: int = 3
    ) -> None:
        for group, members in _OPTIONAL.items():
            if not self.chance(0.8):
                continue
            message: Any = getattr(resources, group)
            message.SetInParent()
            for name, value in members.items():
                if self.chance(often):
                    getattr(message, name).value = value
        for name in ("cpus", "mems"):
            if self.chance(often):
                setattr(resources.cpu, name, f"0-{plugin}")
        for size in ("2MB", "1GB"):
            if self.chance(often):
                resources.hugepage_limits.add(page_size=size, limit=self.random.randint(0, 9))
        if self.chance(often):
            rule = resources.devices.add(allow=True, type="c", access="rw")
            rule.major.value = plugin
        for key in ("memory.high", "cpu.idle", f"io.max{plugin}")[:unified]:
            if self.chance(often):
                resources.unified[key] = self.value()
        for name in ("blockio_class", "rdt_class"):
            if self.chance(often):
                getattr(resources, name).value = self.random.choice(("", "gold"))
        if self.chance(often):
            resources.pids.limit = self.random.choice((0, -1, 100))

    def adjust(self, adjust: api.ContainerAdjustment, plugin: int) -> None:
        for key in self.keys(_ANNOTATIONS, plugin):
            adjust.annotations[key] = self.value()
        for key in self.keys(_DESTINATIONS, plugin):
            adjust.mounts.add(destination=key, type="bind", source=f"/{plugin}", options=["ro"])
        for key in self.keys(_VARIABLES, plugin):
            adjust.env.add(key=key, value=self.value())
        if self.chance(self.busy * 0.5):
            adjust.args.extend(self.random.choice((["", "a", "b"], ["c"], [""])))
        for kind in self.some(_HOOKS):
            getattr(adjust.hooks, kind).add(path=f"/bin/{kind}{plugin}", args=[self.value()])
        for kind in self.some(_RLIMITS):
            name = kind if self.chance(self.meeting) else f"{kind}{plugin}"
            adjust.rlimits.add(type=name, hard=plugin, soft=1)
        for name in self.some(("vendor.com/gpu=0", "vendor.com/gpu=1")):
            adjust.CDI_devices.add(name=name if self.chance(self.meeting) else f"{name}{plugin}")
        if self.chance(0.8):
            self.adjust_linux(adjust.linux, plugin)

    def adjust_linux(self, linux: api.LinuxContainerAdjustment, plugin: int) -> None:
        linux.SetInParent()
        for key in self.keys(_PATHS, plugin):
            linux.devices.add(path=key, type="c", major=plugin, minor=1)
        for key in self.keys(_NAMESPACES, plugin, both=0.02):
            linux.namespaces.add(type=key, path=f"/proc/{plugin}/ns")
        for key in self.keys(_SYSCTLS, plugin):
            linux.sysctl[key] = self.value()
        for key in self.keys(_INTERFACES, plugin):
            linux.net_devices[key].name = self.value()
        rare = self.busy / 4
        if self.chance(0.6):
            self.resources(linux.resources, rare / 3, plugin)
        if self.chance(rare):
            linux.cgroups_path = f"/plugin{plugin}"
        for message, fill in self.simple(linux, plugin):
            if self.chance(rare):
                message.SetInParent()
                fill()
        if self.chance(self.busy):
            self.adjust_rdt(linux.rdt)

    def simple(
        self, linux: api.LinuxContainerAdjustment, plugin: int
    ) -> Iterator[tuple[Message, Callable[[], object]]]:
        """Yield messages that are set as a whole, each with a function that fills it."""

        def seccomp() -> None:
            linux.seccomp_policy.default_action = "SCMP_ACT_ALLOW"
            linux.seccomp_policy.syscalls.add(names=["mount"], action="SCMP_ACT_ERRNO")

        priority, scheduler, policy = linux.io_priority, linux.scheduler, linux.memory_policy
        yield (
            linux.oom_score_adj,
            lambda: linux.oom_score_adj.CopyFrom(api.OptionalInt(value=plugin)),
        )
        yield priority, lambda: priority.CopyFrom(api.LinuxIOPriority(priority=plugin))
        yield linux.seccomp_policy, seccomp
        yield scheduler, lambda: scheduler.CopyFrom(api.LinuxScheduler(nice=plugin))
        yield policy, lambda: policy.CopyFrom(api.LinuxMemoryPolicy(nodes=f"{plugin}"))

    def adjust_rdt(self, rdt: api.LinuxRdt) -> None:
        rdt.remove = self.chance(0.4)
        if self.chance(0.3):
            rdt.clos_id.value = self.value()
        if self.chance(0.3):
            rdt.schemata.value.append("L3:0=f")
        if self.chance(0.3):
            rdt.enable_monitoring.value = True
