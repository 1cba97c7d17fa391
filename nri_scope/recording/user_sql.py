# SPDX-License-Identifier: Apache-2.0
"""Run a user's SELECT on a recording.

The connection is read-only already, but a query could still attach other files or change the
connection's settings. Refused statements are reported in nri-scope's words.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nri_scope.errors import RecordingError, UsageError

from .schema_check import repair_hint
from .sql_functions import PROBLEM

Cell = None | int | float | str | bytes

STEPS = 100_000
"""Virtual machine steps between two checks for signals, about a millisecond."""
_FETCH_ROWS, _FETCH_SIZE = 256, 1 << 20
"""Maximum number of rows that are read together, and of their characters and bytes."""

_READS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
_ACTIONS = {
    sqlite3.SQLITE_INSERT: "write to {0}",
    sqlite3.SQLITE_UPDATE: "write to {0}",
    sqlite3.SQLITE_DELETE: "delete from {0}",
    sqlite3.SQLITE_ATTACH: "attach another database",
    sqlite3.SQLITE_DETACH: "detach a database",
    sqlite3.SQLITE_TRANSACTION: "begin or end a transaction",
    sqlite3.SQLITE_SAVEPOINT: "begin or end a transaction",
}
_PRAGMAS = frozenset(
    {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"}
)
"""Pragmas that only return the definitions of tables."""
_SCHEMA = "SELECT sql FROM sqlite_master shows the tables and their columns"
# SQLite reports VACUUM as an ATTACH, because it first attaches the target database.
_VACUUM = re.compile(r"(?:[\s;]|--[^\n]*\n|/\*.*?\*/)*vacuum\b", re.IGNORECASE | re.DOTALL)
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer"})
_USE_SELECT = "recordings are read-only here: use SELECT"


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a query; ``rows`` can be iterated once, while the query runs."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Cell, ...]]


def run(connection: sqlite3.Connection, path: object, sql: str) -> Result:
    """Run one SELECT on a recording's connection.

    Raises UsageError for statements other than SELECT and for errors in SQL, RecordingError for
    errors in the file; both also while the rows are read. SIGINT interrupts the query at any time.
    """
    refused: list[UsageError] = []

    def authorize(
        action: int, first: str | None, second: str | None, _db: str | None, _inner: str | None
    ) -> int:
        if action in _READS and not (
            action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS
        ):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS:
            return sqlite3.SQLITE_OK
        refused.append(_refusal(sql, action, first or "", second or ""))
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
    return Result(columns, _rows(cursor, path, refused))


def _refusal(sql: str, action: int, first: str, second: str) -> UsageError:
    if action == sqlite3.SQLITE_PRAGMA:
        return UsageError(f"PRAGMA {first} is not available here", _SCHEMA)
    if action == sqlite3.SQLITE_FUNCTION:
        return UsageError(f"this SQL would call {second}()", _USE_SELECT)
    if _VACUUM.match(sql):
        return UsageError("this SQL would rewrite the recording", _USE_SELECT)
    schema = first.startswith("sqlite_")
    if schema and "pragma_" in sql.lower():
        # SQLite creates a virtual table for it.
        return UsageError("a PRAGMA is not available here as a table", "write PRAGMA table_info(x)")
    # The rest are CREATE, DROP, ALTER and so on, in many variants; some of them first write to
    # SQLite's own tables.
    refused_action = "change tables" if schema else _ACTIONS.get(action, "change tables")
    return UsageError(f"this SQL would {refused_action.format(first)}", _USE_SELECT)


def _check_signals() -> int:
    return 0


def _rows(
    cursor: sqlite3.Cursor, path: object, refused: list[UsageError]
) -> Iterator[tuple[Cell, ...]]:
    while True:
        with _translated_errors(path, refused):
            some = _some(cursor)
        if not some:
            return
        yield from some


def _some(cursor: sqlite3.Cursor) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    size = 0
    for row in cursor:
        rows.append(row)
        size += sum(len(cell) for cell in row if isinstance(cell, str | bytes))
        if len(rows) == _FETCH_ROWS or size > _FETCH_SIZE:
            break
    return rows


@contextmanager
def _translated_errors(path: object, refused: list[UsageError]) -> Iterator[None]:
    PROBLEM.set("")
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if refused:
            raise refused[0] from error
        if code == sqlite3.SQLITE_INTERRUPT:
            raise KeyboardInterrupt from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR):
            raise RecordingError(str(path), f"damaged: {error}", repair_hint(str(path))) from error
        if problem := PROBLEM.get():
            raise UsageError(f"SQL: {problem}") from error
        raise UsageError(f"SQL: {error}", _hint(str(error))) from error
    except UnicodeEncodeError as error:
        raise UsageError("SQL: the query is not UTF-8 text") from error
    except UnicodeDecodeError as error:
        raise RecordingError(
            str(path), "damaged: text in it is not UTF-8", repair_hint(str(path))
        ) from error
    except (sqlite3.Warning, ValueError, OverflowError) as error:
        # For example a NUL in the query, or too large a number.
        raise UsageError(f"SQL: {error}") from error


def _hint(problem: str) -> str:
    if problem.startswith("no such function"):
        return "there are SQLite's own functions, nri_json() and nri_object()"
    if problem.startswith("no such"):
        return _SCHEMA
    if problem.startswith("user-defined function"):
        return "check the regular expression after REGEXP"
    return ""
