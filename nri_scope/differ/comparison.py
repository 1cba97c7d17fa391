# SPDX-License-Identifier: Apache-2.0
"""Compare two recordings: their containers, and the resulting spec of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nri_scope.events import Container, Pod
from nri_scope.oci import sort_mounts
from nri_scope.recording.reader import Recording
from nri_scope.specs import ABSENT, Absent, Change, differences, labels_at, split, value_at

from .attribution.attributed_changes import ChangeStep, Evidence
from .attribution.final_spec import FinalOwners, final_spec
from .attribution.history import History
from .attribution.owner import RUNTIME, UNKNOWN, Owner
from .generated_values import Generated
from .recording_differ import blame, histories


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """The value of a path in one of the recordings, and its origin."""

    present: bool
    """Whether the path has a value."""
    owner: Owner
    """Owner of the value or of its removal; the owner of the first state if nothing changed it. For
    a move, the owner of the member's place, which need not be the member's owner."""
    evidence: tuple[Evidence, ...]
    step: ChangeStep | None
    """The newest step at the path, a parent or a part of it; None for the first state."""
    is_sorted: bool = False
    """Whether the runtime moved the member because it sorted the array."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A path with different values."""

    change: Change
    """The change from `a` to `b`. Generated values are replaced by their kind, see `Generated`."""
    a: ComparedValue
    b: ComparedValue


@dataclass(frozen=True, slots=True)
class Named:
    """A container, with its name in the comparison."""

    name: str
    """``ns/pod/container``; a second container of that name has ``#2`` appended."""
    history: History


@dataclass(frozen=True, slots=True)
class Pair:
    """A container of both recordings, with different outcomes."""

    name: str
    a: History
    b: History
    differences: tuple[Difference, ...]
    """Differing paths; () if the creation failed in one recording, or for different reasons: see
    ``failure`` of `a` and `b`."""
    real: bool
    """Whether the specs are from the CRI, as the runtimes actually used them, and not from NRI."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between two recordings."""

    only_a: tuple[Named, ...]
    only_b: tuple[Named, ...]
    differ: tuple[Pair, ...]
    same: tuple[str, ...]
    """Names of the containers with the same outcome."""
    of_pair: bool = False
    """Whether two containers were compared, not two recordings."""

    @property
    def differs(self) -> bool:
        """Whether the recordings differ."""
        return bool(self.only_a or self.only_b or self.differ)


def compare_recordings(a: Recording, b: Recording) -> Comparison:
    """Compare two recordings. Raises RecordingError."""
    of_a, of_b = histories(a), histories(b)
    return compare(of_a, of_b, pods_a=_pods(a, of_a), pods_b=_pods(b, of_b))


def compare_containers(a: Recording, one: Container, b: Recording, other: Container) -> Comparison:
    """Compare two containers, of one recording or of two.

    Raises RecordingError, and UsageError if a recording does not show the spec of its container.
    """
    of_a, of_b = blame(a, one), blame(b, other)
    name = of_a.name if of_a.name == of_b.name else f"{of_a.name} → {of_b.name}"
    pair = _pair(name, of_a, of_b, one.pod, other.pod)
    differ, same = ((), (name,)) if pair is None else ((pair,), ())
    return Comparison((), (), differ, same, of_pair=True)


def _pods(recording: Recording, known: Collection[str]) -> dict[str, Pod]:
    """Return the pods of the `known` containers, by container id."""
    return {
        one.id: one.pod for one in recording.containers() if one.pod is not None and one.id in known
    }


def compare(
    a: Mapping[str, History],
    b: Mapping[str, History],
    *,
    pods_a: Mapping[str, Pod] | None = None,
    pods_b: Mapping[str, Pod] | None = None,
) -> Comparison:
    """Compare histories of containers, which are keyed by id in order of appearance.

    Containers are matched by namespace, pod and name; containers with the same name, by order.
    Ids, process ids, times and random names are ignored. A pod's ids come from `pods_a` and
    `pods_b`, by container id, or else from the container's annotations.
    """
    of_a, of_b = _named(a), _named(b)
    different: list[Pair] = []
    same: list[str] = []
    for name, one in of_a.items():
        other = of_b.get(name)
        if other is None:
            continue
        pair = _pair(name, one, other, (pods_a or {}).get(one.id), (pods_b or {}).get(other.id))
        if pair is None:
            same.append(name)
        else:
            different.append(pair)
    return Comparison(
        only_a=tuple(Named(name, one) for name, one in of_a.items() if name not in of_b),
        only_b=tuple(Named(name, one) for name, one in of_b.items() if name not in of_a),
        differ=tuple(different),
        same=tuple(same),
    )


