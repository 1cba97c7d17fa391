# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a filter in Python, for events that are not in a file (yet)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from operator import attrgetter

from nri_scope.events import Event
from nri_scope.specs.path_labels import label, meaning

from .fields import WORD_COLUMNS, Field, FieldKind
from .re2_patterns import regex
from .text_comparison import fold, glob_test
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


def _on_values(field: Field, test: _Test) -> Predicate:
    columns = field.columns
    if field.many:
        many: Callable[[Event], tuple[str, ...]] = attrgetter(columns[0])
        return lambda event: any(test(value) for value in many(event))
    if len(columns) == 1:
        one: Callable[[Event], str] = attrgetter(columns[0])
        return lambda event: test(one(event))
    several: Callable[[Event], tuple[str, ...]] = attrgetter(*columns)
    return lambda event: any(test(value) for value in several(event))


def _word(text: str, wild: bool) -> Predicate:
    folded_text = fold(text)
    if wild:
        test = glob_test(f"*{folded_text}*")
        return lambda event: any(test(fold(value)) for value in _words(event))
    return lambda event: any(folded_text in fold(value) for value in _words(event))


def _is(kind: FieldKind, text: str, wild: bool) -> _Test:
    match kind:
        case FieldKind.WORD:
            folded = _whole(fold(text), wild)
            return lambda value: folded(fold(value))
        case FieldKind.PLUGIN:
            named = _whole(text, wild)
            return lambda value: (
                named(value) or (INDEXED.match(value) is not None and named(value[3:]))
            )
        case FieldKind.ID:
            return glob_test(f"{text}*") if wild else lambda value: value.startswith(text)
        case FieldKind.PATH:
            return _path(text, wild)
        case _:
            return _whole(text, wild)


def _path(text: str, wild: bool) -> _Test:
    meant = meaning(text)
    paths, key = meant
    if wild:
        globs = [glob_test(each) for path in paths for each in (path, f"{path}/*")]
        in_path = glob_test(f"*/{key}/*") if key else None
        return lambda value: (
            any(test(value) for test in globs)
            or (in_path is not None and bool(in_path(f"{value}/")))
        )
    return meant.includes


def _whole(text: str, wild: bool) -> _Test:
    return glob_test(text) if wild else text.__eq__


def _between(field: Field, low: int | None, high: int | None) -> Predicate:
    number: Callable[[Event], int]
    number = _index if field.kind is FieldKind.INDEX else attrgetter(field.columns[0])
    least = -sys.maxsize if low is None else low
    most = sys.maxsize if high is None else high
    return lambda event: least <= number(event) <= most


def _index(event: Event) -> int:
    plugin = event.plugin
    return int(plugin[:2]) if INDEXED.match(plugin) else -1
