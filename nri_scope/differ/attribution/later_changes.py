# SPDX-License-Identifier: Apache-2.0
"""Find changes that a later event of a container shows and no earlier evidence explains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from google.protobuf.message import Message

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event
from nri_scope.nri.merging import NOT_PASSED_ON
from nri_scope.nri.methods import METHODS
from nri_scope.nri.request_subject import container_of
from nri_scope.specs import ABSENT, Change, Spec
from nri_scope.specs.lists import KEYED, key_of

from .attributed_changes import ChangeStep, Evidence, PluginRequest, RequestFate
from .creation import changes_of_chain, not_passed_on
from .findings import CACHED_LENGTH, decoded, request_of
from .hidden_changes import is_back, is_hidden, newest_steps
from .history import History
from .owner import RUNTIME, UNKNOWN, Owner, OwnerKind
from .rounds import ConnectionPart

_MAY_BE_LEFT_OUT: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    ((), ("hooks", "cdiDevices")),
    (("process",), ("rlimits", "ioPriority", "scheduler")),
    (("linux",), ("intelRdt", "memoryPolicy", "netDevices", "seccomp", "sysctl")),
    (("linux", "resources"), ("blockIO", "pids", "devices", "hugepageLimits", "unified")),
    ((), ("nri",)),
)
"""Fields, after the object that contains them, that some runtimes omit from events of an existing
container, or from CreateContainer. Their absence is no evidence (containerd before 2.3 omits
rlimits, every runtime CDI devices)."""
_LEFT_OUT_PATHS = tuple((*above, name) for above, names in _MAY_BE_LEFT_OUT for name in names)

ANY_OWNER = Owner(OwnerKind.ONE_OF, first="00", last="99", or_runtime=True)
NOT_SEEN = "no request for it was seen: unsolicited, or in a reply to another event"
NOT_SHOWN = "changes by plugins here are not shown to any connection of the chain"
NAMESAKES = "members with the same key, which cannot be told apart"
MERGED = "when plugins change variables, the runtime keeps only the last value of each name"

_REMOVALS_NOT_PASSED_ON = ("/process/env/", "/linux/devices/")
"""Paths at which NRI drops the removal of the runtime's own value."""
_OF_CDI = (
    "/process/env/",
    "/linux/devices/",
    "/linux/resources/devices/",
    "/linux/netDevices/",
    "/linux/intelRdt",
    "/mounts/",
    "/hooks/",
)
"""Paths that a CDI device can change (CDI's containerEdits)."""
_UPDATES_TOLD = (
    "/linux/resources/cpu/",
    "/linux/resources/memory/limit",
    "/linux/resources/memory/swap",
    "/linux/resources/unified/",
)
"""Updatable paths that CRI-O's later events show. Only cgroup v2 has unified settings."""
_Device: TypeAlias = tuple[str, str, str]
_Devices: TypeAlias = "dict[_Device, list[tuple[Owner, str]]]"
_RULES, _DEVICES = "/linux/resources/devices/", "/linux/devices/"
_LIMIT, _SWAP = "/linux/resources/memory/limit", "/linux/resources/memory/swap"
UPDATABLE = (
    "/linux/resources/cpu/",
    "/linux/resources/memory/",
    "/linux/resources/hugepageLimits/",
    "/linux/resources/unified/",
)
"""Paths that updates can change. Plugins can request updates in replies, and unsolicited."""


def may_be_left_out(path: str) -> bool:
    """Return whether some runtime omits `path` from events, even if it has a value."""
    parts = path.split("/")[1:]
    return any(tuple(parts[: len(left_out)]) == left_out for left_out in _LEFT_OUT_PATHS)


def is_not_passed_on(change: Change) -> bool:
    """Return whether NRI drops this change, if it is the removal of the runtime's own value."""
    return change.kind == "removed" and change.path.startswith(_REMOVALS_NOT_PASSED_ON)


