# SPDX-License-Identifier: Apache-2.0
"""Settle requests by the OCI spec that the runtime reports as actually used.

That spec contains the whole input of the OCI runtime (``ociVersion``, ``root``, capabilities, …),
most of which NRI never shows. It contains neither ``/cdiDevices`` nor ``/nri``, which are paths of
nri-scope. It also contains updates: in containerd all fields that the CRI supports
(updateOCIResource), in CRI-O processor settings and memory limits, and in newer versions unified
settings on cgroup v2 (UpdateContainerLinuxResources, read at 1.37). Other updates are applied to
the container, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from nri_scope.events import Event
from nri_scope.oci.container import UNRESOLVED_CLASS
from nri_scope.specs import (
    ABSENT,
    Absent,
    Change,
    ChangeKind,
    Json,
    Spec,
    agrees,
    apply,
    changes,
    inverse,
    labels_at,
    same,
    split,
    value_at,
    values_of_key,
)
from nri_scope.specs.json_spec import key_of, member_of

from .attributed_changes import (
    ChangeStep,
    Evidence,
    Outcome,
    OutcomeKind,
    Shows,
    is_same_limit,
)
from .findings import standing
from .history import History
from .later_changes import (
    ANOTHER,
    ANY_OWNER,
    EARLIER,
    FOLLOWS_LIMIT,
    NAMESAKES,
    NO_VALUE,
    UPDATABLE,
    UPDATES_TOLD,
    settle,
)
from .owner import UNKNOWN

ONLY_RECORDED = "the runtime's own spec has it, and the container's cgroup the value before"
OTHER_ORDER = "the order is another one"
CLASS_UNKNOWN = "only the node's configuration defines the class"

_MEMORY = "/linux/resources/memory"
_BLOCK_IO = "/linux/resources/blockIO"
_OWN_PATHS = "/cdiDevices", "/nri"


class _Result(Enum):
    YES = "yes"
    NO = "no"
    DIFFERENTLY = "differently"
    NOT_TOLD = "not told"


class _Finding(NamedTuple):
    result: _Result
    actual: Json = None
    note: str = ""


_YES, _NO, _NOT_TOLD = map(_Finding, (_Result.YES, _Result.NO, _Result.NOT_TOLD))


class Judged(NamedTuple):
    """What an answer shows about a container."""

    settled: list[ChangeStep]
    """Requests whose outcome it shows."""
    steps: list[ChangeStep]
    """Changes that no earlier request explains."""

    def add(self, other: Judged) -> None:
        """Add what another part of the answer shows."""
        known = set(map(id, (*self.settled, *self.steps)))
        self.settled.extend(one for one in other.settled if id(one) not in known)
        self.steps.extend(one for one in other.steps if id(one) not in known)


@dataclass(slots=True)
class _Judging:
    """The judgement of one answer."""

    history: History
    event: Event
    shown_by: Shows
    real: Spec = field(default_factory=dict)
    updates: tuple[str, ...] = ()
    """Beginnings of the paths at which the answer shows updates."""
    found: Judged = field(default_factory=lambda: Judged([], []))

    def is_told(self, one: ChangeStep) -> bool:
        is_creation = one.event <= self.history.created_until
        return is_creation or one.change.path.startswith(self.updates)

    def concluded(self) -> Judged:
        """Add the changes of an answer to the history; return them with all settled requests."""
        history, found = self.history, self.found
        if found.steps:
            history.add(found.steps, apply(history.spec, [one.change for one in found.steps]))
        known = set(map(id, found.settled))
        for one in history.renew_open():
            if id(one) not in known:
                (found.steps if one.event == self.event.id else found.settled).append(one)
        return found

    def settle_newest(self, among: Collection[str] | None = None) -> set[str]:
        """Settle the newest step at each path, or only at `among`; return paths of dropped ones."""
        some = self.history.counted
        if self.shown_by is Shows.CONFIG:
            some = [one for one in some if self.is_told(one)]
        known, lost = self.history.spec, set[str]()
        for number in _newest(some):
            one = some[number]
            path = one.change.path
            if not self.is_told(one) or (among is not None and path not in among):
                continue
            if one.change.kind == "moved":
                finding = _of_move(path, self.real, known)
            else:
                finding = _of_change(one.change, self.real)
            self.settle(one, finding)
            if not one.has_effect and one.change.kind != "moved":
                lost.add(path)
        return lost

    def settle_asked(self) -> None:
        """Settle requests that the expected state lacks, with those for the same path."""
        history = self.history
        for path in list(history.open):
            now = value_at(self.real, path)
            requests = [one for one in history.open_at(path, now, self.event) if self.is_told(one)]
            if all(one.is_expected for one in requests) or _is_own_path(path):
                continue
            known = value_at(history.spec, path)
            if settle(requests, now, self.event, self.shown_by, is_known=same(known, now)):
                before = None if isinstance(known, Absent) else known
                after = None if isinstance(now, Absent) else now
                if not (isinstance(now, Absent) and isinstance(known, Absent)):
                    kind: ChangeKind = "removed" if isinstance(now, Absent) else "added"
                    history.spec = apply(history.spec, [Change(path, before, after, kind)])

    def settle(self, one: ChangeStep, finding: _Finding) -> None:
        """Set the outcome of a request by the value that is there."""
        history, event, shown_by, found = self.history, self.event, self.shown_by, self.found
        change, kind = one.change, one.outcome.kind
        if finding.result is _Result.YES:
            if kind is not OutcomeKind.IN_EFFECT:
                one.outcome = Outcome.by(OutcomeKind.IN_EFFECT, event, shown_by)
                found.settled.append(one)
            return
        if finding.result is _Result.NOT_TOLD:
            if finding.note and kind is OutcomeKind.REQUESTED:
                one.outcome = one.outcome._replace(reason=finding.note)
            return
        is_no = finding.result is _Result.NO
        other = _instead(change, finding)
        if kind is OutcomeKind.REQUESTED:
            result = OutcomeKind.DROPPED if is_no else OutcomeKind.SUPERSEDED
            reason = finding.note or (EARLIER if is_no else ANOTHER)
            outcome = Outcome.by(result, event, shown_by, reason)
            one.drop(outcome._replace(actual=finding.actual))
            found.settled.append(one)
            # The earlier value is gone, too.
            is_fixed = not change.path.startswith(UPDATABLE)
            is_removed = is_fixed and finding.note == NO_VALUE and change.kind == "changed"
            if is_no and not is_removed:
                history.spec = apply(history.spec, [other])
                return
        elif shown_by is Shows.CONFIG or not change.path.startswith(UPDATABLE):
            # An event shows the value, and only updates change it later.
            return
        by = ANY_OWNER if change.path.startswith(UPDATABLE) else history.tail
        by = UNKNOWN if is_no and finding.note == NO_VALUE else by
        found.steps.append(
            ChangeStep(
                history.id, other, by, (Evidence.CRI,), event.id, event.at_ns,
                outcome=Outcome.by(OutcomeKind.IN_EFFECT, event, shown_by),
            )
        )  # fmt: skip


def judge(history: History, real: Spec, event: Event, shown_by: Shows = Shows.CRI) -> Judged:
    """Settle the requests for a container by its spec in the answer `event`.

    All requests must have been carried out when the runtime was asked. A change is in effect if the
    spec has its value, possibly with parts that the runtime filled in (a device's mode and owners);
    a removal if the spec has no value; a move if the same common members precede the member.
    Requests that a later one overrides are left open, and so are values that the spec cannot show:
    CDI devices, the contents of a block I/O class, a swap limit on nodes without swap, most of
    CRI-O's updates. config.json shows the creation only.
    """
    is_cri_o = value_at(real, "/annotations/io.kubernetes.cri-o.ContainerID") is not ABSENT
    updates: tuple[str, ...] = UPDATES_TOLD if is_cri_o else ("/",)
    updates = () if shown_by is Shows.CONFIG else updates
    judging = _Judging(history, event, shown_by, real, updates)
    judging.settle_asked()
    if paths := judging.settle_newest():
        # The value is that of the step before a dropped one.
        judging.settle_newest(paths)
    for one in _changed_in_part(history.counted):
        expected = value_at(history.spec, one.change.path)
        if isinstance(expected, Absent) or not judging.is_told(one):
            continue
        actual = values_of_key(real, one.change.path)
        if any(_honours(one.change.path, expected, each) for each in actual):
            judging.settle(one, _YES)
    return judging.concluded()


def judge_cgroup(history: History, values: Mapping[str, Json], event: Event) -> Judged:
    """Settle the requests for a container by the values of its cgroup files, by OCI path.

    A value that the runtime's spec in the same answer has, and the cgroup does not, never took
    effect: containerd stores an update of a container that is about to start, and does not apply it
    (seen with 2.1.9).
    """
    judging = _Judging(history, event, Shows.CGROUP)
    real = history.real if history.real_event == event.id else None
    for path, value in list(history.only_recorded.items()):
        if agrees(path, value, values.get(path)):
            # Applied after all: the next event that shows it is a change.
            del history.only_recorded[path]
    some = history.counted
    for number in standing(some):
        one = some[number]
        path = one.change.path
        if path not in values or one.change.kind == "removed":
            continue
        if agrees(path, one.change.after, values[path]):
            finding = _YES
        elif (
            real is not None
            and _was_before(one.change, values[path])
            and same(value_at(real, path), one.change.after)
        ):
            outcome = Outcome.by(OutcomeKind.DROPPED, event, Shows.CGROUP, ONLY_RECORDED)
            one.outcome = outcome._replace(actual=values[path])
            judging.found.settled.append(one)
            history.spec = apply(history.spec, [inverse(one.change)])
            history.real = real = apply(real, [inverse(one.change)])
            history.only_recorded[path] = one.change.after
            continue
        elif one.change.kind == "changed" and agrees(path, one.change.before, values[path]):
            finding = _NO
        else:
            finding = _Finding(_Result.DIFFERENTLY, values[path])
        judging.settle(one, finding)
    return judging.concluded()


def _was_before(change: Change, actual: Json) -> bool:
    """Return whether a cgroup has the value before a change; without one, it has no limit."""
    return actual == -1 if change.kind == "added" else agrees(change.path, change.before, actual)


def _instead(change: Change, finding: _Finding) -> Change:
    """Return the change from the requested value to the one that is there instead."""
    if finding.result is _Result.NO and finding.note != NO_VALUE:
        return inverse(change)
    path, after, actual = change.path, change.after, finding.actual
    if actual is None:
        return Change(path, after, None, "removed")
    return Change(path, after, actual, "added" if change.kind == "removed" else "changed")


def _changed_in_part(steps: Sequence[ChangeStep]) -> list[ChangeStep]:
    """Return the open requests for values of which later steps changed parts only."""
    found: list[ChangeStep] = []
    later: set[str] = set()
    for one in reversed(steps):
        path, kind, is_open = one.change.path, one.change.kind, one.is_open
        if kind == "moved":
            continue
        if is_open and kind != "removed" and later.isdisjoint((path, *_above(path))):
            found.append(one)
        later.add(path)
    return found


def _newest(steps: Sequence[ChangeStep]) -> list[int]:
    """Return the positions of the steps whose value, part or parent no later step changed."""
    found = [number for number in standing(steps) if steps[number].change.kind != "moved"]
    later: set[str] = set()
    for number in range(len(steps) - 1, -1, -1):
        path = steps[number].change.path
        # A move counts unless a later step moved, removed or added the member.
        stands = path not in later and later.isdisjoint(_above(path))
        if stands and steps[number].change.kind == "moved":
            found.append(number)
        later.add(path)
    return found


def _of_change(change: Change, real: Spec) -> _Finding:
    path, before, after, kind, _ = change
    if _is_own_path(path):
        return _NOT_TOLD
    if _is_class(change):
        return _of_class(change, real)
    actual = value_at(real, path)
    if kind == "removed" and isinstance(actual, Absent):
        return _YES
    if kind != "removed" and any(_honours(path, after, each) for each in values_of_key(real, path)):
        return _YES
    if is_same_limit(change, actual):
        return _YES
    if len(values_of_key(real, key_of(member_of(path)))) > 1:
        return _NOT_TOLD._replace(note=NAMESAKES)
    if isinstance(actual, Absent):
        # Go omits empty fields, except members of a map.
        is_omitted = after in ({}, []) and not path.startswith("/linux/netDevices/")
        if is_omitted:
            return _YES
        if _is_no_swap(path, after, real):
            return _NOT_TOLD._replace(note=FOLLOWS_LIMIT)
        return _NO._replace(note=NO_VALUE)
    if kind != "added" and same(actual, before):
        return _NO
    return _Finding(_Result.DIFFERENTLY, actual)


def _is_own_path(path: str) -> bool:
    return any(path == own or path.startswith(f"{own}/") for own in _OWN_PATHS)


def _is_no_swap(path: str, requested: Json, real: Spec) -> bool:
    return path == f"{_MEMORY}/swap" and same(value_at(real, f"{_MEMORY}/limit"), requested)


def _is_class(change: Change) -> bool:
    return change.path == f"{_BLOCK_IO}/{UNRESOLVED_CLASS}" or (
        change.path == _BLOCK_IO
        and any(
            isinstance(value, dict) and UNRESOLVED_CLASS in value
            for value in (change.before, change.after)
        )
    )


def _of_class(change: Change, real: Spec) -> _Finding:
    is_empty = value_at(real, _BLOCK_IO) in (ABSENT, None, {})
    if change.kind == "removed":
        return _YES if is_empty else _NO
    return _NO if is_empty else _NOT_TOLD._replace(note=CLASS_UNKNOWN)


def _honours(path: str, requested: Json, actual: Json) -> bool:
    """Return whether `actual` is as requested, ignoring zeros and fields left to the runtime."""
    if same(requested, actual):
        return True
    specs = (apply({}, [Change(path, None, each, "added")]) for each in (requested, actual))
    return all(_is_negligible(change) for change in changes(*specs))


def _is_negligible(change: Change) -> bool:
    if change.kind == "added":
        parts = change.path.split("/")
        is_left_open = parts[1:3] == ["linux", "devices"] and parts[-1] in (
            "fileMode",
            "uid",
            "gid",
        )
        return is_left_open or not change.after
    return change.kind == "removed" and not change.before


def _of_move(path: str, real: Spec, known: Spec) -> _Finding:
    array = path.rpartition("/")[0]
    label = split(path)[-1]
    requested, actual = labels_at(known, array), labels_at(real, array)
    if label not in requested:
        return _NOT_TOLD
    if label not in actual:
        return _NO._replace(note=OTHER_ORDER)
    shared = {*requested} & {*actual}
    preceding = [{*labels[: labels.index(label)]} & shared for labels in (requested, actual)]
    return _YES if preceding[0] == preceding[1] else _NO._replace(note=OTHER_ORDER)


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
