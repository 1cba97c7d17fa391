# SPDX-License-Identifier: Apache-2.0
"""Truncate overlong names in forged files.

Many events refer to the same row of a session, a pod, a container or a name, so a single name of
megabytes would be read again with every event.
"""

from __future__ import annotations

import sqlite3
import warnings
from pathlib import Path

from nri_scope.errors import RecordingCut, RecordingError

from .schema import TABLES, Table
from .sqlite_text import NAME_MAX, characters_sql, cut_sql

MAX_NAMED = 1_000_000
"""Maximum number of rows of one of these tables."""
MAX_CHARACTERS = 64 << 20
"""Maximum number of characters of all names in one of these tables."""

_TABLES = tuple(table for table in TABLES if table.name in ("session", "pod", "container", "name"))


def bound_names(connection: sqlite3.Connection, path: Path, shown: Path) -> bool:
    """Truncate names to `NAME_MAX` characters for the connection, with a warning; return whether
    any was longer.

    A table with a longer name is hidden by a temporary table of the same name, which has the
    truncated names. The warning names the file ``shown``. Raises RecordingError if there are too
    many rows or characters, and sqlite3.Error.
    """
    hidden = False
    for table in _TABLES:
        texts = [column.name for column in table.columns if column.type.startswith("TEXT")]
        # The number of bytes is an upper bound, and takes half the time to count.
        size = " + ".join(f"coalesce(length(CAST({name} AS BLOB)), 0)" for name in texts)
        rows, largest = connection.execute(
            f"SELECT count(*), coalesce(max({size}), 0) FROM main.{table.name}"
        ).fetchone()
        if rows <= MAX_NAMED and largest <= min(NAME_MAX, MAX_CHARACTERS // max(1, rows)):
            continue
        lengths = [f"coalesce({characters_sql(name)}, 0)" for name in texts]
        longest = lengths[0] if len(lengths) == 1 else f"max({', '.join(lengths)})"
        characters, longest_one = connection.execute(
            f"SELECT total(min({' + '.join(lengths)}, {NAME_MAX * len(texts)})), "
            f"coalesce(max({longest}), 0) FROM main.{table.name}"
        ).fetchone()
        if rows > MAX_NAMED or characters > MAX_CHARACTERS:
            raise RecordingError(
                path,
                f"its {table.name}s have too many names, or names that are too long",
                "nri-scope never writes such a recording: do not trust it",
            )
        if longest_one > NAME_MAX:
            hidden = True
            _hide(connection, table, texts)
            warnings.warn(
                RecordingCut(
                    f"{shown}: a {table.name} has a text of more than {NAME_MAX:,} characters; "
                    "longer texts are truncated"
                ),
                stacklevel=2,
            )
    return hidden


def _hide(connection: sqlite3.Connection, table: Table, texts: list[str]) -> None:
    columns = ", ".join(
        f"{column.name} {'INTEGER PRIMARY KEY' if at == 0 else column.type.split()[0]}"
        for at, column in enumerate(table.columns)
    )
    values = ", ".join(
        cut_sql(column.name, NAME_MAX) if column.name in texts else column.name
        for column in table.columns
    )
    connection.execute(f"CREATE TEMP TABLE {table.name} ({columns})")
    connection.execute(f"INSERT INTO temp.{table.name} SELECT {values} FROM main.{table.name}")
    for column in table.indexes:
        connection.execute(f"CREATE INDEX temp.{table.name}_by_{column} ON {table.name} ({column})")
