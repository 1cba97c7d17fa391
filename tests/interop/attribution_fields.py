# SPDX-License-Identifier: Apache-2.0
"""Every adjustable field with three values: how to set them, and their form in an OCI spec.

The OCI form is written by hand here, independently of the code under test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import fields as known
from nri_scope.specs import Json, Spec
from tests.interop.merge_rules import REMOVALS

Adjust: TypeAlias = Callable[[api.ContainerAdjustment, int], object]
SetInitial: TypeAlias = Callable[[api.Container, int], object]
Limit: TypeAlias = Callable[[api.LinuxResources, int], object]


@dataclass(frozen=True)
class Entry:
    """A field. Value 0 is the container's own, values 1 and 2 are requested by plugins."""

    name: str
    """Key in ``merge_rules.FIELDS``."""
    field: known.AdjustableField
    adjust: Adjust
    set_initial: SetInitial | None
    """Sets the field in a container; None if NRI's Container lacks the field."""
    spec: Callable[[int], Spec]
    """Returns a spec with the field only."""
    update: Limit | None = None
    """Sets the field in an update; None if it is no resource."""
    appends: bool = False
    """Whether requested values are added to the container's."""
    shared: bool = False
    """Whether several plugins may set the field without a conflict."""
    single: bool = False
    """Whether the field has only a key, and therefore no value to replace."""

    def remove(self, adjustment: api.ContainerAdjustment) -> None:
        """Request the removal of the field, if `removable`."""
        if self.name.startswith("linux.rdt."):
            adjustment.linux.rdt.remove = True
        else:
            REMOVALS[self.name](adjustment)

    @property
    def replaceable(self) -> bool:
        """Whether a plugin can replace another plugin's value."""
        return self.name in REMOVALS or self.name.startswith("linux.rdt.")

    @property
    def removable(self) -> bool:
        """Whether a plugin can remove the field. (Arguments can only be replaced.)"""
        return self.replaceable and self.name != "args"

    def state(self, *numbers: int) -> Spec:
        """The spec after these values were set in turn; empty without values."""
        if not self.appends:
            return self.spec(numbers[-1]) if numbers else {}
        state: Spec = {}
        for number in numbers:
            state = joined(state, self.spec(number))
        return state


