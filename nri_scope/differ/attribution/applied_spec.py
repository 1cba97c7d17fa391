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
from typing import NamedTuple

from nri_scope import specs
from nri_scope.events import Event
from nri_scope.oci.container import UNRESOLVED_CLASS
from nri_scope.specs import ABSENT, Absent, Change, Json, Spec
from nri_scope.specs.json_spec import key_of, member_of

from .attributed_changes import (
    ChangeStep,
    Evidence,
    OutcomeKind,
    RequestOutcome,
    Shows,
    is_same_limit,
)
from .history import ANOTHER, EARLIER, NO_VALUE, History, ShownChanges, settle
from .later_changes import (
    ANY_OWNER,
    FOLLOWS_LIMIT,
    NAMESAKES,
    REPORTED_UPDATES,
    UPDATABLE,
)
from .owner import UNKNOWN
from .round_results import RequestSource, prefixes, standing, step

ONLY_RECORDED = "the runtime's own spec has it, and the container's cgroup the value before"
OTHER_ORDER = "the order is another one"
CLASS_UNKNOWN = "only the node's configuration defines the class"

_MEMORY = "/linux/resources/memory"
_BLOCK_IO = "/linux/resources/blockIO"
_OWN_PATHS = "/cdiDevices", "/nri"


class _ShownResult(NamedTuple):
    """What an answer shows of one request."""

    kind: OutcomeKind
    """IN_EFFECT; DROPPED: the value before it is there; SUPERSEDED: another; REQUESTED: unknown."""
    actual: Json = None
    note: str = ""


_YES, _NO, _NOT_SHOWN = map(
    _ShownResult, (OutcomeKind.IN_EFFECT, OutcomeKind.DROPPED, OutcomeKind.REQUESTED)
)


@dataclass(slots=True)
class _Judging:
    """The judgement of one answer."""

    history: History
    event: Event
    shown_by: Shows
    real: Spec = field(default_factory=dict)
    updates: tuple[str, ...] = ()
    """Beginnings of the paths at which the answer shows updates."""
    steps: list[ChangeStep] = field(default_factory=list)
    """See `ShownChanges`."""
    settled: list[ChangeStep] = field(default_factory=list)

    def shows(self, request: ChangeStep) -> bool:
        """Return whether the answer would show that a request had effect."""
        is_creation = request.event <= self.history.created_until
        return is_creation or request.change.path.startswith(self.updates)

    def concluded(self) -> ShownChanges:
        """Add the changes of an answer to the history; return them with all settled requests."""
        history, steps = self.history, self.steps
        if steps:
            history.add(steps, specs.apply(history.spec, [step.change for step in steps]))
        known = {request.key for request in self.settled}
        for request in history.renew_open():
            if request.key not in known:
                (steps if request.event == self.event.id else self.settled).append(request)
        return ShownChanges(tuple(steps), tuple(self.settled))

    def settle_newest(self, among: Collection[str] | None = None) -> set[str]:
        """Settle the newest step at each path, or only at `among`; return paths of dropped ones."""
        counted = self.history.counted
        if self.shown_by is Shows.CONFIG:
            counted = [step for step in counted if self.shows(step)]
        known, lost = self.history.spec, set[str]()
        for number in _newest(counted):
            request = counted[number]
            path = request.change.path
            if not self.shows(request) or (among is not None and path not in among):
                continue
            if request.change.kind == "moved":
                result = _of_move(path, self.real, known)
            else:
                result = _of_change(request.change, self.real)
            self.settle(request, result)
            if not request.has_effect and request.change.kind != "moved":
                lost.add(path)
        return lost

    def settle_asked(self) -> None:
        """Settle requests that the expected state lacks, with those for the same path."""
        history = self.history
        for path in list(history.open):
            now = specs.value_at(self.real, path)
            requests = [each for each in history.open_at(path, now, self.event) if self.shows(each)]
            is_shown = not specs.is_within(path, _OWN_PATHS)
            if not is_shown or all(request.is_expected for request in requests):
                continue
            known = specs.value_at(history.spec, path)
            is_known = specs.same(known, now)
            is_explained = settle(requests, now, self.event, self.shown_by, is_known=is_known)
            if is_explained and not is_known:
                history.spec = specs.apply(history.spec, [specs.whole_change(path, known, now)])

    def settle(self, request: ChangeStep, result: _ShownResult) -> None:
        """Set the outcome of a request by the value that is there."""
        history, event, shown_by = self.history, self.event, self.shown_by
        change, kind = request.change, request.outcome.kind
        if result.kind is OutcomeKind.IN_EFFECT:
            if kind is not OutcomeKind.IN_EFFECT:
                request.settle(RequestOutcome.by(OutcomeKind.IN_EFFECT, event, shown_by))
                self.settled.append(request)
            return
        if result.kind is OutcomeKind.REQUESTED:
            if result.note and kind is OutcomeKind.REQUESTED:
                request.leave_open(result.note)
            return
        is_no = result.kind is OutcomeKind.DROPPED
        other = _instead(change, result)
        if kind is OutcomeKind.REQUESTED:
            reason = result.note or (EARLIER if is_no else ANOTHER)
            outcome = RequestOutcome.by(result.kind, event, shown_by, reason)
            request.drop(outcome._replace(actual=result.actual))
            self.settled.append(request)
            # The earlier value is gone, too.
            is_fixed = not change.path.startswith(UPDATABLE)
            is_removed = is_fixed and result.note == NO_VALUE and change.kind == "changed"
            if is_no and not is_removed:
                history.spec = specs.apply(history.spec, [other])
                return
        elif shown_by is Shows.CONFIG or not change.path.startswith(UPDATABLE):
            # An event shows the value, and only updates change it later.
            return
        by = ANY_OWNER if change.path.startswith(UPDATABLE) else history.tail
        by = UNKNOWN if is_no and result.note == NO_VALUE else by
        in_effect = RequestOutcome.by(OutcomeKind.IN_EFFECT, event, shown_by)
        source = RequestSource(by, Evidence.CRI, event)
        self.steps.append(step(history.id, other, source, outcome=in_effect))


