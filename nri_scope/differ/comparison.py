# SPDX-License-Identifier: Apache-2.0
"""Compare two recordings: their plugins, their containers, and the resulting spec of each.

Values that a runtime generates, such as ids, differ between any two containers and do not count.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from nri_scope import specs
from nri_scope.events import PASSIVE_ROLES, Container, Pod, Role
from nri_scope.oci import sort_mounts
from nri_scope.recording.query.coverage import CHANGING, Coverage, coverage
from nri_scope.recording.reading.reader import Recording
from nri_scope.specs import ABSENT, Absent, Change, Spec
from nri_scope.text.quantities import many

from .attribution.attributed_changes import ChangeStep, Evidence
from .attribution.history import History
from .attribution.owner import RUNTIME, UNKNOWN, Owner
from .blame.owned_lines import FinalOwners
from .generated_values import (
    INCOMPARABLE,
    TOKEN_NAME,
    ComparableSpec,
    Generated,
    are_comparable,
    differ_only_in_generated,
    workload_container,
)
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
    """Its name in `a`."""
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
    """Number of values that differ at most in ids, times and tokens of redaction, which are no
    differences."""
    plugins_only_a: tuple[str, ...] = ()
    """Names of plugins, if both recordings name any."""
    plugins_only_b: tuple[str, ...] = ()
    observed: tuple[Coverage, ...] = ()
    """What was observed in each of the recordings, or of each of the containers."""

    @property
    def remark(self) -> str:
        """Remark about the values that were not compared; "" if all were."""
        if not self.uncompared:
            return ""
        return f"{many(self.uncompared, 'value')} not compared: ids, times or {INCOMPARABLE}"

    @property
    def differs(self) -> bool:
        """Whether the recordings differ."""
        plugins = self.plugins_only_a or self.plugins_only_b
        return bool(plugins or self.only_a or self.only_b or self.differ)


def compare_recordings(
    a: Recording, b: Recording, check: Callable[[], None] = lambda: None
) -> Comparison:
    """Compare two recordings. ``check`` is called for each event, and may raise, to cancel.

    Raises RecordingError.
    """
    (of_a, plugins_a), (of_b, plugins_b) = (_histories_and_plugins(each, check) for each in (a, b))
    # A recording that names no plugin does not show that none was in the chain.
    both = plugins_a | plugins_b if plugins_a and plugins_b else set[str]()
    return replace(
        compare(of_a, of_b, pods_a=_pods(a, of_a), pods_b=_pods(b, of_b)),
        plugins_only_a=tuple(sorted(both - plugins_b)),
        plugins_only_b=tuple(sorted(both - plugins_a)),
        observed=tuple(coverage(each, mask=CHANGING) for each in (a, b)),
    )


def _histories_and_plugins(
    recording: Recording, check: Callable[[], None]
) -> tuple[dict[str, History], set[str]]:
    """Return every container's history by its id; and the names of the plugins that had a recorded
    connection, or that the runtime listed for a validator.
    """
    sessions = recording.sessions()
    own = {each.plugin for each in sessions if each.role in (*PASSIVE_ROLES, Role.CRI)}
    plugins = {each.plugin for each in sessions}
    found = histories(recording, lambda diff: plugins.update(diff.chain), check)
    return found, plugins - own


def compare_containers(a: Recording, of_a: Container, b: Recording, of_b: Container) -> Comparison:
    """Compare the containers `of_a` and `of_b`, of one recording or of two.

    Raises RecordingError, and UsageError if a recording does not show the spec of its container.
    """
    history_a, history_b = history_of(a, of_a), history_of(b, of_b)
    name = " → ".join(dict.fromkeys((history_a.name, history_b.name)))
    generated = Generated.of(of_a.id, of_a.pod), Generated.of(of_b.id, of_b.pod)
    pair, uncompared = _pair(name, history_a, history_b, *generated)
    differ, same = ((), (name,)) if pair is None else ((pair,), ())
    observed = tuple(each.coverage for each in (history_a, history_b) if each.coverage)
    return Comparison((), (), differ, same, True, uncompared, observed=observed)


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

    Containers are matched by namespace, pod and name, the others by their `workload_container`;
    several, by order. Ids, process ids, times and random names are ignored. A pod's ids come from
    `pods_a` and `pods_b`, by container id.
    """
    of_a, of_b = _named(a), _named(b)
    different: list[Pair] = []
    same: list[str] = []
    uncompared = 0
    partners = _partners(of_a, of_b)
    for name, name_b in partners.items():
        known, other = of_a[name], of_b[name_b]
        generated = (
            Generated.of(each.id, (pods or {}).get(each.id), has_name=name != name_b)
            for each, pods in ((known, pods_a), (other, pods_b))
        )
        pair, hidden = _pair(name, known, other, *generated)
        uncompared += hidden
        if pair is None:
            same.append(name)
        else:
            different.append(pair)
    matched_b = {*partners.values()}
    return Comparison(
        only_a=tuple(name for name in of_a if name not in partners),
        only_b=tuple(name for name in of_b if name not in matched_b),
        differ=tuple(different),
        same=tuple(same),
        uncompared=uncompared,
    )


def _partners(a: Collection[str], b: Collection[str]) -> dict[str, str]:
    """Return the names of containers in `a` with those of their counterparts in `b`."""
    replacements = defaultdict[str, deque[str]](deque)
    for name in b:
        if name not in a:
            replacements[workload_container(name)].append(name)
    partners: dict[str, str] = {}
    for name in a:
        if name in b:
            partners[name] = name
        elif others := replacements[workload_container(name)]:
            partners[name] = others.popleft()
    return partners


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
    name: str, a: History, b: History, generated_a: Generated, generated_b: Generated
) -> tuple[Pair | None, int]:
    """Return the differences of a container, None if the outcomes are the same; and the number of
    values that cannot be compared.
    """
    real = a.real is not None and b.real is not None
    side_a = _ComparedSpec(a, generated_a, real=real)
    side_b = _ComparedSpec(b, generated_b, real=real)
    spec_a, spec_b = side_a.comparable(), side_b.comparable()
    uncompared = 0
    if not are_comparable(a.name, spec_a, b.name, spec_b):
        spec_a, spec_b = (side.comparable(hides_tokens=True) for side in (side_a, side_b))
        uncompared = max(spec_a.redacted, spec_b.redacted)
    failures = (side.failure(hides_tokens=uncompared > 0) for side in (side_a, side_b))
    if (a.failure or b.failure) and len({*failures}) > 1:
        return Pair(name, a, b, (), real=False), uncompared
    changes = specs.differences(spec_a.spec, spec_b.spec)
    differences = tuple(
        Difference(change, side_a.value(change, spec_a.spec), side_b.value(change, spec_b.spec))
        for change in changes
        if not differ_only_in_generated(change.before, change.after)
    )
    uncompared += len(changes) - len(differences)
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
