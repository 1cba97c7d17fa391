# SPDX-License-Identifier: Apache-2.0
"""What later events show of a container that nothing seen before explains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from nri_scope import oci
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.oci import Change, Spec

from .hidden import IN_VAIN, is_back, is_hidden
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
NOT_SEEN = "not seen being asked for: out of turn, or beside another event"
NOT_SHOWN = "no connection of a chain is shown it before"

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
    for change in found:
        by, why = _for_device(history, change) or _by(tail, change, now, found)
        if not why and is_back(change, history.base, history.steps):
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


def _for_device(history: History, change: Change) -> tuple[Owner, str] | None:
    """Who had a device added for which the runtime then adds a rule to the cgroup's list.

    Every runtime does, by upstream's generator: the rule follows from the device.
    """
    rule = change.after
    if not change.path.startswith(_RULES) or change.kind != "added" or not isinstance(rule, dict):
        return None
    for step in reversed(history.steps):
        device = step.change.after
        if (
            step.change.path.startswith(_DEVICES)
            and isinstance(device, dict)
            and all(device.get(name) == rule.get(name) for name in ("type", "major", "minor"))
        ):
            return step.owner, f"the runtime's rule for the device {device.get('path')}"
    return None


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
