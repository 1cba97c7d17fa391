# SPDX-License-Identifier: Apache-2.0
"""Read the objects of a recording."""

from __future__ import annotations

import sqlite3

from .blobs import ContentError, StoredObject, load
from .cache import RecentlyUsed

_KEPT_BYTES = 8 << 20
_TYPES = (int, int, bytes, int, bytes)


def fetch(connection: sqlite3.Connection, object_id: int) -> StoredObject | None:
    """Return a row of the table ``object``, or None. Raises ContentError and sqlite3.Error."""
    row = connection.execute(
        "SELECT id, kind, hash, size, data, base FROM object WHERE id = ?", (object_id,)
    ).fetchone()
    if row is None:
        return None
    *values, base = row
    if tuple(map(type, values)) != _TYPES or not (base is None or type(base) is int):
        raise ContentError(f"object {object_id} has values of a wrong type")
    number, kind, hash_, size, data = values
    return StoredObject(number, kind, hash_, size, base, data)


class Objects:
    """Unpacks objects, and caches recently unpacked ones.

    Methods raise ContentError if an object is missing or damaged, and sqlite3.Error.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._kept: RecentlyUsed[int, tuple[int, bytes]] = RecentlyUsed(_KEPT_BYTES)

    def get(self, object_id: int) -> tuple[int, bytes]:
        """Return an object's kind and content."""
        kept = self._kept.get(object_id)
        if kept is None:
            # Its dictionary is mostly an object that was read just before.
            kept = load(object_id, lambda wanted: fetch(self._connection, wanted), self._kept.get)
            self._kept.put(object_id, kept, len(kept[1]) + 100)
        return kept

    def content(self, object_id: int | None) -> bytes | None:
        """Return an object's content; None for None."""
        return None if object_id is None else self.get(object_id)[1]
