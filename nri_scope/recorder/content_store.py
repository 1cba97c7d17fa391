# SPDX-License-Identifier: Apache-2.0
"""Content-addressed storage: one object per content and stretch, packed against a similar one.

Names of methods, events and services are stored once, in a table of their own.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from nri_scope.recording.blobs import MAX_DEPTH, ObjectKind, Packer, StoredObject, digest
from nri_scope.recording.cache import RecentlyUsed
from nri_scope.recording.row_limits import TableLimits
from nri_scope.recording.sqlite_text import named

_MAX_HASHES = 8_192
"""Number of contents cached by hash, about 200 bytes each. A content evicted from the cache is
stored again when it recurs, which costs only space.
"""
_MAX_VERSION_BYTES = 3 << 20
"""Bytes of contents cached as dictionaries: the newest versions of at least 700 containers."""
_MAX_MODELS = 128
"""Number of cached dictionaries for contents without an earlier version of their own."""
_POOR_RATIO = 0.75
"""Size with a dictionary, relative to the size without, above which no dictionary is used."""
_SHORT_BYTES = 64
"""Maximum size of a short content: a state, a pid, a few times."""


class _Base(NamedTuple):
    id: int
    content: bytes
    depth: int


class ObjectStore:
    """Store of objects that detects duplicates and selects a dictionary for each new content.

    New rows accumulate in ``rows`` until `flush`. Not thread-safe.
    """

    def __init__(self, next_id: int) -> None:
        self.next_id = next_id
        self.rows: list[StoredObject] = []
        self.stored_bytes = 0
        """Packed bytes of all new objects so far."""
        self._packer = Packer()
        self._known: RecentlyUsed[tuple[int, bytes], int] = RecentlyUsed(_MAX_HASHES)
        self._versions: RecentlyUsed[tuple[int, str], _Base] = RecentlyUsed(_MAX_VERSION_BYTES)
        self._models: RecentlyUsed[tuple[int, str], _Base] = RecentlyUsed(_MAX_MODELS)

    def begin_stretch(self) -> None:
        """Begin a stretch; its objects never refer to objects of earlier stretches."""
        self._known.clear()
        self._versions.clear()
        self._models.clear()

    def put(self, kind: ObjectKind, content: bytes, own: str, like: str) -> int:
        """Return the id of the object with ``content``, creating it if necessary.

        ``own`` identifies the pod, container or other source of which this is a version ("" for
        none); ``like`` identifies a group of similar contents.
        """
        # Short contents are frequent: as cache keys they replace their own hashes.
        short = len(content) <= _SHORT_BYTES
        content_hash = content if short else digest(content)
        key = (int(kind), content_hash)
        known = self._known.get(key)
        if known is not None:
            return known
        object_id = self.next_id
        self.next_id += 1
        base, data = self._pack(kind, content, own, like, object_id)
        if short:
            content_hash = digest(content)
        self.rows.append(StoredObject(object_id, key[0], content_hash, len(content), base, data))
        self.stored_bytes += len(data)
        self._known.put(key, object_id)
        return object_id

    def flush(self, connection: sqlite3.Connection) -> None:
        """Write the new rows. Raises sqlite3.Error."""
        if self.rows:
            connection.executemany("INSERT INTO object VALUES (?, ?, ?, ?, ?, ?)", self.rows)
            self.rows = []

    def _pack(
        self, kind: ObjectKind, content: bytes, own: str, like: str, object_id: int
    ) -> tuple[int | None, bytes]:
        previous = self._versions.get((kind, own)) if own else None
        model = None if previous else self._model(kind, like)
        base = previous or model
        packed = self._packer.against(content, base.content, base.id) if base else None
        if packed is None or (model is not None and len(packed) > len(content) // 4):
            # The model may be too different: compare with packing without a dictionary.
            alone = self._packer.alone(content)
            if packed is None or len(packed) > _POOR_RATIO * len(alone):
                base, packed = None, alone
        depth = base.depth + 1 if base else 0
        this = _Base(object_id, content, depth)
        # All versions are packed against the first one, until the difference gets too large.
        if own and depth < MAX_DEPTH and (previous is None or len(packed) > _SHORT_BYTES):
            self._versions.put((kind, own), this, len(content))
        if depth == 0 and len(content) <= 1 << 16:
            self._models.put((kind, like), this)
            self._models.put((kind, ""), this)
        return (base.id if base else None), packed

    def _model(self, kind: ObjectKind, like: str) -> _Base | None:
        return self._models.get((kind, like)) or self._models.get((kind, ""))


_MAX_CACHED = 4_096
"""Number of cached names; others are looked up in the file. A runtime uses about thirty."""


class Names:
    """The table ``name``. Methods raise sqlite3.Error and LimitReached."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._ids: dict[str, int] = dict(
            connection.execute(
                "SELECT text, id FROM name ORDER BY id LIMIT ?", (_MAX_CACHED,)
            ).fetchall()
        )
        self._limits = TableLimits.of_names(connection, "name", ["text"])

    def id(self, text: str) -> int:
        """Return the id of ``text``; write a row immediately if it is new."""
        known = self._ids.get(text)
        if known is not None:
            return known
        text = named(text)
        found = self._connection.execute("SELECT id FROM name WHERE text = ?", (text,)).fetchone()
        number = int(found[0]) if found else self._insert(text)
        if len(self._ids) < _MAX_CACHED:
            self._ids[text] = number
        return number

    def _insert(self, text: str) -> int:
        self._limits.reserve(len(text))
        row = self._connection.execute("INSERT INTO name (text) VALUES (?)", (text,)).lastrowid
        assert row is not None
        return row