class Shown(NamedTuple):
    """A container in an event."""

    id: str
    container: api.Container
    described: bytes
    """The container without its state, serialized."""
    is_told: bool
    """Whether the message describes the container, and has not only its id."""
    never_ran: bool
    """Whether the container has no state and never had a process. containerd sends this while it
    undoes a creation; some runtimes send it for all containers."""

    @classmethod
    def of(cls, container: api.Container) -> Shown:
        """Return the container in a message."""
        is_told = bool(
            container.args or container.env or container.mounts or container.HasField("linux")
        )
        has_state = container.state != api.ContainerState.CONTAINER_UNKNOWN
        times = container.pid or container.created_at or container.started_at
        described = oci.without_state(container)
        return cls(container.id, container, described, is_told, not (has_state or times))


def shown_by(station: ConnectionPart) -> Shown | None:
    """Return the container in a station's request; None if it has none."""
    if not station.event.mark and len(station.request) <= CACHED_LENGTH:
        # Many rounds have the same request.
        return _shown_by(station.event.method, station.request)
    return _shown_in(station.event.method, request_of(station))


@lru_cache(maxsize=64)
def _shown_by(method: str, content: bytes) -> Shown | None:
    known = METHODS.get(method)
    return None if known is None else _shown_in(method, decoded(known.request, content))


def _shown_in(method: str, request: Message | None) -> Shown | None:
    container = None if request is None else container_of(method, request)
    return None if container is None else Shown.of(container)


@dataclass(slots=True)
class Drift:
    """The differences between the known state of a container and its state in an event."""

    steps: list[ChangeStep] = field(default_factory=list)
    spec: Spec = field(default_factory=dict)
    """The state after the event."""
    asked: list[PluginRequest] = field(default_factory=list)
    """Requests that this event shows as not applied."""
    applied: list[PluginRequest] = field(default_factory=list)
    """Earlier requests without a known effect, which this event shows as applied."""


_EVENTS: tuple[Evidence, ...] = (Evidence.EVENTS,)
_NAMED_MAX = 8
"""Maximum number of devices in a note."""


def drift(
    history: History,
    shown_now: Shown,
    tail: Owner | None,
    event: Event,
    rules: oci.RuntimeRules,
    described: bytes = b"",
) -> Drift:
    """Return the differences between the known state of a container and its state in `event`.

    `tail`: the plugins after the last connection that saw the previous event, which may have
    changed the container; None if no such event is open. `described`: the message of which the
    known state is the conversion, see `oci.without_state`; b"" if it has other changes.
    """
    if described and len(described) + len(shown_now.described) <= CACHED_LENGTH:
        shown, found = _differences(described, shown_now.described)
    else:
        spec = oci.spec_of(shown_now.container, known=shown_now.described)
        shown = _with_left_out(spec, history.spec)
        found = changes_of_chain(history.spec, shown)
    if not found:
        return Drift(spec=_in_order(shown, history.spec))
    newest = newest_steps(history.steps)
    repeated = [one for one in found if _is_repeated(one, history, newest, rules)]
    if repeated:
        shown = dict(specs.apply(shown, [inverse(one) for one in reversed(repeated)]))
        found = changes_of_chain(history.spec, shown)
    shown = _in_order(shown, history.spec)
    drifted = Drift(spec=shown)
    members = [_member(change.path) for change in found]
    confused = _confused(zip(found, members, strict=True))
    has_rules = any(change.path.startswith(_RULES) for change in found)
    devices = _devices(history) if has_rules else {}
    # Grouped by path: there may be as many requests as changes.
    open_requests: dict[str, list[PluginRequest]] = {}
    resolved_devices: list[str] = []
    for one in history.asked:
        if one.fate is not RequestFate.RESOLVED:
            open_requests.setdefault(one.path, []).append(one)
        elif one.path.startswith("/cdiDevices/"):
            resolved_devices.append(str(one.value))
    may_be_of_cdi = _may_come_with(resolved_devices)
    for change, member in zip(found, members, strict=True):
        by, why, evidence = ANY_OWNER, "", _EVENTS
        asked = _asked_for(change, open_requests.get(change.path, ()))
        removal = is_back(change, history.base, newest)
        if asked is not None:
            drifted.applied.append(asked)
            why = f"requested in event {asked.event}; this event shows that it was applied"
            by, evidence = asked.owner, (asked.evidence, Evidence.EVENTS)
        elif removal is not None and is_not_passed_on(removal.change):
            drifted.asked.append(not_passed_on(removal, event))
            by, why = RUNTIME, NOT_PASSED_ON
        elif tail is not None and _is_merged(member, history.spec, shown, rules):
            by, why = RUNTIME, MERGED
        else:
            ruled = _for_device(devices, change) if change.path.startswith(_RULES) else None
            by, why = ruled or _by(tail, change, shown, found)
            if not why and tail is not None and _is_of_cdi(change):
                why = may_be_of_cdi
            if ruled is None and member in confused:
                by, why = UNKNOWN, NAMESAKES
        drifted.steps.append(
            ChangeStep(history.id, change, by, evidence, event.id, event.at_ns, note=why)
        )
    return drifted


