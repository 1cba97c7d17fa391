# SPDX-License-Identifier: Apache-2.0
"""What later events show of a container that nothing seen before explains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, get_args

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.oci import Change, Spec

from .hidden import IN_VAIN, is_back, is_hidden, newest_steps
from .history import History
from .model import Evidence, Step
from .owner import Owner, Who

_State = Literal[
    "labels",
    "state",
    "pid",
    "created_at",
    "started_at",
    "finished_at",
    "exit_code",
    "status_reason",
    "status_message",
]
_STATE: tuple[_State, ...] = get_args(_State)
"""Fields that change by themselves, and that no plugin can set."""

_MAY_BE_LEFT_OUT = (
    ("hooks",),
    ("cdiDevices",),
    ("process", "rlimits"),
    ("process", "ioPriority"),
    ("process", "scheduler"),
    ("linux", "intelRdt"),
    ("linux", "memoryPolicy"),
    ("linux", "netDevices"),
    ("linux", "seccomp"),
    ("linux", "sysctl"),
    ("linux", "resources", "blockIO"),
    ("linux", "resources", "pids"),
    ("linux", "resources", "devices"),
    ("linux", "resources", "hugepageLimits"),
    ("linux", "resources", "unified"),
    ("nri",),
)
"""What some runtimes do not show of a container that exists, or of one being created: that it is
not shown says nothing (containerd before 2.3 shows no rlimits, no runtime a CDI device)."""


ANYBODY = Owner(Who.ONE_OF, first="00", last="99", or_runtime=True)
NOT_SEEN = "nobody was seen asking for it: out of turn, or beside another event"
NOT_SHOWN = "what plugins do here is shown to no connection of the chain"

_Device: TypeAlias = tuple[str, str, str]
_RULES, _DEVICES = "/linux/resources/devices/", "/linux/devices/"
_LIMIT, _SWAP = "/linux/resources/memory/limit", "/linux/resources/memory/swap"
_UPDATABLE = (
    "/linux/resources/cpu/",
    "/linux/resources/memory/",
    "/linux/resources/hugepageLimits/",
    "/linux/resources/unified/",
)
"""What updates reach, which plugins can ask for beside any event, and out of turn."""


def may_be_left_out(path: str) -> bool:
    """Whether some runtime does not show this of a container that exists, plugin's or not."""
    parts = path.split("/")[1:]
    return any(tuple(parts[: len(left_out)]) == left_out for left_out in _MAY_BE_LEFT_OUT)


def fingerprint(container: api.Container) -> bytes:
    """Equal for two views of one container that differ in nothing a plugin could have changed."""
    plain = api.Container()
    plain.CopyFrom(container)
    for name in _STATE:
        plain.ClearField(name)
    return plain.SerializeToString(deterministic=True)


def is_told(container: api.Container) -> bool:
    """Whether a message tells the container at all; some hold no more than an id."""
    return bool(container.args or container.env or container.mounts or container.HasField("linux"))


def drift(
    history: History, container: api.Container, tail: Owner | None, event: int, at_ns: int
) -> tuple[list[Step], Spec]:
    """Steps from what is known of a container to how an event shows it, and the spec then.

    `tail` is who may have had the last word in the event before; None where that was all seen.
    """
    shown = dict(oci.spec_of(container))
    for path in _MAY_BE_LEFT_OUT:
        _carry_over(history.spec, shown, path)
    known, now = history.spec, shown
    if known.get("mounts") != shown.get("mounts"):
        # The first mount that a plugin adds has the runtime sort them all.
        known, now = oci.sort_mounts(known), oci.sort_mounts(shown)
    steps: list[Step] = []
    found = oci.changes(known, now)
    has_rules = any(change.path.startswith(_RULES) for change in found)
    devices = _devices(history.steps) if has_rules else {}
    newest = newest_steps(history.steps) if found else {}
    for change in found:
        ruled = _for_device(devices, change) if change.path.startswith(_RULES) else None
        by, why = ruled or _by(tail, change, now, found)
        if not why and is_back(change, history.base, newest):
            why = IN_VAIN
        steps.append(Step(history.id, change, by, (Evidence.EVENTS,), event, at_ns, note=why))
    return steps, shown


def _by(
    tail: Owner | None, change: Change, now: Spec, beside: Iterable[Change]
) -> tuple[Owner, str]:
    """Who may have made a change that nobody saw being made."""
    if tail is None:
        return ANYBODY, NOT_SEEN
    if is_hidden(change) and tail.who is not Who.RUNTIME:
        return ANYBODY, NOT_SHOWN
    if change.path == _SWAP and all(other.path != _LIMIT for other in beside):
        # The runtime has it follow the limit.
        follows = change.after is not None and oci.value_at(now, _LIMIT) == change.after
        return (tail, "") if follows else (ANYBODY, NOT_SEEN)
    # Between two events about one container there may be others, and what plugins ask for beside
    # these, or when they connect, none of our connections is shown.
    return (ANYBODY, NOT_SEEN) if change.path.startswith(_UPDATABLE) else (tail, "")


def _for_device(devices: Mapping[_Device, Step], change: Change) -> tuple[Owner, str] | None:
    """Who had a device added for which the runtime then adds a rule to the cgroup's list.

    Every runtime does, by upstream's generator: the rule follows from the device.
    """
    rule = change.after
    if change.kind != "added" or not isinstance(rule, dict):
        return None
    step = devices.get(_device(rule))
    if step is None or not isinstance(step.change.after, dict):
        return None
    return step.owner, f"the runtime's rule for the device {step.change.after.get('path')}"


def _devices(steps: Iterable[Step]) -> dict[_Device, Step]:
    """The newest step that set a device, by what a rule for it has of it."""
    return {
        _device(step.change.after): step
        for step in steps
        if step.change.path.startswith(_DEVICES) and isinstance(step.change.after, dict)
    }


def _device(device: Spec) -> _Device:
    # Whatever these are in a hostile recording.
    return repr(device.get("type")), repr(device.get("major")), repr(device.get("minor"))


def _carry_over(known: Spec, shown: Spec, path: tuple[str, ...]) -> None:
    """Keep what is known at `path` where nothing at all is shown there."""
    old: oci.Json = known
    for key in path:
        if not isinstance(old, dict) or key not in old:
            return
        old = old[key]
    new: Spec = shown
    for key in path[:-1]:
        below = new.get(key)
        if below is not None and not isinstance(below, dict):
            return
        new[key] = new = dict(below or {})
    new.setdefault(path[-1], old)
