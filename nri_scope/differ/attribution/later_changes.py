# SPDX-License-Identifier: Apache-2.0
"""Find changes that a later event of a container shows and no earlier evidence explains."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from nri_scope import oci, specs
from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import Event
from nri_scope.nri.events import POST_CREATE
from nri_scope.specs import ABSENT, Absent, Change, Json, Spec
from nri_scope.specs.json_spec import key_of, member_of

from .attributed_changes import REQUESTED, ChangeStep, Evidence, OutcomeKind, RequestOutcome, Shows
from .hidden_changes import is_hidden, newest_steps, with_left_out
from .history import REPEATED, UNSURE_ANNOTATIONS, History, ShownChanges, settle
from .observed_round import CACHED_LENGTH, ShownContainer, changes_of_chain
from .owner import RUNTIME, UNKNOWN, Owner, OwnerKind
from .round_results import RequestSource, step

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
REPORTED_UPDATES = (
    "/linux/resources/cpu/",
    "/linux/resources/memory/limit",
    "/linux/resources/memory/swap",
    "/linux/resources/unified/",
)
"""Updatable paths that CRI-O's later events show. Only cgroup v2 has unified settings."""
FOLLOWS_LIMIT = "the swap limit follows the memory limit, on nodes that can limit swap"
_LIMIT, _SWAP = "/linux/resources/memory/limit", "/linux/resources/memory/swap"
UPDATABLE = (
    "/linux/resources/cpu/",
    "/linux/resources/memory/",
    "/linux/resources/hugepageLimits/",
    "/linux/resources/unified/",
)
"""Paths that updates can change. Plugins can request updates in replies, and unsolicited."""


_NAMED_MAX = 8
"""Maximum number of devices in a note."""


def compare_with_event(
    history: History,
    current: ShownContainer,
    tail: Owner | None,
    event: Event,
    rules: oci.RuntimeRules,
    described: bytes = b"",
) -> ShownChanges:
    """Return what `event` shows about a container, and add it to the history.

    `tail`: the plugins after the last connection that saw the previous event, which may have
    changed the container; None if no such event is open. `described`: the message of which the
    known state is the conversion, see `oci.without_state`; b"" if it has other changes.
    """
    if described and len(described) + len(current.described) <= CACHED_LENGTH:
        shown, left_out, changes = _differences(described, current.described, rules.reported_paths)
    else:
        spec = oci.spec_of(current.container, known=current.described)
        spec = history.applied_part(spec)
        spec = _reported(spec, history.spec, rules.reported_paths)
        shown, left_out = with_left_out(spec, history.spec)
        changes = changes_of_chain(history.spec, shown)
    if not (changes or history.open):
        history.spec = _in_order(shown, history.spec)
        return ShownChanges()
    newest = newest_steps(step for step in history.steps if step.has_effect)
    misreported = [each for each in changes if _is_misreported(each, history, newest, rules)]
    if misreported:
        is_unsure = any(_is_repeated(change, rules) for change in misreported)
        if is_unsure and history.base_owner.who is not OwnerKind.SPEC:
            history.add_remark(UNSURE_ANNOTATIONS)
        undone = [specs.inverse(change) for change in reversed(misreported)]
        shown = dict(specs.apply(shown, undone))
        changes = changes_of_chain(history.spec, shown)
    shown = _in_order(shown, history.spec)
    not_shown = {*left_out, *(change.path for change in misreported)}
    not_shown |= {path for path in history.open if not path.startswith(rules.reported_paths)}
    confused = _confused((change, member_of(change.path)) for change in changes)
    comparison = _Comparison(history, shown, changes, confused, event, rules, tail)
    unexplained, removals, settled = comparison.settle_requests(not_shown)
    steps = [*removals, *comparison.steps_of(unexplained)]
    history.add(steps, shown)
    return ShownChanges(tuple(steps), tuple(settled))


