# SPDX-License-Identifier: Apache-2.0
"""Compare two recordings: their containers, and the resulting spec of each.

Values that a runtime generates, such as ids, differ between any two containers and do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from nri_scope import specs
from nri_scope.events import Container, Pod
from nri_scope.oci import sort_mounts
from nri_scope.recording.coverage import CHANGING, Coverage, coverage
from nri_scope.recording.reader import Recording
from nri_scope.specs import ABSENT, Absent, Change, Spec
from nri_scope.text.quantities import many

from .attribution.attributed_changes import ChangeStep, Evidence
from .attribution.history import History
from .attribution.owner import RUNTIME, UNKNOWN, Owner
from .blame.owned_lines import FinalOwners
from .generated_values import INCOMPARABLE, TOKEN_NAME, ComparableSpec, Generated, are_comparable
from .recording_differ import histories, history_of


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

    only_a: tuple[str, ...]
    """Names of containers, ``ns/pod/container``; a second one of that name has ``#2`` appended."""
    only_b: tuple[str, ...]
    differ: tuple[Pair, ...]
    same: tuple[str, ...]
    """Names of the containers with the same outcome."""
    of_pair: bool = False
    """Whether two containers were compared, not two recordings."""
    uncompared: int = 0
    """Number of values of which redaction replaced parts by tokens that cannot be compared."""
    observed: tuple[Coverage, ...] = ()
    """What was observed in each of the recordings, or of each of the containers."""

    @property
    def remark(self) -> str:
        """Remark about the values that were not compared; "" if all were."""
        if not self.uncompared:
            return ""
        return f"{many(self.uncompared, 'redacted value')} not compared: {INCOMPARABLE}"

    @property
    def differs(self) -> bool:
        """Whether the recordings differ."""
        return bool(self.only_a or self.only_b or self.differ)


def compare_recordings(a: Recording, b: Recording) -> Comparison:
    """Compare two recordings. Raises RecordingError."""
    of_a, of_b = histories(a), histories(b)
    found = compare(of_a, of_b, pods_a=_pods(a, of_a), pods_b=_pods(b, of_b))
    return replace(found, observed=tuple(coverage(each, mask=CHANGING) for each in (a, b)))


def compare_containers(a: Recording, of_a: Container, b: Recording, of_b: Container) -> Comparison:
    """Compare the containers `of_a` and `of_b`, of one recording or of two.

    Raises RecordingError, and UsageError if a recording does not show the spec of its container.
    """
    history_a, history_b = history_of(a, of_a), history_of(b, of_b)
    name = " → ".join(dict.fromkeys((history_a.name, history_b.name)))
    pair, uncompared = _pair(name, history_a, history_b, of_a.pod, of_b.pod)
    differ, same = ((), (name,)) if pair is None else ((pair,), ())
    observed = tuple(each.coverage for each in (history_a, history_b) if each.coverage)
    return Comparison((), (), differ, same, True, uncompared, observed)


def _pods(recording: Recording, known: Collection[str]) -> dict[str, Pod]:
    """Return the pods of the `known` containers, by container id."""
    containers = [each for each in recording.containers() if each.id in known]
    return {each.id: each.pod for each in containers if each.pod is not None}


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
    `pods_b`, by container id.
    """
    of_a, of_b = _named(a), _named(b)
    different: list[Pair] = []
    same: list[str] = []
    uncompared = 0
    for name, known in of_a.items():
        other = of_b.get(name)
        if other is None:
            continue
        of_pods = (pods_a or {}).get(known.id), (pods_b or {}).get(other.id)
        pair, hidden = _pair(name, known, other, *of_pods)
        uncompared += hidden
        if pair is None:
            same.append(name)
        else:
            different.append(pair)
    return Comparison(
        only_a=tuple(name for name in of_a if name not in of_b),
        only_b=tuple(name for name in of_b if name not in of_a),
        differ=tuple(different),
        same=tuple(same),
        uncompared=uncompared,
    )


def _named(histories: Mapping[str, History]) -> dict[str, History]:
    named: dict[str, History] = {}
    counts: dict[str, int] = {}
    for history in histories.values():
        name = history.name or history.id
        label = name
        # A recording may contain any name, even a container called "app#2".
        while label in named:
            counts[name] = counts.get(name, 1) + 1
            label = f"{name}#{counts[name]}"
        named[label] = history
    return named


def _pair(
    name: str, a: History, b: History, pod_a: Pod | None, pod_b: Pod | None
) -> tuple[Pair | None, int]:
    """Return the differences of a container, None if the outcomes are the same; and the number of
    values that cannot be compared.
    """
    real = a.real is not None and b.real is not None
    side_a = _ComparedSpec(a, Generated.of(a.id, pod_a), real=real)
    side_b = _ComparedSpec(b, Generated.of(b.id, pod_b), real=real)
    spec_a, spec_b = side_a.comparable(), side_b.comparable()
    uncompared = 0
    if not are_comparable(a.name, spec_a, b.name, spec_b):
        spec_a, spec_b = (side.comparable(hides_tokens=True) for side in (side_a, side_b))
        uncompared = max(spec_a.redacted, spec_b.redacted)
    failures = (side.failure(hides_tokens=uncompared > 0) for side in (side_a, side_b))
    if (a.failure or b.failure) and len({*failures}) > 1:
        return Pair(name, a, b, (), real=False), uncompared
    differences = tuple(
        Difference(change, side_a.value(change, spec_a.spec), side_b.value(change, spec_b.spec))
        for change in specs.differences(spec_a.spec, spec_b.spec)
    )
    return Pair(name, a, b, differences, real) if differences else None, uncompared


_Order: TypeAlias = "tuple[ComparedValue, set[str]]"
"""The origin of the order of some members of an array, and the members' labels."""


