# SPDX-License-Identifier: Apache-2.0
"""Pack, read and unpack the content of objects: zstd, with an earlier object as dictionary.

A container's next version differs from the previous one in a state, a pid or a time. It takes about
20 bytes with the previous version as dictionary, and 900 without.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

import zstandard

from ..cache import RecentlyUsed

MAX_CONTENT = 16 << 20
"""Maximum number of bytes of one object. A ttRPC message has at most 4 MiB."""
MAX_DEPTH = 4
"""Maximum number of chained dictionaries that are written: an object similar to a container, the
container, and its versions. Reading an object unpacks all of them.
"""
MAX_DEPTH_READ = 16
"""Maximum number of chained dictionaries that are read from an untrusted file."""

# zstd's default. Levels up to 19 reduce a recording by 2 %, and take up to 20 times as long.
_LEVEL_ALONE = 3
# With a similar dictionary, higher levels do not compress better, but need larger tables than the
# 130 KiB per compressor of this one.
_LEVEL_AGAINST = 1
_MAX_COMPRESSORS = 16
_MIN_CONTENT = 40
# A shorter dictionary does not help; zstd ignores those of fewer than 8 bytes.
_MIN_BASE = 64
# A frame for up to MAX_CONTENT bytes that is compressed in one call at these levels has a window of
# at most 2 MiB.
_MAX_WINDOW = 8 << 20


class ObjectKind(IntEnum):
    """Kind of an object."""

    RAW = 0
    """Complete request that could not be decoded: malformed, or of an unknown method."""
    POD = 1
    CONTAINER = 2
    REST = 3
    """Request without its pod and container."""
    REPLY = 4


class StoredObject(NamedTuple):
    """Row of the table ``object``."""

    id: int
    kind: int
    hash: bytes
    size: int
    base: int | None
    data: bytes


def digest(content: bytes) -> bytes:
    """Return the hash that identifies a content."""
    return blake2b(content, digest_size=16).digest()


class Packer:
    """Compressor of contents with a cache of dictionaries. Not thread-safe.

    Creating a compressor and loading its dictionary takes ten times as long as compressing, so
    recently used ones are cached.
    """

    def __init__(self) -> None:
        self._alone = zstandard.ZstdCompressor(level=_LEVEL_ALONE, write_content_size=False)
        self._against: RecentlyUsed[int, zstandard.ZstdCompressor] = RecentlyUsed(_MAX_COMPRESSORS)

    def alone(self, content: bytes) -> bytes:
        """Pack ``content`` without a dictionary; return it unchanged if that saves nothing."""
        if len(content) < _MIN_CONTENT:
            return content
        packed = self._alone.compress(content)
        return packed if len(packed) < len(content) else content

    def against(self, content: bytes, base: bytes, base_id: int) -> bytes | None:
        """Pack ``content`` with ``base`` as dictionary; return None if that saves nothing.

        ``base_id`` is the id of the object with the content ``base``.
        """
        if len(base) < _MIN_BASE or len(content) < _MIN_CONTENT:
            return None
        compressor = self._against.get(base_id)
        if compressor is None:
            compressor = zstandard.ZstdCompressor(
                level=_LEVEL_AGAINST,
                dict_data=_dictionary(base),
                write_content_size=False,
                write_dict_id=False,
            )
            self._against.put(base_id, compressor)
        packed = compressor.compress(content)
        return packed if len(packed) < len(content) else None


class ContentError(ValueError):
    """Object that no recorder could have written. The text is the reason."""


def unpack(
    stored: StoredObject,
    base: bytes | None,
    decompressor: zstandard.ZstdDecompressor | None = None,
) -> bytes:
    """Return the content of ``stored``, whose dictionary is ``base``. Raises ContentError.

    Never allocates more than `MAX_CONTENT` bytes, and checks the hash. ``decompressor``: one with
    this dictionary.
    """
    if not 0 <= stored.size <= MAX_CONTENT or len(stored.data) > stored.size:
        raise ContentError(f"object {stored.id} has an invalid size")
    content = stored.data
    if len(content) < stored.size:
        try:
            # zstandard would allocate the size that a frame declares without a check; frames
            # written by recorders declare none.
            if zstandard.frame_content_size(content) not in (-1, stored.size):
                raise ContentError(f"object {stored.id} declares another size in its zstd frame")
            content = (decompressor or _decompressor(base)).decompress(
                content, max_output_size=stored.size, allow_extra_data=False
            )
        except zstandard.ZstdError as error:
            raise ContentError(f"object {stored.id} cannot be unpacked") from error
    if len(content) != stored.size or digest(content) != stored.hash:
        raise ContentError(f"object {stored.id} does not match its size or hash")
    return content


def _decompressor(base: bytes | None) -> zstandard.ZstdDecompressor:
    if base is None:
        return zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    return zstandard.ZstdDecompressor(dict_data=_dictionary(base), max_window_size=_MAX_WINDOW)


def _dictionary(base: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def load(
    object_id: int,
    fetch: Callable[[int], StoredObject | None],
    cached: Callable[[int], tuple[int, bytes] | None] = lambda _: None,
    unpack: Callable[[StoredObject, bytes | None], bytes] = unpack,
) -> tuple[int, bytes]:
    """Return the kind and content of an object, after loading the chain of its dictionaries.

    ``fetch`` reads a row; ``cached`` returns kind and content of an object loaded before, or None.
    ``unpack`` is called for the object and each dictionary that is not cached. Raises ContentError
    for a missing or damaged object, a cycle and too many dictionaries.
    """
    chain: list[StoredObject] = []
    content: bytes | None = None
    next_id: int | None = object_id
    while next_id is not None:
        loaded = cached(next_id) if chain else None
        if loaded is not None:
            content = loaded[1]
            break
        stored = fetch(next_id)
        if stored is None:
            raise ContentError(f"object {next_id} is missing")
        if len(chain) > MAX_DEPTH_READ:
            raise ContentError(f"object {object_id} has too long a chain of dictionaries")
        # Every dictionary is older than the object that uses it, so there are no cycles.
        if stored.base is not None and not 0 < stored.base < stored.id:
            raise ContentError(f"object {stored.id} has a newer object as its dictionary")
        chain.append(stored)
        next_id = stored.base
    for stored in reversed(chain):
        content = unpack(stored, content)
    assert content is not None
    return chain[0].kind, content


_CACHE_BYTES = 8 << 20
_DECOMPRESSOR_BYTES = 224 << 10
"""Bytes of one decompressor after its first use, without its dictionary."""
_DECOMPRESSORS_BYTES = 8 * _DECOMPRESSOR_BYTES
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

    Methods raise ContentError if an object is missing or damaged, and sqlite3.Error. Not
    thread-safe.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._cache: RecentlyUsed[int, tuple[int, bytes]] = RecentlyUsed(_CACHE_BYTES)
        self._decompressors = RecentlyUsed[int | None, zstandard.ZstdDecompressor](
            _DECOMPRESSORS_BYTES
        )
        """By the id of their dictionary: creating one takes five times as long as unpacking."""

    def get(self, object_id: int) -> tuple[int, bytes]:
        """Return an object's kind and content."""
        # Its dictionary was usually read shortly before.
        return self._cache.get(object_id) or load(
            object_id, partial(fetch, self._connection), self._cache.get, self._unpack
        )

    def content(self, object_id: int | None) -> bytes | None:
        """Return an object's content; None for None."""
        return None if object_id is None else self.get(object_id)[1]

    def _unpack(self, stored: StoredObject, base: bytes | None) -> bytes:
        decompressor = self._decompressors.get(stored.base)
        if decompressor is None:
            decompressor = _decompressor(base)
            cost = _DECOMPRESSOR_BYTES + len(base or b"")
            self._decompressors.put(stored.base, decompressor, cost)
        content = unpack(stored, base, decompressor)
        self._cache.put(stored.id, (stored.kind, content), len(content) + 100)
        return content
