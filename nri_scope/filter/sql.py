# SPDX-License-Identifier: Apache-2.0
"""Translation of a filter to an SQL condition on the reader's event view.

The view has a column for each attribute of ``events.Event``, never NULL, with text as TEXT;
``changed`` and ``owners`` are JSON arrays. Regular expressions require ``register``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from nri_scope.specs.path_labels import label, meaning

from .fields import WORD_COLUMNS, FieldKind, FilterField
from .text_comparison import fold, regex, sql_exactly, sql_glob
from .tree import And, Between, Is, Matches, Node, Not, Or, Word

Value = str | int
_Condition = tuple[str, list[Value]]

_INDEXED = "[0-9][0-9]-"


PATH_LABEL = "path_label"
"""SQL function that returns the label of an OCI path."""


def register(connection: sqlite3.Connection) -> None:
    """Register `PATH_LABEL` and the function behind the operator REGEXP on ``connection``."""
    connection.create_function("regexp", 2, _regexp, deterministic=True)
    connection.create_function(PATH_LABEL, 1, _path_label, deterministic=True)


def _regexp(pattern: object, text: object) -> bool | None:
    if not isinstance(pattern, str) or not isinstance(text, str):
        return None
    return regex(pattern).search(text)


def _path_label(path: object) -> str | None:
    return label(path) if isinstance(path, str) else None


def condition(node: Node) -> _Condition:
    """Return an SQL expression that yields 0 or 1, never NULL, and its parameters in order."""
    match node:
        case And(items):
            return _joined([condition(item) for item in items], "AND") if items else ("1", [])
        case Or(items):
            return _joined([condition(item) for item in items], "OR")
        case Not(item):
            text, values = condition(item)
            return f"NOT {text}", values
        case Word(text, wild):
            return _any_of(WORD_COLUMNS, lambda column: _word(column, text, wild))
        case Is(field, text, wild):
            return _on_values(field, lambda column: _is(field.kind, column, text, wild))
        case Matches(field, pattern) if field.kind is FieldKind.PATH:
            either = f"({{0}} REGEXP ? OR {PATH_LABEL}({{0}}) REGEXP ?)"
            return _on_values(field, lambda column: (either.format(column), [pattern, pattern]))
        case Matches(field, pattern):
            return _on_values(field, lambda column: (f"({column} REGEXP ?)", [pattern]))
        case Between(field, _, low, high):
            return _between(field, low, high)


def _joined(parts: Sequence[_Condition], operator: str) -> _Condition:
    # Build a balanced tree: SQLite rejects expressions deeper than 1000, and a chain of ANDs adds a
    # level for each.
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    left, left_values = _joined(parts[:half], operator)
    right, right_values = _joined(parts[half:], operator)
    return f"({left} {operator} {right})", left_values + right_values


def _any_of(columns: Sequence[str], make: Callable[[str], _Condition]) -> _Condition:
    return _joined([make(column) for column in columns], "OR")


def _on_values(field: FilterField, make: Callable[[str], _Condition]) -> _Condition:
    if not field.many:
        return _any_of(field.columns, make)
    text, values = make("item.value")
    return f"EXISTS (SELECT 1 FROM json_each({field.columns[0]}) AS item WHERE {text})", values


def _word(column: str, text: str, wild: bool) -> _Condition:
    if wild:
        return f"(lower({column}) GLOB ?)", [f"*{sql_glob(fold(text))}*"]
    return f"(instr(lower({column}), ?) > 0)", [fold(text)]


def _is(kind: FieldKind, column: str, text: str, wild: bool) -> _Condition:
    match kind:
        case FieldKind.WORD:
            return _equal(f"lower({column})", fold(text), wild)
        case FieldKind.PLUGIN if wild:
            glob = sql_glob(text)
            return f"({column} GLOB ? OR {column} GLOB ?)", [glob, _INDEXED + glob]
        case FieldKind.PLUGIN:
            # SQLite's GLOB stops at a NUL, so compare the whole text, too.
            return (
                f"({column} = ? OR ({column} GLOB ? AND {column} = substr({column}, 1, 3) || ?))",
                [text, _INDEXED + sql_exactly(text) + "*", text],
            )
        case FieldKind.ID:
            if wild:
                return f"({column} GLOB ?)", [f"{sql_glob(text)}*"]
            return f"(instr({column}, ?) = 1)", [text]
        case FieldKind.PATH:
            return _path(column, text, wild)
        case _:
            return _equal(column, text, wild)


def _path(column: str, text: str, wild: bool) -> _Condition:
    paths, key = meaning(text)
    tests: list[_Condition] = []
    for path in paths:
        if wild:
            glob = sql_glob(path)
            tests.append((f"({column} GLOB ? OR {column} GLOB ?)", [glob, f"{glob}/*"]))
        else:
            tests.append((f"({column} = ? OR instr({column}, ?) = 1)", [path, f"{path}/"]))
    if key and wild:
        tests.append((f"({column} || '/' GLOB ?)", [f"*/{sql_glob(key)}/*"]))
    elif key:
        tests.append((f"(instr({column} || '/', ?) > 0)", [f"/{key}/"]))
    return _joined(tests, "OR")


def _equal(column: str, text: str, wild: bool) -> _Condition:
    if wild:
        return f"({column} GLOB ?)", [sql_glob(text)]
    return f"({column} = ?)", [text]


def _between(field: FilterField, low: int | None, high: int | None) -> _Condition:
    column = field.columns[0]
    if field.kind is FieldKind.INDEX:
        column = (
            f"(CASE WHEN {column} GLOB '{_INDEXED}*' "
            f"THEN CAST(substr({column}, 1, 2) AS INTEGER) ELSE -1 END)"
        )
    bounds: list[_Condition] = []
    if low is not None:
        bounds.append((f"({column} >= ?)", [low]))
    if high is not None:
        bounds.append((f"({column} <= ?)", [high]))
    return _joined(bounds, "AND")