@lru_cache(maxsize=64)
def _differences(before: bytes, after: bytes) -> tuple[Spec, tuple[Change, ...]]:
    """Return the state that a message shows, and its differences from that of another message."""
    known, shown = (
        oci.spec_of(api.Container.FromString(each), known=each) for each in (before, after)
    )
    shown = _with_left_out(shown, known)
    return shown, changes_of_chain(known, shown)


def _in_order(shown: Spec, known: Spec) -> Spec:
    """Return `shown` with its mounts in the order of `changes_of_chain`, if they changed."""
    return shown if shown.get("mounts") == known.get("mounts") else oci.sort_mounts(shown)


def _is_repeated(
    change: Change,
    history: History,
    newest: Mapping[str, ChangeStep],
    rules: oci.RuntimeRules,
) -> bool:
    """Return whether this runtime's events keep an earlier value after a change."""
    path = change.path
    if path.startswith("/annotations/") and rules.repeats_requested_annotations:
        first = specs.value_at(history.base, path)
        return first is not ABSENT and specs.same(first, change.after)
    if rules.reports_all_updates or path.startswith(_UPDATES_TOLD):
        return False
    step = newest.get(path)
    if step is None or step.event <= history.created_until:
        return False
    return step.change.before == change.after and step.change.after == change.before


def inverse(change: Change) -> Change:
    """Return the change back."""
    kinds: dict[specs.ChangeKind, specs.ChangeKind] = {"added": "removed", "removed": "added"}
    return Change(
        change.path, change.after, change.before, kinds.get(change.kind, change.kind), None
    )


def _asked_for(change: Change, asked: Iterable[PluginRequest]) -> PluginRequest | None:
    """Return the newest of the requests at the change's path that asks for exactly this change."""
    found: PluginRequest | None = None
    for one in asked:
        if change.kind == "removed":
            is_it = one.value == f"-{specs.split(change.path)[-1]}"
        else:
            is_it = one.value is not None and specs.same(one.value, change.after)
        if is_it:
            found = one
    return found


def _may_come_with(devices: Iterable[str]) -> str:
    """Return a note on CDI devices that may contain a value; "" without devices."""
    names = [*dict.fromkeys(devices)]
    if not names:
        return ""
    more = len(names) - _NAMED_MAX
    others = f" or {more:,} others" if more > 0 else ""
    return f"may be part of the CDI device {', '.join(names[:_NAMED_MAX])}{others}"


def _is_of_cdi(change: Change) -> bool:
    return change.kind == "added" and change.path.startswith(_OF_CDI)


def _by(
    tail: Owner | None, change: Change, now: Spec, beside: Iterable[Change]
) -> tuple[Owner, str]:
    """Return the possible owners of a change that no connection observed, and a note."""
    if tail is None:
        return ANY_OWNER, NOT_SEEN
    if is_hidden(change) and tail.who is not OwnerKind.RUNTIME:
        return ANY_OWNER, NOT_SHOWN
    if change.path == _SWAP and all(other.path != _LIMIT for other in beside):
        # The runtime sets the swap limit to the memory limit.
        follows = change.after is not None and specs.value_at(now, _LIMIT) == change.after
        return (tail, "") if follows else (ANY_OWNER, NOT_SEEN)
    # Between two events of one container, plugins can request updates in replies to other events
    # and to Synchronize, which other connections do not see.
    return (ANY_OWNER, NOT_SEEN) if change.path.startswith(UPDATABLE) else (tail, "")