@dataclass(slots=True)
class _Comparison:
    """The comparison of a container's known state with the state that an event shows."""

    history: History
    shown: Spec
    changes: Sequence[Change]
    """The differences of both states."""
    confused: Collection[str]
    """Members that changed together with another member with the same key."""
    event: Event
    rules: oci.RuntimeRules
    tail: Owner | None
    """See `compare_with_event`."""

    def settle_requests(
        self, not_shown: Collection[str]
    ) -> tuple[list[Change], list[ChangeStep], list[ChangeStep]]:
        """Settle open requests by the shown state, except at the paths that are `not_shown`.

        Return the unexplained differences, the removals that only their effect shows, and all other
        settled requests.
        """
        history, event = self.history, self.event
        different = {change.path for change in self.changes}
        moved = {change.path for change in self.changes if change.kind == "moved"}
        explained: set[str] = set()
        merged: list[Change] = []
        for path in list(history.open):
            if specs.is_within(path, not_shown):
                continue
            if "#" in path and self._is_merged(path):
                # The runtime keeps the last value; that a plugin removed it had no effect.
                for request in history.open.pop(path):
                    request.drop(RequestOutcome.by(OutcomeKind.DROPPED, event, Shows.EVENT, MERGED))
                    merged.append(request.change)
            elif member_of(path) in self.confused:
                for request in history.open.pop(path):
                    request.settle(request.outcome._replace(reason=NAMESAKES, is_voided=False))
            elif path in different:
                now = specs.value_at(self.shown, path)
                requests = self._requests_for_value(path, now, is_moved=path in moved)
                if settle(requests, now, event, Shows.EVENT, history.running):
                    explained.add(path)
            else:
                self._settle_known(path)
        removals: list[ChangeStep] = []
        settled: list[ChangeStep] = []
        for request in history.renew_open():
            # The removal that a merged adjustment contains is known by its effect only.
            (removals if request.event == event.id else settled).append(request)
        unexplained = (change for change in self.changes if change.path not in explained)
        return [*merged, *unexplained], removals, settled

    def _settle_known(self, path: str) -> None:
        """Settle the requests for a path at which the known state is shown."""
        history = self.history
        requests = self._requests_for_value(path, None, is_moved=False)
        expected = [request for request in requests if request.is_expected]
        value = specs.value_at(self.shown, path)
        if expected and _contains(value, after := expected[-1].after):
            value = after
        if not expected:
            requests = [each for each in requests if _is_reported(each, history, self.rules)]
        settle(requests, value, self.event, Shows.EVENT, history.running, is_known=True)

    def _requests_for_value(
        self, path: str, now: Json | Absent, *, is_moved: bool
    ) -> list[ChangeStep]:
        """Return the open requests for a value at `path`; settle those for a move there."""
        requests = self.history.open_at(path, now, self.event)
        for request in requests:
            if request.change.kind == "moved" and not is_moved:
                request.settle(RequestOutcome.by(OutcomeKind.SEEN, self.event, Shows.EVENT))
        return [request for request in requests if request.change.kind != "moved"]

    def steps_of(self, unexplained: Sequence[Change]) -> list[ChangeStep]:
        """Return the steps for changes that no request explains, with their possible owners."""
        history, event = self.history, self.event
        has_rules = any(change.path.startswith(RULES) for change in unexplained)
        devices = devices_of(history) if has_rules else {}
        cdi_note = _may_come_with(
            str(each.change.after["name"])
            for each in history.steps
            if each.change.path.startswith("/cdiDevices/")
            and each.has_effect
            and isinstance(each.change.after, dict)
            and "name" in each.change.after
        )
        steps: list[ChangeStep] = []
        for change in unexplained:
            owner, note = self._owner_of(change, devices, cdi_note)
            outcome = RequestOutcome.by(OutcomeKind.SEEN, event, Shows.EVENT)
            if _is_repeated(change, self.rules) and history.base_owner.who is not OwnerKind.SPEC:
                outcome = REQUESTED._replace(reason=REPEATED)
            source = RequestSource(owner, Evidence.EVENTS, event)
            steps.append(step(history.id, change, source, note, outcome))
        return steps

    def _owner_of(self, change: Change, devices: DevicesByRule, cdi_note: str) -> tuple[Owner, str]:
        """Return the possible owners of an unexplained change, and a note.

        ``devices``: see `devices_of`; ``cdi_note``: see `_may_come_with`.
        """
        member = member_of(change.path)
        if self._is_merged(member):
            return RUNTIME, MERGED
        of_device = owner_of_rule(devices, change) if change.path.startswith(RULES) else None
        if of_device is None and member in self.confused:
            return UNKNOWN, NAMESAKES
        owner, note = of_device or self._unobserved_owner(change)
        is_of_cdi = change.kind == "added" and change.path.startswith(_OF_CDI)
        if not note and self.tail is not None and is_of_cdi:
            note = cdi_note
        if change.path.startswith("/annotations/"):
            # A plugin before the first connection may have changed what this event repeats.
            ties = dict.fromkeys((*self.history.base_owner.ties, *owner.ties))
            owner = replace(owner, ties=tuple(ties))
        return owner, note

    def _unobserved_owner(self, change: Change) -> tuple[Owner, str]:
        """Return the possible owners of a change that no connection observed, and a note."""
        tail = self.tail
        if tail is None:
            return ANY_OWNER, NOT_SEEN
        if is_hidden(change) and tail.who is not OwnerKind.RUNTIME:
            return ANY_OWNER, NOT_SHOWN
        if change.path == _SWAP and all(other.path != _LIMIT for other in self.changes):
            # The runtime sets the swap limit to the memory limit.
            limit = specs.value_at(self.shown, _LIMIT)
            follows = change.after is not None and limit == change.after
            return (tail, "") if follows else (ANY_OWNER, NOT_SEEN)
        if self.event.event == POST_CREATE:
            # Until then, runtimes drop updates of the container, as it does not exist.
            return tail, ""
        # Between two events of one container, plugins can request updates in replies to other
        # events and to Synchronize, which other connections do not see.
        return (ANY_OWNER, NOT_SEEN) if change.path.startswith(UPDATABLE) else (tail, "")

    def _is_merged(self, member: str) -> bool:
        """Return whether the runtime has merged the variables of this name, e.g. CRI-O's PATH and
        that of the image. Any adjustment of variables causes that, and the last of the runtime's
        own wins.
        """
        if not self.rules.adjusts_as_upstream or not member.startswith("/process/env/"):
            return False
        states = self.history.base, self.shown
        before, after = (specs.values_of_key(spec, key_of(member)) for spec in states)
        return len(before) > 1 and after == before[-1:]


