# SPDX-License-Identifier: Apache-2.0
"""Count replaced values by rule and place, without the values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_PLACES = 1_000
"""Limit of places, which include names of variables: an untrusted recording may have many."""


@dataclass(frozen=True, slots=True)
class Count:
    """One line of the report."""

    rule: str
    place: str
    """The field in NRI's terms, e.g. ``container.env.DB_PASSWORD`` or ``status_message``."""
    values: int
    """The number of replacements there."""


class Tally:
    """Counts replacements. Calls of `Redactor.learn` are not counted."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, rule: str, place: str, values: int = 1) -> None:
        """Count what ``rule`` replaced at ``place``; beyond a limit, places share one line."""
        key = (rule, place)
        if key not in self._counts and len(self._counts) >= _PLACES:
            key = (rule, "elsewhere")
        self._counts[key] += values

    @property
    def total(self) -> int:
        """The number of all replacements."""
        return self._counts.total()

    def by_rule(self) -> dict[str, int]:
        """Return replacements by rule, sorted by the rules' names."""
        sums: Counter[str] = Counter()
        for (rule, _), values in self._counts.items():
            sums[rule] += values
        return dict(sorted(sums.items()))

    def __iter__(self) -> Iterator[Count]:
        for (rule, place), values in sorted(self._counts.items()):
            yield Count(rule, place, values)
