# SPDX-License-Identifier: Apache-2.0
"""Count replaced values by rule and place, without storing the values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_MAX_PLACES = 1_000
"""Maximum number of places, which include variable names: an untrusted recording may have many."""
_MAX_REPEATED = 100_000
"""Maximum number of rules and places of repeated messages."""


@dataclass(frozen=True, slots=True)
class Count:
    """One line of the report."""

    rule: str
    place: str
    """The field in NRI terms, e.g. ``container.env.DB_PASSWORD`` or ``status_message``."""
    values: int
    """Number of replacements at this place."""


class Tally:
    """Counts replacements."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._repeated: Counter[tuple[tuple[str, str], ...]] = Counter()
        """How often messages with these rules and places were repeated."""
        self._remembered = 0

    def repeat(self, replacements: tuple[tuple[str, str], ...]) -> None:
        """Count the replacements of a repeated message, given as rules with places, once more."""
        if replacements not in self._repeated:
            if self._remembered + len(replacements) > _MAX_REPEATED:
                self._all()
            self._remembered += len(replacements)
        self._repeated[replacements] += 1

    def _all(self) -> Counter[tuple[str, str]]:
        for replacements, count in self._repeated.items():
            for rule, place in replacements:
                self.add(rule, place, count)
        self._repeated.clear()
        self._remembered = 0
        return self._counts

    def add(self, rule: str, place: str, values: int = 1) -> None:
        """Count replacements by ``rule`` at ``place``; beyond a limit, places share one line."""
        key = (rule, place)
        if key not in self._counts and len(self._counts) >= _MAX_PLACES:
            key = (rule, "elsewhere")
        self._counts[key] += values

    @property
    def total(self) -> int:
        """The number of all replacements."""
        return self._all().total()

    def by_rule(self) -> dict[str, int]:
        """Return the number of replacements by rule, sorted by rule name."""
        sums: Counter[str] = Counter()
        for (rule, _), values in self._all().items():
            sums[rule] += values
        return dict(sorted(sums.items()))

    def __iter__(self) -> Iterator[Count]:
        for (rule, place), values in sorted(self._all().items()):
            yield Count(rule, place, values)