def joined(one: Spec, other: Spec) -> Spec:
    """Both specs merged, with concatenated arrays; the last limit of a page size wins."""
    both = dict(one)
    for key, value in other.items():
        before = both.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            both[key] = joined(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            both[key] = [*before, *value] if key != "hugepageLimits" else value
        else:
            both[key] = value
    return both


def _process(key: str, value: Json) -> Spec:
    return {"process": {key: value}}


def _linux(key: str, value: Json) -> Spec:
    return {"linux": {key: value}}


def _resources(key: str, value: Json) -> Spec:
    return _linux("resources", {key: value})


def _number(
    group: str, name: str, values: tuple[int, int, int], field: known.AdjustableField
) -> Entry:
    """An optional number of LinuxMemory or LinuxCPU."""

    def limit(resources: api.LinuxResources, number: int) -> None:
        getattr(getattr(resources, group), name).value = values[number]

    key = field.path.rpartition("/")[2]
    return _resource(f"{group}.{name}", field, limit, lambda n: _resources(group, {key: values[n]}))


def _resource(
    name: str,
    field: known.AdjustableField,
    limit: Limit,
    spec: Callable[[int], Spec],
    *,
    shared: bool = False,
) -> Entry:
    return Entry(
        f"linux.resources.{name}",
        field,
        lambda to, n: limit(to.linux.resources, n),
        lambda to, n: limit(to.linux.resources, n),
        spec,
        limit,
        appends=shared,
        shared=shared,
    )


_BOOLEANS = (False, True, False)
_NUMBERS = {
    "memory": {
        name: _BOOLEANS if name in ("disable_oom_killer", "use_hierarchy") else (70, 71, 72)
        for name in known.MEMORY
    },
    "cpu": {name: (1000, 1001, 1002) for name in known.CPU if name not in ("cpus", "mems")},
}


def _set_hook(hooks: api.Hooks, number: int) -> None:
    hooks.poststart.add(path=f"/bin/hook{number}")


def _set_scheduler(to: api.LinuxScheduler, number: int) -> None:
    to.policy, to.nice = api.SCHED_BATCH, number + 1


def _set_io_priority(to: api.LinuxIOPriority, number: int) -> None:
    setattr(to, "class", api.IOPRIO_CLASS_BE)  # "class" is a keyword
    to.priority = number


_ACTIONS = ("SCMP_ACT_ERRNO", "SCMP_ACT_ALLOW", "SCMP_ACT_LOG")


def _mount(number: int) -> dict[str, str]:
    return {"destination": "/data", "type": "bind", "source": f"/{number}"}


def _rule(to: api.LinuxResources, number: int) -> None:
    rule = to.devices.add(allow=True, type="c", access="r")
    rule.major.value, rule.minor.value = 10, number


ENTRIES = (
    Entry(
        "annotations",
        known.ANNOTATIONS,
        lambda to, n: to.annotations.update({"a": f"{n}"}),
        lambda to, n: to.annotations.update({"a": f"{n}"}),
        lambda n: {"annotations": {"a": f"{n}"}},
    ),
    Entry(
        "mounts",
        known.MOUNTS,
        lambda to, n: to.mounts.add(**_mount(n)),
        lambda to, n: to.mounts.add(**_mount(n)),
        lambda n: {"mounts": [{**_mount(n)}]},
    ),
    Entry(
        "hooks",
        known.HOOKS,
        lambda to, n: _set_hook(to.hooks, n),
        lambda to, n: _set_hook(to.hooks, n),
        lambda n: {"hooks": {"poststart": [{"path": f"/bin/hook{n}"}]}},
        appends=True,
        shared=True,
    ),
    Entry(
        "linux.devices",
        known.DEVICES,
        lambda to, n: to.linux.devices.add(path="/dev/kvm", type="c", major=10, minor=n),
        lambda to, n: to.linux.devices.add(path="/dev/kvm", type="c", major=10, minor=n),
        lambda n: _linux("devices", [{"path": "/dev/kvm", "type": "c", "major": 10, "minor": n}]),
    ),
    Entry(
        "CDI_devices",
        known.CDI_DEVICES,
        lambda to, n: to.CDI_devices.add(name="vendor.com/gpu=0"),
        None,
        lambda n: {"cdiDevices": [{"name": "vendor.com/gpu=0"}]},
        single=True,
    ),
    Entry(
        "env",
        known.ENV,
        lambda to, n: to.env.add(key="HOME", value=f"/{n}"),
        lambda to, n: to.env.append(f"HOME=/{n}"),
        lambda n: _process("env", [f"HOME=/{n}"]),
    ),
    Entry(
        "args",
        known.ARGS,
        lambda to, n: to.args.extend(("sleep", f"{n}")),
        lambda to, n: to.args.extend(("sleep", f"{n}")),
        lambda n: _process("args", ["sleep", f"{n}"]),
    ),
    Entry(
        "rlimits",
        known.RLIMITS,
        lambda to, n: to.rlimits.add(type="RLIMIT_CORE", hard=n + 1, soft=n),
        lambda to, n: to.rlimits.add(type="RLIMIT_CORE", hard=n + 1, soft=n),
        lambda n: _process("rlimits", [{"type": "RLIMIT_CORE", "hard": n + 1, "soft": n}]),
        appends=True,
    ),
    Entry(
        "linux.cgroups_path",
        known.CGROUPS_PATH,
        lambda to, n: setattr(to.linux, "cgroups_path", f"/x{n}"),
        lambda to, n: setattr(to.linux, "cgroups_path", f"/x{n}"),
        lambda n: _linux("cgroupsPath", f"/x{n}"),
    ),
    Entry(
        "linux.oom_score_adj",
        known.OOM_SCORE_ADJ,
        lambda to, n: setattr(to.linux.oom_score_adj, "value", 100 + n),
        lambda to, n: setattr(to.linux.oom_score_adj, "value", 100 + n),
        lambda n: _process("oomScoreAdj", 100 + n),
    ),
    Entry(
        "linux.io_priority",
        known.IO_PRIORITY,
        lambda to, n: _set_io_priority(to.linux.io_priority, n),
        lambda to, n: _set_io_priority(to.linux.io_priority, n),
        lambda n: _process("ioPriority", {"class": "IOPRIO_CLASS_BE", "priority": n}),
    ),
    Entry(
        "linux.seccomp_policy",
        known.SECCOMP_POLICY,
        lambda to, n: setattr(to.linux.seccomp_policy, "default_action", _ACTIONS[n]),
        lambda to, n: setattr(to.linux.seccomp_policy, "default_action", _ACTIONS[n]),
        lambda n: _linux("seccomp", {"defaultAction": _ACTIONS[n]}),
    ),
    Entry(
        "linux.namespaces",
        known.NAMESPACES,
        lambda to, n: to.linux.namespaces.add(type="pid", path=f"/proc/{n}/ns/pid"),
        lambda to, n: to.linux.namespaces.add(type="pid", path=f"/proc/{n}/ns/pid"),
        lambda n: _linux("namespaces", [{"type": "pid", "path": f"/proc/{n}/ns/pid"}]),
    ),
    Entry(
        "linux.sysctl",
        known.SYSCTL,
        lambda to, n: to.linux.sysctl.update({"kernel.x": f"{n}"}),
        lambda to, n: to.linux.sysctl.update({"kernel.x": f"{n}"}),
        lambda n: _linux("sysctl", {"kernel.x": f"{n}"}),
    ),
    Entry(
        "linux.net_devices",
        known.NET_DEVICES,
        lambda to, n: setattr(to.linux.net_devices["eth0"], "name", f"net{n}"),
        lambda to, n: setattr(to.linux.net_devices["eth0"], "name", f"net{n}"),
        lambda n: _linux("netDevices", {"eth0": {"name": f"net{n}"}}),
    ),
    Entry(
        "linux.scheduler",
        known.SCHEDULER,
        lambda to, n: _set_scheduler(to.linux.scheduler, n),
        lambda to, n: _set_scheduler(to.linux.scheduler, n),
        lambda n: _process("scheduler", {"policy": "SCHED_BATCH", "nice": n + 1}),
    ),
    Entry(
        "linux.rdt.clos_id",
        known.RDT["clos_id"],
        lambda to, n: setattr(to.linux.rdt.clos_id, "value", f"class{n}"),
        lambda to, n: setattr(to.linux.rdt.clos_id, "value", f"class{n}"),
        lambda n: _linux("intelRdt", {"closID": f"class{n}"}),
    ),
    Entry(
        "linux.rdt.schemata",
        known.RDT["schemata"],
        lambda to, n: to.linux.rdt.schemata.value.append(f"L3:0={n}"),
        lambda to, n: to.linux.rdt.schemata.value.append(f"L3:0={n}"),
        lambda n: _linux("intelRdt", {"schemata": [f"L3:0={n}"]}),
    ),
    Entry(
        "linux.rdt.enable_monitoring",
        known.RDT["enable_monitoring"],
        lambda to, n: setattr(to.linux.rdt.enable_monitoring, "value", _BOOLEANS[n]),
        lambda to, n: setattr(to.linux.rdt.enable_monitoring, "value", _BOOLEANS[n]),
        lambda n: _linux("intelRdt", {"enableMonitoring": _BOOLEANS[n]}),
    ),
    Entry(
        "linux.memory_policy",
        known.MEMORY_POLICY,
        lambda to, n: setattr(to.linux.memory_policy, "nodes", f"{n}"),
        None,
        lambda n: _linux("memoryPolicy", {"mode": "MPOL_DEFAULT", "nodes": f"{n}"}),
    ),
    *(
        _number(group, name, values, table[name])
        for group, table in (("memory", known.MEMORY), ("cpu", known.CPU))
        for name, values in _NUMBERS[group].items()
    ),
    _resource(
        "cpu.cpus",
        known.CPU["cpus"],
        lambda to, n: setattr(to.cpu, "cpus", f"0-{n}"),
        lambda n: _resources("cpu", {"cpus": f"0-{n}"}),
    ),
    _resource(
        "cpu.mems",
        known.CPU["mems"],
        lambda to, n: setattr(to.cpu, "mems", f"{n}"),
        lambda n: _resources("cpu", {"mems": f"{n}"}),
    ),
    _resource(
        "pids",
        known.PIDS_LIMIT,
        lambda to, n: setattr(to.pids, "limit", 100 + n),
        lambda n: _resources("pids", {"limit": 100 + n}),
    ),
    _resource(
        "hugepage_limits",
        known.HUGEPAGE_LIMITS,
        lambda to, n: to.hugepage_limits.add(page_size="2MB", limit=n + 1),
        lambda n: _resources("hugepageLimits", [{"pageSize": "2MB", "limit": n + 1}]),
    ),
    _resource(
        "unified",
        known.UNIFIED,
        lambda to, n: to.unified.update({"memory.high": f"{n}"}),
        lambda n: _resources("unified", {"memory.high": f"{n}"}),
    ),
    _resource(
        "devices",
        known.DEVICE_RULES,
        _rule,
        lambda n: _resources(
            "devices", [{"allow": True, "type": "c", "major": 10, "minor": n, "access": "r"}]
        ),
        shared=True,
    ),
    _resource(
        "blockio_class",
        known.BLOCKIO_CLASS,
        lambda to, n: setattr(to.blockio_class, "value", f"class{n}"),
        lambda n: _resources("blockIO", {"unresolvedClass": f"class{n}"}),
    ),
    _resource(
        "rdt_class",
        known.RDT_CLASS,
        lambda to, n: setattr(to.rdt_class, "value", f"class{n}"),
        lambda n: _linux("intelRdt", {"closID": f"class{n}"}),
    ),
)
"""All adjustable fields."""
