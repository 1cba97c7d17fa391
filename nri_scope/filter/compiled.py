# SPDX-License-Identifier: Apache-2.0
"""Parsed filters, ready to be evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.events import Event

from .moments import TimeSpan
from .parser import parse_tree
from .predicate import Predicate, predicate
from .sql import Value, condition
from .tree import And, Between, Is, Matches, Node, Not, Or


@dataclass(frozen=True, slots=True)
class Filter:
    """Condition on events. Filters are equal if their trees are equal, whatever their text."""

    text: str = field(compare=False)
    """The text as typed; ``str()`` gives the canonical form."""
    root: Node
    _test: Predicate = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Compiled once, because matches() runs for every recorded event.
        object.__setattr__(self, "_test", predicate(self.root))

    def matches(self, event: Event) -> bool:
        """Return whether ``event`` matches."""
        return self._test(event)

    def to_sql(self) -> tuple[str, list[Value]]:
        """Return the filter as a WHERE condition on the reader's event view, and its parameters."""
        return condition(self.root)

    @property
    def fields(self) -> frozenset[str]:
        """The names of the fields that the filter uses."""
        return frozenset(_fields(self.root))

    def within(self, span: TimeSpan | None, now_ns: int | None = None) -> Filter:
        """Return the filter for the recording with this span, on which relative times and times
        without a date depend. Raises FilterError if a time is ambiguous. ``now_ns``: see `moment`.
        """
        return parse(self.text, span, now_ns) if "time" in self.fields else self

    @property
    def times(self) -> tuple[int | None, int | None]:
        """Times between which all matching events are, both included, in ns since the epoch; None
        for no limit.
        """
        return _times(self.root)

    def __str__(self) -> str:
        return str(self.root)


def _times(node: Node) -> tuple[int | None, int | None]:
    match node:
        case Between(field, _, low, high) if field.name == "time":
            return low, high
        case And(items) if items:
            lows, highs = zip(*map(_times, items), strict=True)
            return (
                max((low for low in lows if low is not None), default=None),
                min((high for high in highs if high is not None), default=None),
            )
        case _:
            return None, None


def _fields(node: Node) -> Iterator[str]:
    match node:
        case And(items) | Or(items):
            for item in items:
                yield from _fields(item)
        case Not(item):
            yield from _fields(item)
        case Is(field) | Matches(field) | Between(field):
            yield field.name


def parse(text: str, span: TimeSpan | None = None, now_ns: int | None = None) -> Filter:
    """Parse ``text`` into a filter; the empty text matches every event.

    ``span``: that of the recording; None for events as they happen (see `Filter.within`). Raises
    only FilterError, with the position of the problem.
    """
    return Filter(text, parse_tree(text, span, now_ns))