def _is_reported(request: ChangeStep, history: History, rules: oci.RuntimeRules) -> bool:
    """Return whether this runtime's events would show that a request had effect."""
    is_update = request.event > history.created_until
    is_known = rules.other_updates is not oci.UpdatePath.UNKNOWN and rules.reports_all_updates
    return not is_update or is_known or request.change.path.startswith(REPORTED_UPDATES)


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
    shown, left_out = with_left_out(_reported(shown, known, reported), known)
    return shown, left_out, changes_of_chain(known, shown)


def _reported(shown: Spec, known: Spec, reported: tuple[str, ...]) -> Spec:
    """Return `known` with those differences of `shown` that this runtime's events can show."""
    if reported == ("/",):
        return shown
    visible = [
        change
        for change in specs.changes(known, shown)
        if change.path.startswith(reported)
        # The runtime fills in what a requested device leaves open.
        and not (change.kind == "added" and change.path.endswith(("/fileMode", "/uid", "/gid")))
    ]
    return specs.apply(known, visible)


def _in_order(shown: Spec, known: Spec) -> Spec:
    """Return `shown` with its mounts in the order of `changes_of_chain`, if they changed."""
    return shown if shown.get("mounts") == known.get("mounts") else oci.sort_mounts(shown)


def _is_misreported(
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
    if rules.reports_all_updates or path.startswith(REPORTED_UPDATES):
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


def _confused(changes: Iterable[tuple[Change, str]]) -> set[str]:
    """Return the members that changed together with another member with the same key.

    ``changes``: changes, each with its `member_of`.

    Only their order distinguishes such members, and it may also have changed.
    """
    together: dict[str, list[tuple[Change, str]]] = {}
    for change, member in changes:
        if member:
            together.setdefault(key_of(member), []).append((change, member))
    confused: set[str] = set()
    for group in together.values():
        members = {member for _, member in group}
        kinds = {change.kind if change.path in members else "changed" for change, _ in group}
        # Additions alone, or removals alone, do not change the other members.
        if len(members) > 1 and kinds not in ({"added"}, {"removed"}):
            confused |= members
    return confused


_Device: TypeAlias = tuple[str, str, str]
DevicesByRule: TypeAlias = "dict[_Device, list[tuple[Owner, str]]]"
"""Owners and paths of devices, in order, by the fields that identify their rule."""
RULES = "/linux/resources/devices/"
"""Beginning of the paths of these rules."""
_DEVICES = "/linux/devices/"


def owner_of_rule(devices: DevicesByRule, change: Change) -> tuple[Owner, str] | None:
    """Return the owner of the device whose cgroup rule the runtime added, and a note.

    All runtimes add one rule per device, in the order of the devices (upstream's generator).
    """
    rule = change.after
    if change.kind != "added" or not isinstance(rule, dict):
        return None
    alike = devices.get(_device(rule))
    if not alike:
        return None
    owner, path = alike.pop(0)
    return owner, f"the runtime's rule for the device {path}"


def devices_of(history: History) -> DevicesByRule:
    """Return the devices set by steps, in order, keyed by the fields that identify their rule."""
    newest: dict[str, Owner] = {}
    for request in history.steps:
        if not request.has_effect:
            continue
        if request.change.path.startswith(_DEVICES) and request.change.kind in ("added", "changed"):
            # The steps of a replaced device may be at its fields.
            place = "/".join(request.change.path.split("/")[:4])
            newest.pop(place, None)
            newest[place] = request.owner
    linux = history.spec.get("linux")
    members = linux.get("devices") if isinstance(linux, dict) else None
    # An index: a lookup by path would search all devices each time.
    by_path = {
        specs.pointer("/linux/devices", str(device.get("path"))): device
        for device in (members if isinstance(members, list) else ())
        if isinstance(device, dict)
    }
    devices: DevicesByRule = {}
    for place, owner in newest.items():
        device = by_path.get(place)
        if device is not None:
            devices.setdefault(_device(device), []).append((owner, str(device.get("path"))))
    return devices


def _device(device: Spec) -> _Device:
    # A hostile recording may contain values of any type.
    return repr(device.get("type")), repr(device.get("major")), repr(device.get("minor"))
