# SPDX-License-Identifier: Apache-2.0
"""How many values which rule replaced, and where. Never what they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_PLACES = 1_000
"""Names of containers' variables are part of a place: a stranger's recording may have many."""


@dataclass(frozen=True, slots=True)
class Count:
    """One line of the report."""

    rule: str
    place: str
    """The field in NRI's terms, e.g. ``container.env.DB_PASSWORD`` or ``status_message``."""
    values: int
    """How often something was replaced there."""


class Tally:
    """Counts replacements. What `Redactor.learn` sees is not counted."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, rule: str, place: str, values: int = 1) -> None:
        """Count what ``rule`` replaced at ``place``; the rarest places share one line."""
        key = (rule, place)
        if key not in self._counts and len(self._counts) >= _PLACES:
            key = (rule, "elsewhere")
        self._counts[key] += values

    @property
    def total(self) -> int:
        """Replacements altogether."""
        return self._counts.total()

    def by_rule(self) -> dict[str, int]:
        """Replacements of each rule, in the order of the rules' names."""
        sums: Counter[str] = Counter()
        for (rule, _), values in self._counts.items():
            sums[rule] += values
        return dict(sorted(sums.items()))

    def __iter__(self) -> Iterator[Count]:
        for (rule, place), values in sorted(self._counts.items()):
            yield Count(rule, place, values)
