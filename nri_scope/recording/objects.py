# SPDX-License-Identifier: Apache-2.0
"""Read and unpack the objects of a recording."""

from __future__ import annotations

import sqlite3

from .blobs import ContentError, StoredObject, load
from .cache import RecentlyUsed

_CACHE_BYTES = 8 << 20
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
    """Unpacked objects of a recording, with a cache of recently used ones.

    Methods raise ContentError if an object is missing or damaged, and sqlite3.Error.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._cache: RecentlyUsed[int, tuple[int, bytes]] = RecentlyUsed(_CACHE_BYTES)

    def get(self, object_id: int) -> tuple[int, bytes]:
        """Return an object's kind and content."""
        found = self._cache.get(object_id)
        if found is None:
            # Its dictionary was usually read shortly before.
            found = load(object_id, lambda number: fetch(self._connection, number), self._cache.get)
            self._cache.put(object_id, found, len(found[1]) + 100)
        return found

    def content(self, object_id: int | None) -> bytes | None:
        """Return an object's content; None for None."""
        return None if object_id is None else self.get(object_id)[1]
