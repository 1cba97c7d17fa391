# SPDX-License-Identifier: Apache-2.0
"""Why a filter matches no event: a value that no event has, and the most similar ones."""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope.errors import nearest_words
from nri_scope.filter.compiled import Filter
from nri_scope.filter.fields import BY_NAME, FieldKind, FilterField
from nri_scope.filter.sql import condition
from nri_scope.filter.tree import And, Is, Node, Or, Word, quote
from nri_scope.specs.path_labels import label

from .reader import Recording
from .sqlite_errors import query_rows

_COMPARED_MAX = 5_000
"""Maximum number of values that are compared for a suggestion, each in about 20 µs."""
_EXAMINED_MAX = 100_000
"""Maximum number of events whose values are compared."""
_SHOWN = 3
_TEXTS = (FieldKind.NAME, FieldKind.PLUGIN, FieldKind.PATH)


def unmatched_words(recording: Recording, where: Filter | None) -> str:
    """Name the first value that no event has, with similar ones; "" if there is none.

    Raises RecordingError.
    """
    for term in () if where is None else _terms(where.root):
        match term:
            case Word(text) if text.partition("=")[0] in BY_NAME and "=" in text:
                name, _, value = text.partition("=")
                return f'"{text}" is searched in names; did you mean {name}:{quote(value)}?'
            case Is(field, text, wild=False) if field.kind in _TEXTS and text:
                sql, parameters = condition(term)
                query = f"SELECT 1 FROM events WHERE {sql} LIMIT 1"
                if not query_rows(recording, query, *parameters):
                    similar = _similar(text, _values(recording, field))
                    meant = " or ".join(f"{field.name}:{quote(value)}" for value in similar)
                    return f"no event has {term}" + (f"; did you mean {meant}?" if meant else "")
            case _:
                pass
    return ""


def _terms(node: Node) -> Iterator[Node]:
    """Yield the terms of a filter that are not negated."""
    match node:
        case And(items) | Or(items):
            for item in items:
                yield from _terms(item)
        case Is() | Word():
            yield node
        case _:
            pass


def _values(recording: Recording, field: FilterField) -> list[str]:
    """Return distinct values of a field, as they are shown."""
    some = f"(SELECT {field.columns[0]} AS value FROM events LIMIT {_EXAMINED_MAX})"
    source = f"{some} AS some, json_each(some.value) AS item" if field.many else f"{some} AS item"
    query = f"SELECT DISTINCT item.value FROM {source} LIMIT {_COMPARED_MAX}"
    values = [str(value) for (value,) in query_rows(recording, query)]
    return [*map(label, values)] if field.kind is FieldKind.PATH else values


def _similar(text: str, values: list[str]) -> list[str]:
    """Return the shortest value that contains ``text``, or else the most similar ones."""
    containing = [value for value in values if text.lower() in value.lower()]
    if containing:
        return [min(containing, key=len)]
    return nearest_words(text, values, _SHOWN, cutoff=0.5)