def _named(found: Mapping[str, History]) -> dict[str, History]:
    named: dict[str, History] = {}
    counts: dict[str, int] = {}
    for history in found.values():
        name = history.name or history.id
        label = name
        # A recording may contain any name, even a container called "app#2".
        while label in named:
            counts[name] = counts.get(name, 1) + 1
            label = f"{name}#{counts[name]}"
        named[label] = history
    return named


def _pair(name: str, a: History, b: History, pod_a: Pod | None, pod_b: Pod | None) -> Pair | None:
    """Return the differences of a container; None if the outcomes are the same."""
    made_a, made_b = Generated.of(a, pod_a), Generated.of(b, pod_b)
    if (a.failure or b.failure) and made_a.text(a.failure) != made_b.text(b.failure):
        return Pair(name, a, b, (), real=False)
    real = a.real is not None and b.real is not None
    one, other = _Compared(a, made_a, real=real), _Compared(b, made_b, real=real)
    found = tuple(
        Difference(change, one.side(change), other.side(change))
        for change in differences(one.spec, other.spec)
    )
    return Pair(name, a, b, found, real) if found else None


_Order: TypeAlias = "tuple[ComparedValue, set[str]]"
"""The origin of the order of some members of an array, and the members' labels."""


class _Compared:
    """One side of a comparison: a container, with generated values replaced."""

    def __init__(self, history: History, made: Generated, *, real: bool) -> None:
        self._history = history
        self._made = made
        self._owners = FinalOwners(history) if real else None
        self._own = final_spec(history) if real else history.spec
        self.spec = made.spec(self._own)
        self._orders: dict[str, _Order] = {}

    def side(self, change: Change) -> ComparedValue:
        """Return the presence of a value at the path of a difference, and its origin."""
        present = value_at(self.spec, change.path) is not ABSENT
        path, history = self._made.original(change.path), self._history
        if change.kind == "moved":
            return self._place(path)
        steps = [one for one in history.of(path) if one.change.kind != "moved" and one.has_effect]
        newest = steps[-1] if steps else None
        is_part = newest is not None and newest.change.path.startswith(f"{path}/")
        if self._owners is None or is_part:
            if newest is not None:
                return ComparedValue(present, newest.owner, newest.evidence, newest)
            return ComparedValue(present, *history.owner_of(path))
        if not present:
            if newest is not None and newest.change.kind == "removed":
                return ComparedValue(present, newest.owner, newest.evidence, newest)
            # The newest step is not a removal that was applied.
            return ComparedValue(present, history.base_owner, (), None)
        value, known = value_at(self._own, path), value_at(history.spec, path)
        return ComparedValue(
            present, *self._owners.of(path, None if isinstance(value, Absent) else value, known)
        )

    def _place(self, path: str) -> ComparedValue:
        """Return the origin of the place of a member in its array: of the order, not the member."""
        history = self._history
        moves = [one for one in history.of(path) if one.change.kind == "moved" and one.has_effect]
        if moves:
            return ComparedValue(True, moves[-1].owner, moves[-1].evidence, moves[-1])
        array = path.rpartition("/")[0]
        if array not in self._orders:
            self._orders[array] = self._order(array)
        origin, labels = self._orders[array]
        return origin if split(path)[-1] in labels else ComparedValue(True, UNKNOWN, (), None)

    def _order(self, array: str) -> _Order:
        """Return the origin of the order of members which no step moved, as far as it is known."""
        first, final = labels_at(self._history.base, array), labels_at(self._own, array)
        in_first, in_final = {*first}, {*final}
        if [one for one in final if one in in_first] == [one for one in first if one in in_final]:
            return ComparedValue(True, self._history.base_owner, (), None), in_first
        # A runtime sorts all mounts when it applies an adjustment of any.
        if array == "/mounts" and labels_at(sort_mounts(self._own), array) == final:
            evidence = () if self._owners is None else (Evidence.CRI,)
            return ComparedValue(True, RUNTIME, evidence, None, is_sorted=True), in_final
        return ComparedValue(True, UNKNOWN, (), None), in_final
