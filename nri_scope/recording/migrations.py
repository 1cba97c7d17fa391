# SPDX-License-Identifier: Apache-2.0
"""Upgrade recordings of older versions step by step, on a copy."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from .schema import VERSION

Converter = Callable[[sqlite3.Connection], None]

CONVERTERS: Mapping[int, Converter] = {}
"""Converters from a version to the next. Version 1 is the first, so there is none yet.

A converter gets a recording of its version, within a transaction, and never changes once released.
The definitions of version n in `schema` are no longer needed when n+1 comes: the fixture of each
version, in tests/data/recordings/, shows whether its converter still works.
"""


def upgrade(
    connection: sqlite3.Connection,
    version: int,
    to: int = VERSION,
    converters: Mapping[int, Converter] = CONVERTERS,
) -> None:
    """Bring an open recording from ``version`` to version ``to``. Raises sqlite3.Error.

    Each step and its version number in the file are one transaction.
    """
    for step in range(version, to):
        connection.execute("BEGIN IMMEDIATE")
        try:
            converters[step](connection)
            connection.execute(f"PRAGMA user_version = {step + 1}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def upgraded_copy(
    source: sqlite3.Connection,
    version: int,
    to: int = VERSION,
    converters: Mapping[int, Converter] = CONVERTERS,
) -> sqlite3.Connection:
    """Return a private, temporary copy of an older recording, upgraded to version ``to``.

    SQLite deletes it when it is closed. Raises sqlite3.Error.
    """
    copy = sqlite3.connect("", isolation_level=None)
    try:
        source.backup(copy)
        upgrade(copy, version, to, converters)
    except BaseException:
        copy.close()
        raise
    return copy