def judge(history: History, real: Spec, event: Event, shown_by: Shows = Shows.CRI) -> ShownChanges:
    """Settle the requests for a container by its spec in the answer `event`.

    All requests must have been carried out when the runtime was asked. A change is in effect if the
    spec has its value, possibly with parts that the runtime filled in (a device's mode and owners);
    a removal if the spec has no value; a move if the same common members precede the member.
    Requests that a later one overrides are left open, and so are values that the spec cannot show:
    CDI devices, the contents of a block I/O class, a swap limit on nodes without swap, most of
    CRI-O's updates. config.json shows the creation only.
    """
    is_cri_o = specs.value_at(real, "/annotations/io.kubernetes.cri-o.ContainerID") is not ABSENT
    updates: tuple[str, ...] = REPORTED_UPDATES if is_cri_o else ("/",)
    updates = () if shown_by is Shows.CONFIG else updates
    judging = _Judging(history, event, shown_by, real, updates)
    judging.settle_asked()
    if paths := judging.settle_newest():
        # The value is that of the step before a dropped one.
        judging.settle_newest(paths)
    for request in _changed_in_part(history.counted):
        expected = specs.value_at(history.spec, request.change.path)
        if isinstance(expected, Absent) or not judging.shows(request):
            continue
        actual = specs.values_of_key(real, request.change.path)
        if any(_honours(request.change.path, expected, each) for each in actual):
            judging.settle(request, _YES)
    return judging.concluded()


def judge_cgroup(history: History, values: Mapping[str, Json], event: Event) -> ShownChanges:
    """Settle the requests for a container by the values of its cgroup files, by OCI path.

    A value that the runtime's spec in the same answer has, and the cgroup does not, never took
    effect: containerd stores an update of a container that is about to start, and does not apply it
    (seen with 2.1.9).
    """
    judging = _Judging(history, event, Shows.CGROUP)
    real = history.real if history.real_event == event.id else None
    for path, value in list(history.only_recorded.items()):
        if specs.agrees(path, value, values.get(path)):
            # Applied after all: the next event that shows it is a change.
            del history.only_recorded[path]
    counted = history.counted
    for number in standing(counted):
        request = counted[number]
        path = request.change.path
        if path not in values or request.change.kind == "removed":
            continue
        if specs.agrees(path, request.change.after, values[path]):
            result = _YES
        elif (
            real is not None
            and _was_before(request.change, values[path])
            and specs.same(specs.value_at(real, path), request.change.after)
        ):
            outcome = RequestOutcome.by(OutcomeKind.DROPPED, event, Shows.CGROUP, ONLY_RECORDED)
            request.settle(outcome._replace(actual=values[path]))
            judging.settled.append(request)
            history.spec = specs.apply(history.spec, [specs.inverse(request.change)])
            history.real = real = specs.apply(real, [specs.inverse(request.change)])
            history.only_recorded[path] = request.change.after
            continue
        elif request.change.kind == "changed" and specs.agrees(
            path, request.change.before, values[path]
        ):
            result = _NO
        else:
            result = _ShownResult(OutcomeKind.SUPERSEDED, values[path])
        judging.settle(request, result)
    return judging.concluded()


