# SPDX-License-Identifier: Apache-2.0
"""An index of the steps of one container, by path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .attributed_changes import ChangeStep
from .owner import OwnerKind

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
