# SPDX-License-Identifier: Apache-2.0
"""Rules of merging, each with a minimal chain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from nri_scope._gen.nri import api_pb2 as api
from tests.interop.merge_cases import CREATED, Case

Adjust = Callable[[api.ContainerAdjustment], object]
Update = Callable[[api.LinuxResources], object]


def _optional(group: str, name: str, value: int) -> Update:
    def set_it(resources: api.LinuxResources) -> None:
        getattr(getattr(resources, group), name).value = value

    return set_it


RESOURCES: dict[str, Update] = {
    **{
        f"memory.{name}": _optional("memory", name, 7)
        for name in ("limit", "reservation", "swap", "kernel", "kernel_tcp", "swappiness")
    },
    "memory.disable_oom_killer": _optional("memory", "disable_oom_killer", True),
    "memory.use_hierarchy": _optional("memory", "use_hierarchy", False),
    **{
        f"cpu.{name}": _optional("cpu", name, 0)
        for name in ("shares", "quota", "period", "realtime_runtime", "realtime_period")
    },
    "cpu.cpus": lambda to: setattr(to.cpu, "cpus", "0-1"),
    "cpu.mems": lambda to: setattr(to.cpu, "mems", "0"),
    "hugepage_limits": lambda to: to.hugepage_limits.add(page_size="2MB", limit=4),
    "unified": lambda to: to.unified.update({"memory.high": "max"}),
    "blockio_class": lambda to: setattr(to.blockio_class, "value", "slow"),
    "rdt_class": lambda to: to.rdt_class.CopyFrom(api.OptionalString()),
    "pids": lambda to: setattr(to.pids, "limit", 100),
    "devices": lambda to: to.devices.add(allow=True, type="c", access="r"),
}
"""Functions that set each field of resources."""


def _of_resources(update: Update) -> Adjust:
    return lambda to: update(to.linux.resources)


FIELDS: dict[str, Adjust] = {
    "annotations": lambda to: to.annotations.update({"a": "1"}),
    "mounts": lambda to: to.mounts.add(destination="/data", source="/src", type="bind"),
    "env": lambda to: to.env.add(key="HOME", value="/"),
    "args": lambda to: to.args.append("sh"),
    "hooks": lambda to: to.hooks.poststart.add(path="/bin/true"),
    "rlimits": lambda to: to.rlimits.add(type="RLIMIT_CORE", hard=1),
    "CDI_devices": lambda to: to.CDI_devices.add(name="vendor.com/gpu=0"),
    "linux.devices": lambda to: to.linux.devices.add(path="/dev/kvm", type="c", major=10),
    "linux.cgroups_path": lambda to: setattr(to.linux, "cgroups_path", "/x"),
    "linux.oom_score_adj": lambda to: to.linux.oom_score_adj.CopyFrom(api.OptionalInt()),
    "linux.io_priority": lambda to: setattr(to.linux.io_priority, "priority", 3),
    "linux.seccomp_policy": lambda to: to.linux.seccomp_policy.CopyFrom(api.LinuxSeccomp()),
    "linux.namespaces": lambda to: to.linux.namespaces.add(type="pid", path="/proc/1/ns/pid"),
    "linux.sysctl": lambda to: to.linux.sysctl.update({"kernel.x": "1"}),
    "linux.net_devices": lambda to: setattr(to.linux.net_devices["eth0"], "name", "net0"),
    "linux.scheduler": lambda to: setattr(to.linux.scheduler, "nice", 5),
    "linux.rdt.clos_id": lambda to: setattr(to.linux.rdt.clos_id, "value", "gold"),
    "linux.rdt.schemata": lambda to: to.linux.rdt.schemata.value.append("L3:0=f"),
    "linux.rdt.enable_monitoring": lambda to: setattr(
        to.linux.rdt.enable_monitoring, "value", True
    ),
    "linux.memory_policy": lambda to: setattr(to.linux.memory_policy, "nodes", "0"),
    **{f"linux.resources.{name}": _of_resources(update) for name, update in RESOURCES.items()},
}
"""Functions that set each field of an adjustment."""

REMOVALS: dict[str, Adjust] = {
    "annotations": lambda to: to.annotations.update({"-a": ""}),
    "mounts": lambda to: to.mounts.add(destination="-/data"),
    "env": lambda to: to.env.add(key="-HOME"),
    "args": lambda to: to.args.append(""),
    "linux.devices": lambda to: to.linux.devices.add(path="-/dev/kvm"),
    "linux.namespaces": lambda to: to.linux.namespaces.add(type="-pid"),
    "linux.sysctl": lambda to: to.linux.sysctl.update({"-kernel.x": ""}),
    "linux.net_devices": lambda to: to.linux.net_devices["-eth0"].SetInParent(),
    "linux.rdt.clos_id": lambda to: setattr(to.linux.rdt, "remove", True),
}
"""Functions that remove the removable values of ``FIELDS``."""


def container() -> api.Container:
    """A container with other values for the keys in ``FIELDS``."""
    made = api.Container(id=CREATED, args=["sleep"], env=["PATH=/bin", "HOME=/root"])
    made.annotations["a"] = "0"
    made.mounts.add(destination="/proc", type="proc")
    made.mounts.add(destination="/data", source="/old")
    made.linux.devices.add(path="/dev/kvm", type="c")
    made.linux.namespaces.add(type="pid")
    made.linux.sysctl["kernel.x"] = "0"
    made.linux.net_devices["eth0"].name = "eth0"
    return made


def create(name: str, *replies: tuple[Adjust, ...]) -> Case:
    """A CreateContainer case; each reply is built by several functions."""
    made = []
    for reply in replies:
        response = api.CreateContainerResponse()
        response.adjust.SetInParent()
        for do in reply:
            do(response.adjust)
        made.append(response)
    return Case(name, api.CreateContainerRequest(container=container()), tuple(made))


def _update(container_id: str, *do: Update, ignore: bool = False) -> api.ContainerUpdate:
    update = api.ContainerUpdate(container_id=container_id, ignore_failure=ignore)
    for one in do:
        one(update.linux.resources)
    return update


def _updates(name: str, *replies: list[api.ContainerUpdate]) -> Iterator[Case]:
    """Yield cases with the same updates in replies to each event."""
    yield Case(
        f"{name}, in CreateContainer",
        api.CreateContainerRequest(container=container()),
        tuple(api.CreateContainerResponse(update=reply) for reply in replies),
    )
    asked = api.UpdateContainerRequest(container=container())
    asked.linux_resources.memory.limit.value = 1
    asked.linux_resources.pids.limit = 5
    asked.linux_resources.devices.add(type="b")
    yield Case(
        f"{name}, in UpdateContainer",
        asked,
        tuple(api.UpdateContainerResponse(update=reply) for reply in replies),
    )
    yield Case(
        f"{name}, in UpdateContainer of nothing",
        api.UpdateContainerRequest(container=container()),
        tuple(api.UpdateContainerResponse(update=reply) for reply in replies),
    )
    yield Case(
        f"{name}, in StopContainer",
        api.StopContainerRequest(container=container()),
        tuple(api.StopContainerResponse(update=reply) for reply in replies),
    )


def _field_rules() -> Iterator[Case]:
    yield create("later plugins see what earlier ones set", tuple(FIELDS.values()), (), ())
    for name, do in FIELDS.items():
        yield create(f"{name} set once", (do,))
        yield create(f"{name} set by two plugins", (do,), (do,))
        yield create(f"{name} set by three plugins", (do,), (do,), (do,))
        yield create(f"{name} set twice by one plugin", (do, do))
    for (name, do), (other, do_other) in combinations(FIELDS.items(), 2):
        yield create(f"{name} and {other} in conflict", (do, do_other), (do, do_other))
    for name, remove in REMOVALS.items():
        do = FIELDS[name]
        yield create(f"{name} removed from the container", (remove,), ())
        yield create(f"{name} removed and set", (remove, do), ())
        yield create(f"{name} removed after a plugin set it", (do,), (remove,), ())
        yield create(f"{name} replaced", (do,), (remove, do), ())
        yield create(f"{name} replaced, then set", (do,), (remove, do), (do,))
        yield create(f"{name} replaced twice", (do,), (remove, do), (remove, do))
        yield create(f"{name} removed, then set by another", (do,), (remove,), (do,))
        yield create(f"{name} removed by two", (do,), (remove,), (remove,), ())
    yield create("nothing", ())
    yield create("an empty Linux part", (lambda to: to.linux.SetInParent(),))
    rdt = FIELDS["linux.rdt.schemata"]
    yield create("rdt removed, another part set", (rdt,), (REMOVALS["linux.rdt.clos_id"],), (rdt,))


def _update_rules() -> Iterator[Case]:
    for name, do in RESOURCES.items():
        for where, container_id in (("own", CREATED), ("another", "other")):
            update = _update(container_id, do)
            yield from _updates(f"{name} updated in {where}", [update])
            yield from _updates(f"{name} updated in {where} by two", [update], [update])
            ignored = _update(container_id, do, ignore=True)
            yield from _updates(f"{name} updated in {where}, ignored", [update], [ignored])
    shares, quota = RESOURCES["cpu.shares"], RESOURCES["cpu.quota"]
    yield from _updates("no updates", [])
    yield from _updates("an update of nothing", [_update("other")], [_update(CREATED)])
    yield from _updates("two containers", [_update("b", shares), _update("a", quota)])
    yield from _updates("one container twice", [_update("b", shares), _update("b", quota)])
    for first in (True, False):
        for second in (True, False):
            one, two = _update("b", shares, ignore=first), _update("b", quota, ignore=second)
            yield from _updates(f"failures ignored: {first} and {second}", [one], [two])
    # A field claimed before an ignored conflict remains claimed: quota, although it was not set.
    both = _update("b", shares, quota, RESOURCES["memory.limit"], ignore=True)
    conflict = _update("b", RESOURCES["memory.swap"], RESOURCES["cpu.period"], quota)
    yield from _updates("ignored, then in the way", [_update("b", shares)], [both], [conflict])
    evicting = api.CreateContainerResponse()
    evicting.evict.add(container_id="other", reason="too fat")
    creation = api.CreateContainerRequest(container=container())
    yield Case("an eviction in CreateContainer", creation, (evicting,))
    evicted = api.UpdateContainerResponse()
    evicted.evict.add(container_id="other")
    updating = api.UpdateContainerRequest(container=container())
    yield Case("an eviction in UpdateContainer", updating, (evicted,))
    yield Case("no adjustment at all", creation, (api.CreateContainerResponse(),))


RULES = (*_field_rules(), *_update_rules())