class _ComparedSpec:
    """One side of a comparison: the spec of a container, and the origins of its values."""

    def __init__(self, history: History, generated: Generated, *, real: bool) -> None:
        self._history = history
        self._generated = generated
        self._owners, self._real = FinalOwners(history), real
        self._own = history.final_spec if real else history.spec
        self._orders: dict[str, _Order] = {}

    def comparable(self, *, hides_tokens: bool = False) -> ComparableSpec:
        """Return the spec without generated values; see `Generated.comparable`."""
        return self._generated.comparable(self._own, hides_tokens=hides_tokens)

    def failure(self, *, hides_tokens: bool) -> str:
        """Return the reason of the creation's failure, without generated values."""
        return self._generated.text(self._history.failure, hides_tokens=hides_tokens)

    def value(self, change: Change, spec: Spec) -> ComparedValue:
        """Return the presence of a value at the path of a difference, and its origin.

        ``spec``: that of `comparable`.
        """
        present = specs.value_at(spec, change.path) is not ABSENT
        if TOKEN_NAME in change.path:
            return ComparedValue(present, UNKNOWN, (), None)
        path, history = self._generated.original(change.path), self._history
        in_effect = [step for step in history.steps_at(path) if step.has_effect]
        if change.kind == "moved":
            return self._place(path, [step for step in in_effect if step.change.kind == "moved"])
        steps = [step for step in in_effect if step.change.kind != "moved"]
        newest = steps[-1] if steps else None
        is_part = newest is not None and newest.change.path.startswith(f"{path}/")
        if is_part or not self._real:
            if newest is not None:
                return ComparedValue(present, newest.owner, newest.evidence, newest)
            return ComparedValue(present, *self._owners.by_events(path))
        if not present:
            if newest is not None and newest.change.kind == "removed":
                return ComparedValue(present, newest.owner, newest.evidence, newest)
            # The newest step is not a removal that was applied.
            return ComparedValue(present, history.base_owner, (), None)
        value, known = specs.value_at(self._own, path), specs.value_at(history.spec, path)
        return ComparedValue(
            present, *self._owners.of(path, None if isinstance(value, Absent) else value, known)
        )

    def _place(self, path: str, moves: Sequence[ChangeStep]) -> ComparedValue:
        """Return the origin of the place of a member in its array: of the order, not the member.

        ``moves``: the steps that moved the member.
        """
        if moves:
            return ComparedValue(True, moves[-1].owner, moves[-1].evidence, moves[-1])
        array = path.rpartition("/")[0]
        if array not in self._orders:
            self._orders[array] = self._order(array)
        origin, labels = self._orders[array]
        return origin if specs.split(path)[-1] in labels else ComparedValue(True, UNKNOWN, (), None)

    def _order(self, array: str) -> _Order:
        """Return the origin of the order of members which no step moved, as far as it is known."""
        first, final = specs.labels_at(self._history.base, array), specs.labels_at(self._own, array)
        in_first, in_final = {*first}, {*final}
        kept = [label for label in first if label in in_final]
        if [label for label in final if label in in_first] == kept:
            return ComparedValue(True, self._history.base_owner, (), None), in_first
        # A runtime sorts all mounts when it applies an adjustment of any.
        if array == "/mounts" and specs.labels_at(sort_mounts(self._own), array) == final:
            evidence = (Evidence.CRI,) if self._real else ()
            return ComparedValue(True, RUNTIME, evidence, None, is_sorted=True), in_final
        return ComparedValue(True, UNKNOWN, (), None), in_final