def _confused(found: Iterable[tuple[Change, str]]) -> set[str]:
    """Return the members that changed together with another member with the same key.

    ``found``: changes, each with its `_member`.

    Only their order distinguishes such members, and it may also have changed.
    """
    together: dict[str, list[tuple[Change, str]]] = {}
    for change, member in found:
        if member:
            together.setdefault(key_of(member), []).append((change, member))
    confused: set[str] = set()
    for some in together.values():
        members = {member for _, member in some}
        kinds = {one.kind if one.path in members else "changed" for one, _ in some}
        # Additions alone, or removals alone, do not change the other members.
        if len(members) > 1 and kinds not in ({"added"}, {"removed"}):
            confused |= members
    return confused


def _is_merged(member: str, known: Spec, shown: Spec, rules: oci.RuntimeRules) -> bool:
    """Return whether the runtime has merged the variables of this name, e.g. CRI-O's PATH and that
    of the image. Any adjustment of variables causes that; none of this name would have an effect.
    """
    if not rules.adjusts_as_upstream or not member.startswith("/process/env/"):
        return False
    before, after = (specs.values_of_key(spec, key_of(member)) for spec in (known, shown))
    return len(before) > 1 and after == before[-1:]


def _member(path: str) -> str:
    """Return the path of the array's member that contains `path`; "" for none."""
    end = path.find("/", 1)
    while end > 0:
        following = path.find("/", end + 1)
        if path[:end] in KEYED:
            return path if following < 0 else path[:following]
        end = following
    return ""


def _for_device(devices: _Devices, change: Change) -> tuple[Owner, str] | None:
    """Return the owner of the device whose cgroup rule the runtime added, and a note.

    All runtimes add one rule per device, in the order of the devices (upstream's generator).
    """
    rule = change.after
    if change.kind != "added" or not isinstance(rule, dict):
        return None
    mine = devices.get(_device(rule))
    if not mine:
        return None
    owner, path = mine.pop(0)
    return owner, f"the runtime's rule for the device {path}"


def _devices(history: History) -> _Devices:
    """Return the devices set by steps, in order, keyed by the fields that identify their rule."""
    newest: dict[str, Owner] = {}
    for step in history.steps:
        if step.change.path.startswith(_DEVICES) and step.change.kind in ("added", "changed"):
            # The steps of a replaced device may be at its fields.
            place = "/".join(step.change.path.split("/")[:4])
            newest.pop(place, None)
            newest[place] = step.owner
    linux = history.spec.get("linux")
    members = linux.get("devices") if isinstance(linux, dict) else None
    # An index: a lookup by path would search all devices each time.
    there = {
        specs.pointer("/linux/devices", str(device.get("path"))): device
        for device in (members if isinstance(members, list) else ())
        if isinstance(device, dict)
    }
    found: _Devices = {}
    for place, owner in newest.items():
        device = there.get(place)
        if device is not None:
            found.setdefault(_device(device), []).append((owner, str(device.get("path"))))
    return found


def _device(device: Spec) -> _Device:
    # A hostile recording may contain values of any type.
    return repr(device.get("type")), repr(device.get("major")), repr(device.get("minor"))


def _with_left_out(shown: Spec, known: Spec) -> Spec:
    """Return `shown` with the known values that runtimes may leave out."""
    spec = shown
    for above, names in _MAY_BE_LEFT_OUT:
        old = _object_at(known, above)
        if not old:
            continue
        new = _object_at(spec, above)
        missing = [name for name in names if name in old and (new is None or name not in new)]
        if missing:
            spec = dict(shown) if spec is shown else spec
            _set_missing(spec, above, {name: old[name] for name in missing})
    return spec


def _object_at(spec: Spec, path: tuple[str, ...]) -> Spec | None:
    for key in path:
        below = spec.get(key)
        if not isinstance(below, dict):
            return None
        spec = below
    return spec


def _set_missing(spec: Spec, path: tuple[str, ...], values: Spec) -> None:
    """Add `values` to the object at `path` in a copy of a spec, unless it is no object."""
    for key in path:
        below = spec.get(key)
        if below is not None and not isinstance(below, dict):
            return
        spec[key] = spec = dict(below or {})
    spec.update(values)