def _was_before(change: Change, actual: Json) -> bool:
    """Return whether a cgroup has the value before a change; without one, it has no limit."""
    return (
        actual == -1 if change.kind == "added" else specs.agrees(change.path, change.before, actual)
    )


def _instead(change: Change, result: _ShownResult) -> Change:
    """Return the change from the requested value to the one that is there instead."""
    if result.kind is OutcomeKind.DROPPED and result.note != NO_VALUE:
        return specs.inverse(change)
    path, after, actual = change.path, change.after, result.actual
    if actual is None:
        return Change(path, after, None, "removed")
    return Change(path, after, actual, "added" if change.kind == "removed" else "changed")


def _changed_in_part(steps: Sequence[ChangeStep]) -> list[ChangeStep]:
    """Return the open requests for values of which later steps changed parts only."""
    changed: list[ChangeStep] = []
    later: set[str] = set()
    for request in reversed(steps):
        path, kind, is_open = request.change.path, request.change.kind, request.is_open
        if kind == "moved":
            continue
        if is_open and kind != "removed" and later.isdisjoint(prefixes(path)):
            changed.append(request)
        later.add(path)
    return changed


def _newest(steps: Sequence[ChangeStep]) -> list[int]:
    """Return the positions of the steps whose value, part or parent no later step changed."""
    positions = standing(steps)
    later: set[str] = set()
    for number in range(len(steps) - 1, -1, -1):
        path = steps[number].change.path
        # A move counts unless a later step moved, removed or added the member.
        stands = later.isdisjoint(prefixes(path))
        if stands and steps[number].change.kind == "moved":
            positions.append(number)
        later.add(path)
    return positions


def _of_change(change: Change, real: Spec) -> _ShownResult:
    path, before, after, kind, _ = change
    if specs.is_within(path, _OWN_PATHS):
        return _NOT_SHOWN
    if _is_class(change):
        return _of_class(change, real)
    actual = specs.value_at(real, path)
    if kind == "removed" and isinstance(actual, Absent):
        return _YES
    if kind != "removed" and any(
        _honours(path, after, each) for each in specs.values_of_key(real, path)
    ):
        return _YES
    if is_same_limit(change, actual):
        return _YES
    if len(specs.values_of_key(real, key_of(member_of(path)))) > 1:
        return _NOT_SHOWN._replace(note=NAMESAKES)
    if isinstance(actual, Absent):
        # Go omits empty fields, except members of a map.
        is_omitted = after in ({}, []) and not path.startswith("/linux/netDevices/")
        if is_omitted:
            return _YES
        if _is_no_swap(path, after, real):
            return _NOT_SHOWN._replace(note=FOLLOWS_LIMIT)
        return _NO._replace(note=NO_VALUE)
    if kind != "added" and specs.same(actual, before):
        return _NO
    return _ShownResult(OutcomeKind.SUPERSEDED, actual)


def _is_no_swap(path: str, requested: Json, real: Spec) -> bool:
    return path == f"{_MEMORY}/swap" and specs.same(
        specs.value_at(real, f"{_MEMORY}/limit"), requested
    )


def _is_class(change: Change) -> bool:
    return change.path == f"{_BLOCK_IO}/{UNRESOLVED_CLASS}" or (
        change.path == _BLOCK_IO
        and any(
            isinstance(value, dict) and UNRESOLVED_CLASS in value
            for value in (change.before, change.after)
        )
    )


def _of_class(change: Change, real: Spec) -> _ShownResult:
    is_empty = specs.value_at(real, _BLOCK_IO) in (ABSENT, None, {})
    if change.kind == "removed":
        return _YES if is_empty else _NO
    return _NO if is_empty else _NOT_SHOWN._replace(note=CLASS_UNKNOWN)


def _honours(path: str, requested: Json, actual: Json) -> bool:
    """Return whether `actual` is as requested, ignoring zeros and fields left to the runtime."""
    if specs.same(requested, actual):
        return True
    before, after = (
        specs.apply({}, [Change(path, None, each, "added")]) for each in (requested, actual)
    )
    return all(_is_negligible(change) for change in specs.changes(before, after))


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


def _of_move(path: str, real: Spec, known: Spec) -> _ShownResult:
    array = path.rpartition("/")[0]
    label = specs.split(path)[-1]
    requested, actual = specs.labels_at(known, array), specs.labels_at(real, array)
    if label not in requested:
        return _NOT_SHOWN
    if label not in actual:
        return _NO._replace(note=OTHER_ORDER)
    shared = {*requested} & {*actual}
    preceding = [{*labels[: labels.index(label)]} & shared for labels in (requested, actual)]
    return _YES if preceding[0] == preceding[1] else _NO._replace(note=OTHER_ORDER)
