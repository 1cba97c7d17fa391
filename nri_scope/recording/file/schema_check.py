# SPDX-License-Identifier: Apache-2.0
"""Check that an untrusted file is a recording without active content.

Besides rows, an SQLite file can contain triggers, and views, virtual tables or computed columns in
place of plain tables. A file with any of these is refused.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from nri_scope.errors import RecordingError

from .schema import APPLICATION_ID, OLDER_VIEWS, TABLES, VERSION, VIEWS, Column, Table

_MAX_OBJECTS = 1_000
_NOT_A_RECORDING = "not an nri-scope recording"

_KNOWN_VIEWS = frozenset(
    " ".join(f"CREATE VIEW {name} AS {sql}".split())
    for name, sqls in OLDER_VIEWS.items()
    for sql in (VIEWS[name], *sqls)
)

GIVE_A_RECORDING = "give a *.nriscope.db that `nri-scope record` wrote, or a *.nriscope.zip"
MAKE_A_RECORDING = (
    "open a scenario or manifest with `tui`, or make it a recording with `scenario compile`"
)
FIRST_BYTES = (b"SQLite format 3\0", b"PK\3\4")
"""First bytes of recordings and bundles."""
SCENARIO_SUFFIXES = (".yaml", ".yml", ".json")
"""Suffixes of the names of scenarios and manifests."""
STANDARD_INPUT = Path("-")
"""The path that stands for standard input, which can only be a scenario or a manifest."""


def repair_hint(path: str | Path) -> str:
    """Return advice for a damaged file. Not ``.recover``, which some builds of sqlite3 lack."""
    if Path(path).suffix.lower() == ".zip":
        return "unzip it, and `sqlite3 recording.nriscope.db .dump` prints what can still be read"
    return "`sqlite3 FILE .dump` prints what can still be read of it"


def check(connection: sqlite3.Connection, path: Path) -> int:
    """Return the format version of an open recording.

    Raises RecordingError for other files and for newer versions, and sqlite3.Error.
    """
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise RecordingError(
            path, f"{_NOT_A_RECORDING} but some other SQLite database", GIVE_A_RECORDING
        )
    version = _pragma(connection, "user_version")
    if version > VERSION:
        raise RecordingError(
            path,
            f"a recording of version {version}, and this nri-scope reads up to {VERSION}",
            "upgrade nri-scope",
        )
    if version < 1:
        raise RecordingError(
            path, f"{_NOT_A_RECORDING}: its version is {version}", GIVE_A_RECORDING
        )
    return version


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Check that a recording has all tables of its version, and no triggers or unknown views.

    Additional tables, columns and indexes are allowed, as other programs may have added them.
    Tables that were added to a version later (`Table.since_first`) may be missing. Raises
    RecordingError and sqlite3.Error.
    """
    version = _pragma(connection, "user_version")
    objects = connection.execute(
        "SELECT type, lower(name), coalesce(sql, '') FROM sqlite_master LIMIT ?", (_MAX_OBJECTS,)
    ).fetchall()
    if len(objects) == _MAX_OBJECTS:
        raise RecordingError(path, f"{_NOT_A_RECORDING}: too many tables", GIVE_A_RECORDING)
    tables = set()
    for kind, name, sql in objects:
        if kind == "view":
            allowed = _normalized(sql) in _KNOWN_VIEWS
        else:
            # No table or index may have the name of a view that users expect.
            allowed = kind in ("table", "index") and name not in VIEWS
        if not allowed or not isinstance(name, str) or not isinstance(sql, str):
            raise RecordingError(path, f"holds a {kind}, which no recording has", "do not trust it")
        if kind == "table":
            if not sql.upper().startswith("CREATE TABLE"):
                raise RecordingError(
                    path, "holds a virtual table, which no recording has", "do not trust it"
                )
            tables.add(name)
    for table in TABLES:
        if table.name not in tables and not table.since_first:
            continue
        columns = (
            {
                # (number, name, type, not null, default, primary key, hidden)
                str(row[1]).lower(): row[6]
                for row in connection.execute(f"PRAGMA table_xinfo({table.name})")
            }
            if table.name in tables
            else {}
        )
        for column in table.columns:
            # The recorder creates no hidden or computed columns.
            if column.since <= version and columns.get(column.name) != 0:
                raise RecordingError(
                    path,
                    f"{_NOT_A_RECORDING}, or damaged: no {column.name} in its table {table.name}",
                    GIVE_A_RECORDING,
                )


def _normalized(sql: object) -> str:
    return " ".join(sql.split()) if isinstance(sql, str) else ""


def has_table(connection: sqlite3.Connection, table: str) -> bool:
    """Return whether the recording has a table that older ones lack. Raises sqlite3.Error."""
    row = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    return row is not None


def missing_columns(connection: sqlite3.Connection, table: Table) -> list[Column]:
    """Return the columns that older recordings lack. Raises sqlite3.Error."""
    version = _pragma(connection, "user_version")
    return [column for column in table.columns if column.since > version]


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
