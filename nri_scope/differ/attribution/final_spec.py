# SPDX-License-Identifier: Apache-2.0
"""A container's final spec, from the CRI if it was queried, and the owners of its values.

The runtime's own spec also contains values that no event shows. The runtime is their owner only if
no plugin can have set them unobserved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeAlias

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.changes import path_of_field
from nri_scope.specs import ABSENT, Absent, Json, Spec, apply, same

from .attributed_changes import ChangeStep, Evidence, OutcomeKind
from .chain import HIGHEST
from .history import History
from .later_changes import ANY_OWNER, UPDATABLE, may_be_left_out
from .owner import AFTER_ALL, RUNTIME, SPEC, UNKNOWN, Owner, OwnerKind

Owned: TypeAlias = "tuple[Owner, tuple[Evidence, ...], ChangeStep | None]"
"""An owner, its evidence, and the step that made the value. The step is None for the first state,
and for values that only the CRI shows."""

_BY_PLUGINS = tuple(sorted({path_of_field(number) for number in api.Field.values()}))
"""Paths at which plugins can change a container."""


def final_spec(history: History) -> Spec:
    """Return the newest known spec: the CRI's spec with later changes, if the CRI reported one."""
    if history.real is None:
        return history.spec
    spec = history.real
    later = (step for step in history.counted if step.event > history.real_event)
    # Apply steps with the same event, evidence and owner together, before the next group.
    for _, steps in groupby(later, key=lambda step: (step.event, step.evidence, step.owner)):
        spec = apply(spec, [step.change for step in steps])
    return spec


class FinalOwners:
    """Lookup of the owners of values in a container's final spec."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.newest = Newest(history.counted)

    def of(self, path: str, value: Json, known: Json | Absent) -> Owned:
        """Return the owner of the value at `path`. `known`: the value there that events show."""
        step = self.newest.at(path)
        if self._history.real is None:
            return self.by(step)
        is_in_effect = step is not None and step.outcome.kind is OutcomeKind.IN_EFFECT
        if known is not ABSENT and (is_in_effect or same(known, value)):
            return self.by(step)
        unseen = self._unseen(path, value)
        if unseen is not None:
            # The owner of the newest step may also have changed the value again.
            return unseen if step is None else ANY_OWNER, (Evidence.CRI,), None
        is_last = self._history.tail.first == HIGHEST and self._is_hidden(path)
        is_last = is_last and _touches(path, value, _BY_PLUGINS)
        if known is ABSENT and not _is_in_requests(path, value):
            return replace(SPEC, ties=AFTER_ALL.ties) if is_last else SPEC, (Evidence.CRI,), None
        return AFTER_ALL if is_last else RUNTIME, (Evidence.CRI,), None

    def by(self, step: ChangeStep | None) -> Owned:
        """Return the owner of a step's value; without a step, the owner of the first state."""
        if step is None:
            return self._history.base_owner, (), None
        return step.owner, step.evidence, step

    def _unseen(self, path: str, value: Json) -> Owner | None:
        """Return the possible owners of an unobserved change; None if plugins cannot make it."""
        if not _touches(path, value, _BY_PLUGINS):
            return None
        if _touches(path, value, UPDATABLE):
            # In a reply to another container's event or to Synchronize, or unsolicited.
            return ANY_OWNER
        if not self._is_hidden(path):
            return None
        if not self._history.created_event:
            return UNKNOWN
        tail = self._history.tail
        return None if tail == RUNTIME or tail.first == HIGHEST else tail

    def _is_hidden(self, path: str) -> bool:
        """Return whether events need not show a plugin's change of `path` at the creation.

        Events of containerd repeat the annotations that the CRI requested.
        """
        repeated = path.startswith("/annotations/")
        return repeated or may_be_left_out(path) or not self._history.shown


def _is_in_requests(path: str, value: Json) -> bool:
    """Return whether a request for the creation would contain the value."""
    return _touches(path, value, _BY_PLUGINS) and not may_be_left_out(path)


def _touches(path: str, value: Json, places: tuple[str, ...]) -> bool:
    """Return whether a value is at, above or below one of `places`."""
    if path.startswith(places):
        return True
    return bool(value) and any(place.startswith(f"{path}/") for place in places)


NON_PLUGINS = (OwnerKind.RUNTIME, OwnerKind.REQUEST)
"""Owners other than plugins."""


class Newest:
    """Index of the newest step at each path."""

    def __init__(self, steps: Sequence[ChangeStep]) -> None:
        self._steps = steps
        self._at: dict[str, int] = {}
        self._moves: dict[str, int] = {}
        self._all: dict[str, list[int]] = {}
        self._touched: set[str] = set()
        for number, step in enumerate(steps):
            path = step.change.path
            if step.change.kind == "moved":
                self._moves[path] = number
                continue
            self._at[path] = number
            self._all.setdefault(path, []).append(number)
            if step.owner.who not in NON_PLUGINS:
                self._touched.add(path)

    def steps(self) -> Iterator[ChangeStep]:
        """Yield the newest step at each path, unless a later one at a parent overrides it."""
        for path, number in self._at.items():
            if self._number(path) == number:
                yield self._steps[number]

    def at(self, path: str) -> ChangeStep | None:
        """Return the newest step at `path` or at a parent, without moves."""
        number = self._number(path)
        return None if number is None else self._steps[number]

    def exactly(self, path: str) -> ChangeStep | None:
        """Return the newest step at `path` itself."""
        number = self._at.get(path)
        return None if number is None else self._steps[number]

    def before(self, step: ChangeStep) -> ChangeStep | None:
        """Return the step before `step` at the same path, if `step` is the newest."""
        numbers = self._all.get(step.change.path, ())
        return self._steps[numbers[-2]] if len(numbers) > 1 else None

    def move(self, path: str) -> ChangeStep | None:
        """Return the newest move of `path`; None if a later step changed `path` otherwise."""
        number = self._moves.get(path)
        if number is None or number < self._at.get(path, -1):
            return None
        return self._steps[number]

    def by_plugins(self, path: str) -> bool:
        """Return whether a plugin or an unknown owner ever changed `path`."""
        return path in self._touched

    def _number(self, path: str) -> int | None:
        found = self._at.get(path)
        while path:
            path = path.rpartition("/")[0]
            number = self._at.get(path)
            if number is not None and (found is None or number > found):
                found = number
        return found
