# SPDX-License-Identifier: Apache-2.0
"""Generated replies of a chain of plugins to CreateContainer, with every kind of adjustment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import RpcError

INDICES = ("10", "50", "90")
VARIABLES = ("SPEC", "EMPTY", "OF_IMAGE", "NEW", "OTHER")
TARGETS = ("/mnt/a", "/mnt/b", "/mnt/c")

Reply = api.CreateContainerResponse | RpcError | None
Kind = Callable[[api.ContainerAdjustment, Random, str], object]


def _env(adjust: api.ContainerAdjustment, rng: Random, _: str) -> None:
    name = rng.choice(VARIABLES)
    if rng.random() < 0.4:
        adjust.env.add(key=f"-{name}")
        if rng.random() < 0.4:
            return
    adjust.env.add(key=name, value=rng.choice(("one", "two", "", "a=b")))


def _mount(adjust: api.ContainerAdjustment, rng: Random, folder: str) -> None:
    options = rng.choice(([], [], ["ro"], ["readonly"], ["ro", "ro"]))
    target = rng.choice(TARGETS)
    if rng.random() < 0.2:
        adjust.mounts.add(destination=f"-{target}")
    kind = rng.choice(("bind", "bind", "bind", "tmpfs", "volume"))
    source = {"bind": folder, "tmpfs": "", "volume": "named"}[kind]
    adjust.mounts.add(destination=target, type=kind, source=source, options=options)


def _odd_mount(adjust: api.ContainerAdjustment, rng: Random, folder: str) -> None:
    target = rng.choice(TARGETS)
    match rng.randrange(9):
        case 0:
            adjust.mounts.add(destination=f"-{target}")
        case 1:
            adjust.mounts.add(destination=target, type="bind", source=f"{folder}/missing")
        case 2:
            adjust.mounts.add(destination=target, type="tmpfs", source="tmpfs")
        case 3:
            adjust.mounts.add(destination=target, source=folder)
        case 4:
            adjust.mounts.add(destination="relative", type="bind", source=folder)
        case 5:
            adjust.mounts.add(destination=target, type="bind", source="relative")
        case 6:
            adjust.mounts.add(destination=target, type="bind")
        case 7:
            adjust.mounts.add(destination="/", type="bind", source=folder)
        case 8:
            option = rng.choice(("rbind", "rw", "rprivate", "nosuid", ""))
            adjust.mounts.add(destination=target, type="bind", source=folder, options=[option])


def _memory(adjust: api.ContainerAdjustment, rng: Random, _: str) -> None:
    field = rng.choice(("limit", "reservation", "swap", "swappiness", "kernel_tcp"))
    getattr(adjust.linux.resources.memory, field).value = 60


def _cpu(adjust: api.ContainerAdjustment, rng: Random, _: str) -> None:
    cpu = adjust.linux.resources.cpu
    if rng.random() < 0.5:
        getattr(cpu, rng.choice(("shares", "quota", "period"))).value = 20_000
    else:
        setattr(cpu, rng.choice(("cpus", "mems")), "0")


def _hooks(adjust: api.ContainerAdjustment, rng: Random, _: str) -> None:
    hooks = rng.choice(("prestart", "create_runtime", "poststop", "start_container"))
    getattr(adjust.hooks, hooks).add(path="/bin/true")


def _annotation(adjust: api.ContainerAdjustment, rng: Random, _: str) -> None:
    adjust.annotations[rng.choice(("note", "-note", "new", "-new", "team/tier"))] = rng.choice(
        ("", "x", "of the client")
    )


APPLIED: Mapping[str, Kind] = {"env": _env, "mount": _mount}
REFUSED: Mapping[str, Kind] = {
    "annotation": _annotation,
    "hooks": _hooks,
    "args": lambda a, r, _: a.args.extend(r.choice((["sleep", "9"], ["", "sleep", "9"]))),
    "rlimit": lambda a, *_: a.rlimits.add(type="RLIMIT_NOFILE", soft=100, hard=200),
    "cdi": lambda a, *_: a.CDI_devices.add(name="vendor.example.com/dev=one"),
    "device": lambda a, r, _: a.linux.devices.add(
        path=r.choice(("/dev/one", "-/dev/one")), type="c", major=1, minor=3
    ),
    "cgroups path": lambda a, *_: setattr(a.linux, "cgroups_path", "/elsewhere"),
    "oom": lambda a, *_: setattr(a.linux.oom_score_adj, "value", 100),
    "io priority": lambda a, *_: setattr(a.linux.io_priority, "priority", 3),
    "seccomp": lambda a, *_: setattr(a.linux.seccomp_policy, "default_action", "SCMP_ACT_ALLOW"),
    "namespace": lambda a, *_: a.linux.namespaces.add(type="ipc", path="/proc/1/ns/ipc"),
    "memory": _memory,
    "cpu": _cpu,
    "odd mount": _odd_mount,
    "no name": lambda a, *_: a.env.add(key="", value="x"),
}
DROPPED: Mapping[str, Kind] = {
    "pids": lambda a, *_: setattr(a.linux.resources.pids, "limit", 33),
    "unified": lambda a, *_: a.linux.resources.unified.update({"memory.high": "1000000"}),
    "huge pages": lambda a, *_: a.linux.resources.hugepage_limits.add(page_size="2MB", limit=0),
    "block io": lambda a, *_: setattr(a.linux.resources.blockio_class, "value", "gold"),
    "rdt class": lambda a, *_: setattr(a.linux.resources.rdt_class, "value", "gold"),
    "rdt": lambda a, *_: setattr(a.linux.rdt.clos_id, "value", "silver"),
    "sysctl": lambda a, *_: a.linux.sysctl.update({"net.ipv4.ip_default_ttl": "77"}),
    "net device": lambda a, *_: setattr(a.linux.net_devices["eth9"], "name", "eth0"),
    "scheduler": lambda a, *_: setattr(a.linux.scheduler, "policy", api.SCHED_RR),
    "memory policy": lambda a, *_: setattr(a.linux.memory_policy, "nodes", "0"),
}


def chain(rng: Random, folder: str, other: str, kinds: Mapping[str, Kind]) -> dict[str, Reply]:
    """Return a reply of each plugin, by index. ``other`` is the id of another container."""
    replies: dict[str, Reply] = dict.fromkeys(INDICES)
    for index in INDICES:
        if rng.random() < 0.35:
            continue
        reply = api.CreateContainerResponse()
        for _ in range(rng.choice((1, 1, 2, 3))):
            kinds[rng.choice([*kinds])](reply.adjust, rng, folder)
        if rng.random() < 0.03:
            reply.update.add(container_id=other).linux.resources.cpu.cpus = "0"
        if rng.random() < 0.03:
            reply.evict.add(container_id=other, reason="no room")
        replies[index] = RpcError(2, "no") if rng.random() < 0.03 else reply
    return replies


def single(kind: Kind, rng: Random, folder: str) -> dict[str, Reply]:
    """Return a chain in which only one plugin adjusts something, of one kind."""
    reply = api.CreateContainerResponse()
    kind(reply.adjust, rng, folder)
    return {**dict.fromkeys(INDICES), "50": reply}
