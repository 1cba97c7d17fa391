# SPDX-License-Identifier: Apache-2.0
"""Parsed filters, ready to be evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_scope.events import Event

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

    def __str__(self) -> str:
        return str(self.root)


def _fields(node: Node) -> Iterator[str]:
    match node:
        case And(items) | Or(items):
            for item in items:
                yield from _fields(item)
        case Not(item):
            yield from _fields(item)
        case Is(field) | Matches(field) | Between(field):
            yield field.name


def parse(text: str) -> Filter:
    """Parse ``text`` into a filter; the empty text matches every event.

    Raises only FilterError, with the position of the problem.
    """
    return Filter(text, parse_tree(text))
