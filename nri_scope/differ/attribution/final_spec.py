# SPDX-License-Identifier: Apache-2.0
"""A container's final spec, which the CRI reported if it was asked, and the owners of its values.

The runtime's own spec also has what no event shows. A value that no event shows is called the
runtime's only if no plugin can have set it unobserved.
"""

from __future__ import annotations

from itertools import groupby
from typing import TypeAlias

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.changes import path_of_field
from nri_scope.oci import ABSENT, Absent, Change, Json, Spec, apply, same, value_at

from .attributed_changes import Applied, ChangeStep, Evidence
from .chain import HIGHEST
from .history import History
from .later_changes import ANY_OWNER, UPDATABLE, may_be_left_out
from .owner import AFTER_ALL, RUNTIME, UNKNOWN, Owner
from .steps_by_path import Newest

Owned: TypeAlias = "tuple[Owner, tuple[Evidence, ...], ChangeStep | None]"
"""An owner, its evidence, and the step that made the value; None for the first state, and for what
only the CRI shows."""

_BY_PLUGINS = tuple(sorted({path_of_field(number) for number in api.Field.values()}))
"""Paths at which plugins can change a container."""


def final_spec(history: History) -> Spec:
    """Return the newest known spec: the real one if CRI reported it, with later changes."""
    if history.real is None:
        return history.spec
    spec = history.real
    later = (step for step in history.steps if step.event > history.real_event)
    # Steps with the same event, evidence and owner are applied together, before those of the next.
    for _, steps in groupby(later, key=lambda step: (step.event, step.evidence, step.owner)):
        spec = apply(spec, [step.change for step in steps])
    return spec


class FinalOwners:
    """Finds the owners of the values of a container's final spec."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.newest = Newest(history.steps)

    def of(self, path: str, value: Json, known: Json | Absent) -> Owned:
        """Return the owner of the value at `path`; `known`: the value there by events."""
        step = self.newest.at(path)
        if self._history.real is None:
            return self.by(step)
        applied = None if step is None else step.applied
        is_known = known is not ABSENT and applied is not Applied.NO
        if is_known and (applied is Applied.YES or same(known, value)):
            return self.by(step)
        unseen = self._unseen(path, value)
        if unseen is not None:
            # One of those who were seen may have changed it again, too.
            return unseen if step is None else ANY_OWNER, (Evidence.CRI,), None
        if applied is Applied.DIFFERENTLY:
            return self.by(step)
        if applied is Applied.NO:
            return self._before(path, value)
        is_last = self._history.tail.first == HIGHEST and self._is_hidden(path)
        is_last = is_last and _touches(path, value, _BY_PLUGINS)
        return AFTER_ALL if is_last else RUNTIME, (Evidence.CRI,), None

    def by(self, step: ChangeStep | None) -> Owned:
        """Return the owner of what a step made; of the first state for None."""
        if step is None:
            return self._history.base_owner, (), None
        return step.owner, step.evidence, step

    def _before(self, path: str, value: Json) -> Owned:
        """Return the owner of a value that the newest step did not change after all."""
        step = self.newest.next_to(path)
        if step is None:
            made = self._history.base
        else:
            change = step.change
            gone = change.kind == "removed"
            made = {} if gone else apply({}, [Change(change.path, None, change.after, "added")])
        if (first := value_at(made, path)) is not ABSENT and same(first, value):
            owner, evidence, step = self.by(step)
            return owner, tuple(dict.fromkeys((*evidence, Evidence.CRI))), step
        owner = ANY_OWNER if _touches(path, value, _BY_PLUGINS) else RUNTIME
        return owner, (Evidence.CRI,), None

    def _unseen(self, path: str, value: Json) -> Owner | None:
        """Return who may have set a value unobserved; None if no plugin can have done that."""
        if not _touches(path, value, _BY_PLUGINS):
            return None
        if _touches(path, value, UPDATABLE):
            # Beside an event of another container, when it connected, or out of turn.
            return ANY_OWNER
        if not self._is_hidden(path):
            return None
        if not self._history.created_event:
            return UNKNOWN
        tail = self._history.tail
        return None if tail == RUNTIME or tail.first == HIGHEST else tail

    def _is_hidden(self, path: str) -> bool:
        """Return whether no event need have shown what plugins did here in the creation."""
        return may_be_left_out(path) or not self._history.shown


def _touches(path: str, value: Json, places: tuple[str, ...]) -> bool:
    """Return whether a value is at, above or below one of some paths."""
    if path.startswith(places):
        return True
    return bool(value) and any(place.startswith(f"{path}/") for place in places)
