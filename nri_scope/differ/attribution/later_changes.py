# SPDX-License-Identifier: Apache-2.0
"""Find changes that a later event of a container shows and no earlier evidence explains."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TypeAlias

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event
from nri_scope.nri.events import POST_CREATE
from nri_scope.specs import ABSENT, Absent, Change, Json, Spec
from nri_scope.specs.json_spec import key_of, member_of

from .attributed_changes import (
    REQUESTED,
    ChangeStep,
    Evidence,
    Outcome,
    OutcomeKind,
    Shows,
)
from .chain import changes_of_chain
from .findings import CACHED_LENGTH, Shown
from .hidden_changes import is_hidden, newest_steps
from .history import REPEATED, UNSURE_ANNOTATIONS, History
from .owner import RUNTIME, UNKNOWN, Owner, OwnerKind

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
NOT_SEEN = "no recorded message asked for it"
NOT_SHOWN = "changes by plugins here are not shown to any connection of the chain"
NAMESAKES = "members with the same key, which cannot be told apart"
MERGED = "when plugins change variables, the runtime keeps only the last value of each name"

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
UPDATES_TOLD = (
    "/linux/resources/cpu/",
    "/linux/resources/memory/limit",
    "/linux/resources/memory/swap",
    "/linux/resources/unified/",
)
"""Updatable paths that CRI-O's later events show. Only cgroup v2 has unified settings."""
_Device: TypeAlias = tuple[str, str, str]
_Devices: TypeAlias = "dict[_Device, list[tuple[Owner, str]]]"
_RULES, _DEVICES = "/linux/resources/devices/", "/linux/devices/"
FOLLOWS_LIMIT = "the swap limit follows the memory limit, on nodes that can limit swap"
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


@dataclass(slots=True)
class Drift:
    """What an event shows about the known state of a container."""

    steps: list[ChangeStep] = field(default_factory=list)
    """Changes that no earlier request explains."""
    spec: Spec = field(default_factory=dict)
    """The state after the event."""
    settled: list[ChangeStep] = field(default_factory=list)
    """Earlier requests whose outcome the event shows."""


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
    """Return what `event` shows about a container: outcomes of requests, and further changes.

    `tail`: the plugins after the last connection that saw the previous event, which may have
    changed the container; None if no such event is open. `described`: the message of which the
    known state is the conversion, see `oci.without_state`; b"" if it has other changes.
    """
    if described and len(described) + len(shown_now.described) <= CACHED_LENGTH:
        shown, left_out, found = _differences(described, shown_now.described, rules.reported_paths)
    else:
        spec = oci.spec_of(shown_now.container, known=shown_now.described)
        spec = history.applied_part(spec)
        spec = _reported(spec, history.spec, rules.reported_paths)
        shown, left_out = _with_left_out(spec, history.spec)
        found = changes_of_chain(history.spec, shown)
    if not (found or history.open):
        return Drift(spec=_in_order(shown, history.spec))
    newest = newest_steps(one for one in history.steps if one.has_effect)
    hidden = [one for one in found if _is_not_told(one, history, newest, rules)]
    if hidden:
        is_unsure = any(_is_repeated(one, rules) for one in hidden)
        if is_unsure and history.base_owner.who is not OwnerKind.SPEC:
            history.add_remark(UNSURE_ANNOTATIONS)
        shown = dict(specs.apply(shown, [specs.inverse(one) for one in reversed(hidden)]))
        found = changes_of_chain(history.spec, shown)
    shown = _in_order(shown, history.spec)
    drifted = Drift(spec=shown)
    not_told = {*left_out, *(one.path for one in hidden)}
    not_told |= {path for path in history.open if not path.startswith(rules.reported_paths)}
    confused = _confused((change, member_of(change.path)) for change in found)
    rest = _settled(history, shown, found, event, not_told, confused, rules, drifted)
    has_rules = any(change.path.startswith(_RULES) for change in rest)
    devices = _devices(history) if has_rules else {}
    may_be_of_cdi = _may_come_with(
        str(step.change.after["name"])
        for step in history.steps
        if step.change.path.startswith("/cdiDevices/")
        and step.has_effect
        and isinstance(step.change.after, dict)
        and "name" in step.change.after
    )
    for change in rest:
        member = member_of(change.path)
        by, why = ANY_OWNER, ""
        if _is_merged(member, history.base, shown, rules):
            by, why = RUNTIME, MERGED
        else:
            ruled = _for_device(devices, change) if change.path.startswith(_RULES) else None
            by, why = ruled or _by(tail, change, shown, found, event)
            is_of_cdi = change.kind == "added" and change.path.startswith(_OF_CDI)
            if not why and tail is not None and is_of_cdi:
                why = may_be_of_cdi
            if change.path.startswith("/annotations/"):
                # A plugin before the first connection may have changed what this event repeats.
                by = replace(by, ties=tuple(dict.fromkeys((*history.base_owner.ties, *by.ties))))
            if ruled is None and member in confused:
                by, why = UNKNOWN, NAMESAKES
        seen = Outcome.by(OutcomeKind.SEEN, event, Shows.EVENT)
        if _is_repeated(change, rules) and history.base_owner.who is not OwnerKind.SPEC:
            seen = REQUESTED._replace(reason=REPEATED)
        drifted.steps.append(
            ChangeStep(
                history.id, change, by, _EVENTS, event.id, event.at_ns, outcome=seen, note=why
            )
        )
    return drifted


