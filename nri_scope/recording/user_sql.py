# SPDX-License-Identifier: Apache-2.0
"""Run a user's SELECT on a recording.

The connection is read-only already, but a query could still attach other files or change the
connection's settings.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nri_scope.errors import RecordingError, UsageError

from .file.file_errors import TOO_LARGE
from .file.schema_check import repair_hint

Cell = None | int | float | str | bytes

STEPS = 100_000
"""Virtual machine steps between two checks for signals, about a millisecond."""

_READS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
_PRAGMAS = frozenset(
    {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"}
)
"""Pragmas that only return the definitions of tables."""
_SCHEMA = "SELECT sql FROM sqlite_master shows the tables and their columns"
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer"})
_USE_SELECT = "recordings are read-only here: use SELECT, or PRAGMA table_info(x)"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Result of a query; ``rows`` can be iterated once, while the query runs."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Cell, ...]]


def run(connection: sqlite3.Connection, path: object, sql: str) -> QueryResult:
    """Run one SELECT on a recording's connection.

    Raises UsageError for statements other than SELECT and for errors in SQL, RecordingError for
    errors in the file; both also while the rows are read. SIGINT interrupts the query at any time.
    """
    refused: list[int] = []

    def authorize(
        action: int, first: str | None, second: str | None, _db: str | None, _inner: str | None
    ) -> int:
        if action in _READS and not (
            action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS
        ):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS:
            return sqlite3.SQLITE_OK
        refused.append(action)
        return sqlite3.SQLITE_DENY

    cursor: sqlite3.Cursor | None = None
    connection.set_authorizer(authorize)
    # The handler does nothing, but each call lets Python handle signals.
    connection.set_progress_handler(_check_signals, STEPS)
    with _translated_errors(path, refused):
        cursor = connection.execute(sql)
    if cursor.description is None:
        raise UsageError("this SQL returns no rows", _USE_SELECT)
    columns = tuple(str(column[0]) for column in cursor.description)
    return QueryResult(columns, _rows(cursor, path, refused))


def _check_signals() -> int:
    return 0


def _rows(cursor: sqlite3.Cursor, path: object, refused: list[int]) -> Iterator[tuple[Cell, ...]]:
    with _translated_errors(path, refused):
        yield from cursor


@contextmanager
def _translated_errors(path: object, refused: list[int]) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if refused:
            raise UsageError("this SQL would do more than read", _USE_SELECT) from error
        if code == sqlite3.SQLITE_INTERRUPT:
            raise KeyboardInterrupt from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR):
            raise RecordingError(str(path), f"damaged: {error}", repair_hint(str(path))) from error
        raise UsageError(f"SQL: {error}", _hint(str(error))) from error
    except UnicodeEncodeError as error:
        raise UsageError("SQL: the query is not UTF-8 text") from error
    except (UnicodeDecodeError, MemoryError) as error:
        problem = "damaged: text in it is not UTF-8"
        if isinstance(error, MemoryError):
            problem = TOO_LARGE
        raise RecordingError(str(path), problem, repair_hint(str(path))) from error
    except (sqlite3.Warning, ValueError, OverflowError) as error:
        # For example a NUL in the query, or too large a number.
        raise UsageError(f"SQL: {error}") from error


def _hint(problem: str) -> str:
    if problem.startswith("no such function"):
        return "there are SQLite's own functions, nri_json() and nri_object()"
    if problem.startswith("no such"):
        return _SCHEMA
    if problem.startswith("user-defined function"):
        # sqlite3 does not forward the text of an exception.
        return "write nri_json(id, 'reply'), nri_object(pod_object), x REGEXP 'RE2'"
    return ""
