# SPDX-License-Identifier: Apache-2.0
"""Upgrade recordings of older versions, on a copy and one version at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from .schema import VERSION

Converter = Callable[[sqlite3.Connection], None]

CONVERTERS: Mapping[int, Converter] = {}
"""Converters from each version to the next; none yet, as there is only version 1.

A converter runs inside a transaction, and never changes once released. It must not depend on
`schema`, which defines only the current version. The recording of each version in
tests/data/recordings/ tests its converter.
"""


def upgrade(
    connection: sqlite3.Connection,
    version: int,
    to: int = VERSION,
    converters: Mapping[int, Converter] = CONVERTERS,
) -> None:
    """Upgrade an open recording from ``version`` to version ``to``. Raises sqlite3.Error.

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

    SQLite deletes the copy when the connection is closed. Raises sqlite3.Error.
    """
    copy = sqlite3.connect("", isolation_level=None)
    try:
        source.backup(copy)
        upgrade(copy, version, to, converters)
    except BaseException:
        copy.close()
        raise
    return copy