def _settled(
    history: History,
    shown: Spec,
    found: Sequence[Change],
    event: Event,
    not_told: Collection[str],
    confused: Collection[str],
    rules: oci.RuntimeRules,
    drifted: Drift,
) -> list[Change]:
    """Settle open requests by the state that an event shows; return the other differences."""
    different = {change.path for change in found}
    moved = {change.path for change in found if change.kind == "moved"}
    explained: set[str] = set()
    merged: list[Change] = []
    for path in list(history.open):
        if specs.is_within(path, not_told):
            continue
        if "#" in path and _is_merged(path, history.base, shown, rules):
            # The runtime keeps the last value; that a plugin removed it had no effect.
            for one in history.open.pop(path):
                one.drop(Outcome.by(OutcomeKind.DROPPED, event, Shows.EVENT, MERGED))
                merged.append(one.change)
            continue
        if member_of(path) in confused:
            for one in history.open.pop(path):
                one.outcome = one.outcome._replace(reason=NAMESAKES)
            continue
        now = specs.value_at(shown, path) if path in different else None
        requests = history.open_at(path, now, event)
        for one in requests:
            if one.change.kind == "moved" and path not in moved:
                one.outcome = Outcome.by(OutcomeKind.SEEN, event, Shows.EVENT)
        some = [one for one in requests if one.change.kind != "moved"]
        expected = [one for one in some if one.is_expected]
        if path in different:
            if settle(some, now, event, Shows.EVENT, history.running):
                explained.add(path)
        else:
            known = specs.value_at(shown, path)
            if expected and _contains(known, after := expected[-1].after):
                known = after
            told = some if expected else [one for one in some if _is_told(one, history, rules)]
            settle(told, known, event, Shows.EVENT, history.running, is_known=True)
    for one in history.renew_open():
        # The removal that a merged adjustment contains is known by its effect only.
        (drifted.steps if one.event == event.id else drifted.settled).append(one)
    return [*merged, *(change for change in found if change.path not in explained)]


def settle(
    requests: Sequence[ChangeStep],
    now: Json | Absent,
    event: Event,
    shown_by: Shows,
    running: Collection[int] = (),
    *,
    is_known: bool = False,
) -> bool:
    """Settle the open requests for one path, in order, by the value that is there now.

    ``running``: identities of requests that may be applied later; ``is_known``: whether the known
    state has the value. Return whether the requests explain the value: one of them asked for it, or
    it is the value before them.
    """
    by = partial(Outcome.by, event=event, shown_by=shown_by)
    happened = OutcomeKind.SEEN if shown_by is Shows.EVENT else OutcomeKind.IN_EFFECT
    expected = [one for one in requests if one.is_expected]
    reached = next((one for one in reversed(requests) if one.asks_for(now)), None)
    if expected and expected[-1].asks_for(now):
        # The request of an operation that may have failed only repeats it.
        reached = expected[-1]
    first = [*expected, *(requests if is_known else ())][:1]
    is_before = reached is None and any(one.was(now) for one in first)
    after_it = is_before
    is_absent = isinstance(now, Absent)
    for one in requests:
        if one is reached:
            one.outcome, one.is_expected = by(happened), True
            after_it = True
        elif one.outcome.kind is OutcomeKind.SUPERSEDED:
            one.is_expected = one.is_expected and not is_before
        elif id(one) in running:
            # The known state does not have its value yet.
            one.is_expected = False
        elif reached is not None and after_it and one.asks_for(now):
            one.is_expected = False
        elif after_it:
            words = NO_VALUE if is_absent else EARLIER
            if one.outcome.reason.endswith(oci.VOIDED):
                words = f"{words}: {one.outcome.reason}"
            one.drop(by(OutcomeKind.DROPPED, reason=words))
        elif one.is_expected:
            actual = None if isinstance(now, Absent) else now
            words = NO_VALUE if is_absent else ANOTHER
            if reached is not None:
                words = f"by {reached.owner}"
            one.outcome = by(OutcomeKind.SUPERSEDED, reason=words)._replace(actual=actual)
    return reached is not None or is_before


def _is_told(one: ChangeStep, history: History, rules: oci.RuntimeRules) -> bool:
    """Return whether this runtime's events would show that a request had effect."""
    is_update = one.event > history.created_until
    is_known = rules.other_updates is not oci.UpdatePath.UNKNOWN and rules.reports_all_updates
    return not is_update or is_known or one.change.path.startswith(UPDATES_TOLD)


