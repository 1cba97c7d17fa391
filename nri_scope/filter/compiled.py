# SPDX-License-Identifier: Apache-2.0
"""Parsed filters, ready to be evaluated.

They are evaluated in Python for events that are not in a file (yet).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from nri_scope.events import Event
from nri_scope.specs.path_labels import label, meaning

from .fields import WORD_COLUMNS, FieldKind, FilterField
from .moments import TimeSpan
from .parser import WorkloadParser, parse_tree
from .sql import Value, condition
from .text_comparison import fold, glob_test, regex
from .tree import And, Between, Is, Matches, Node, Not, Or, Word

Predicate = Callable[[Event], bool]
_Test = Callable[[str], bool]

INDEXED = re.compile(r"[0-9][0-9]-")
"""Start of a plugin's ``NN-name``."""

_words: Callable[[Event], tuple[str, ...]] = attrgetter(*WORD_COLUMNS)


def predicate(node: Node) -> Predicate:
    """Return a function that tests whether an event matches ``node``."""
    match node:
        case And(items):
            all_tests = tuple(predicate(item) for item in items)
            return lambda event: all(test(event) for test in all_tests)
        case Or(items):
            any_tests = tuple(predicate(item) for item in items)
            return lambda event: any(test(event) for test in any_tests)
        case Not(item):
            inner = predicate(item)
            return lambda event: not inner(event)
        case Word(text, wild):
            return _word(text, wild)
        case Is(field, text, wild):
            return _on_values(field, _is(field.kind, text, wild))
        case Matches(field, pattern):
            search: _Test = regex(pattern).search
            if field.kind is FieldKind.PATH:
                return _on_values(field, lambda path: search(path) or search(label(path)))
            return _on_values(field, search)
        case Between(field, _, low, high):
            return _between(field, low, high)


def _on_values(field: FilterField, test: _Test) -> Predicate:
    columns = field.columns
    if field.many:
        list_of: Callable[[Event], tuple[str, ...]] = attrgetter(columns[0])
        return lambda event: any(test(value) for value in list_of(event))
    if len(columns) == 1:
        value_of: Callable[[Event], str] = attrgetter(columns[0])
        return lambda event: test(value_of(event))
    values_of: Callable[[Event], tuple[str, ...]] = attrgetter(*columns)
    return lambda event: any(test(value) for value in values_of(event))


def _word(text: str, wild: bool) -> Predicate:
    folded_text = fold(text)
    if wild:
        test = glob_test(f"*{folded_text}*")
        return lambda event: any(test(fold(value)) for value in _words(event))
    return lambda event: any(folded_text in fold(value) for value in _words(event))


def _is(kind: FieldKind, text: str, wild: bool) -> _Test:
    match kind:
        case FieldKind.WORD:
            folded = _equal(fold(text), wild)
            return lambda value: folded(fold(value))
        case FieldKind.PLUGIN:
            named = _equal(text, wild)
            return lambda value: (
                named(value) or (INDEXED.match(value) is not None and named(value[3:]))
            )
        case FieldKind.ID:
            return glob_test(f"{text}*") if wild else lambda value: value.startswith(text)
        case FieldKind.PATH:
            return _path(text, wild)
        case _:
            return _equal(text, wild)


def _path(text: str, wild: bool) -> _Test:
    meant = meaning(text)
    paths, key = meant
    if wild:
        globs = [glob_test(pattern) for path in paths for pattern in (path, f"{path}/*")]
        in_path = glob_test(f"*/{key}/*") if key else None
        return lambda value: (
            any(test(value) for test in globs)
            or (in_path is not None and bool(in_path(f"{value}/")))
        )
    return meant.includes


def _equal(text: str, wild: bool) -> _Test:
    return glob_test(text) if wild else text.__eq__


def _between(field: FilterField, low: int | None, high: int | None) -> Predicate:
    number: Callable[[Event], int]
    number = _index if field.kind is FieldKind.INDEX else attrgetter(field.columns[0])
    least = -sys.maxsize if low is None else low
    most = sys.maxsize if high is None else high
    return lambda event: least <= number(event) <= most


def _index(event: Event) -> int:
    plugin = event.plugin
    return int(plugin[:2]) if INDEXED.match(plugin) else -1


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
    def comparisons(self) -> int:
        """Number of comparisons with the texts of one event, roughly in units of 1 µs."""
        return _comparisons(self.root)

    @property
    def times(self) -> tuple[int | None, int | None]:
        """Times between which all matching events are, both included, in ns since the epoch; None
        for no limit.
        """
        return _times(self.root)

    @property
    def events(self) -> frozenset[str] | None:
        """Names of NRI events, one of which each matching event has; None: any, or a pattern."""
        return _events(self.root)

    def __str__(self) -> str:
        return str(self.root)


_LIST, _REGEX = 5, 20
"""Cost of a list of texts, and of a regular expression, in comparisons of single texts."""


def _comparisons(node: Node) -> int:
    match node:
        case And(items) | Or(items):
            return sum(map(_comparisons, items))
        case Not(item):
            return _comparisons(item)
        case Word():
            return len(WORD_COLUMNS)
        case Is(field) | Matches(field) | Between(field):
            texts = _LIST if field.many else len(field.columns)
            return texts * (_REGEX if isinstance(node, Matches) else 1)


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


def _events(node: Node) -> frozenset[str] | None:
    match node:
        case Is(field, text, wild=False) if field.name == "event":
            return frozenset({text})
        case And(items):
            restricted = [names for names in map(_events, items) if names is not None]
            return frozenset.intersection(*restricted) if restricted else None
        case Or(items):
            alternatives = [_events(item) or frozenset() for item in items]
            return frozenset.union(*alternatives) if alternatives and all(alternatives) else None
        case _:
            return None


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


def parse_workload(text: str) -> Callable[[Any], bool]:
    """Return a test of pods and containers, by `WORKLOAD_FIELDS`. Raises only FilterError.

    It takes an object with the attributes of an Event that name a pod or container, and
    ``annotations``.
    """
    return predicate(WorkloadParser(text, None, None).parse())