EARLIER = "the earlier value is there"
ANOTHER = "another value is there"
NO_VALUE = "no value is there"


def _contains(value: Json | Absent, part: Json | Absent) -> bool:
    if not isinstance(value, dict) or not isinstance(part, dict):
        return False
    return all(name in value and specs.same(value[name], each) for name, each in part.items())


@lru_cache(maxsize=64)
def _differences(
    before: bytes, after: bytes, reported: tuple[str, ...]
) -> tuple[Spec, Sequence[str], tuple[Change, ...]]:
    """Return the state that a message shows, the paths that it leaves out, and its differences from
    the state of another message.
    """
    known, shown = (
        oci.spec_of(api.Container.FromString(each), known=each) for each in (before, after)
    )
    shown, left_out = _with_left_out(_reported(shown, known, reported), known)
    return shown, left_out, changes_of_chain(known, shown)


def _reported(shown: Spec, known: Spec, reported: tuple[str, ...]) -> Spec:
    """Return `known` with those differences of `shown` that this runtime's events can tell."""
    if reported == ("/",):
        return shown
    told = [
        one
        for one in specs.changes(known, shown)
        if one.path.startswith(reported)
        # The runtime fills in what a requested device leaves open.
        and not (one.kind == "added" and one.path.endswith(("/fileMode", "/uid", "/gid")))
    ]
    return specs.apply(known, told)


def _in_order(shown: Spec, known: Spec) -> Spec:
    """Return `shown` with its mounts in the order of `changes_of_chain`, if they changed."""
    return shown if shown.get("mounts") == known.get("mounts") else oci.sort_mounts(shown)


def _is_not_told(
    change: Change,
    history: History,
    newest: Mapping[str, ChangeStep],
    rules: oci.RuntimeRules,
) -> bool:
    """Return whether this runtime's events show another value here than the container's."""
    path = change.path
    if _is_repeated(change, rules):
        first = specs.value_at(history.base, path)
        if change.kind == "changed" and history.base_owner.who is not OwnerKind.SPEC:
            # Plugins before the first connection may have changed what the CRI requested.
            return True
        return first is not ABSENT and specs.same(first, change.after)
    if rules.reports_all_updates or path.startswith(UPDATES_TOLD):
        return False
    step = newest.get(path)
    if step is None or step.event <= history.created_until:
        return False
    return step.was(ABSENT if change.kind == "removed" else change.after)


def _is_repeated(change: Change, rules: oci.RuntimeRules) -> bool:
    """Return whether an event may show what the CRI requested, not what the container has."""
    is_annotation = change.path.startswith("/annotations/") and change.kind != "removed"
    return is_annotation and rules.repeats_requested_annotations


def _may_come_with(devices: Iterable[str]) -> str:
    """Return a note on CDI devices that may contain a value; "" without devices."""
    names = [*dict.fromkeys(devices)]
    if not names:
        return ""
    more = len(names) - _NAMED_MAX
    others = f" or {more:,} others" if more > 0 else ""
    return f"may be part of the CDI device {', '.join(names[:_NAMED_MAX])}{others}"


def _by(
    tail: Owner | None, change: Change, now: Spec, beside: Iterable[Change], event: Event
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
    if event.event == POST_CREATE:
        # Until then, runtimes drop updates of the container, as it does not exist.
        return tail, ""
    # Between two events of one container, plugins can request updates in replies to other events
    # and to Synchronize, which other connections do not see.
    return (ANY_OWNER, NOT_SEEN) if change.path.startswith(UPDATABLE) else (tail, "")


def _confused(found: Iterable[tuple[Change, str]]) -> set[str]:
    """Return the members that changed together with another member with the same key.

    ``found``: changes, each with its `member_of`.

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


def _is_merged(member: str, base: Spec, shown: Spec, rules: oci.RuntimeRules) -> bool:
    """Return whether the runtime has merged the variables of this name, e.g. CRI-O's PATH and that
    of the image. Any adjustment of variables causes that, and the last of the runtime's own wins.
    """
    if not rules.adjusts_as_upstream or not member.startswith("/process/env/"):
        return False
    before, after = (specs.values_of_key(spec, key_of(member)) for spec in (base, shown))
    return len(before) > 1 and after == before[-1:]


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
        if not step.has_effect:
            continue
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


def _with_left_out(shown: Spec, known: Spec) -> tuple[Spec, Sequence[str]]:
    """Return `shown` with the known values that runtimes may leave out, and their paths."""
    spec = shown
    left_out: list[str] = []
    for above, names in _MAY_BE_LEFT_OUT:
        old = _object_at(known, above)
        if not old:
            continue
        new = _object_at(spec, above)
        missing = [name for name in names if name in old and (new is None or name not in new)]
        if missing:
            spec = dict(shown) if spec is shown else spec
            _set_missing(spec, above, {name: old[name] for name in missing})
            left_out += ("/".join(("", *above, name)) for name in missing)
    return spec, left_out


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
