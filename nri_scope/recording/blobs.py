# SPDX-License-Identifier: Apache-2.0
"""The content of objects, packed and unpacked: zstd with an earlier object as dictionary.

A container's next version differs from the previous one in a state, a pid, a time: some 20 bytes
with the previous one as dictionary, 900 without.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple

import zstandard

from .cache import RecentlyUsed

MAX_CONTENT = 16 << 20
"""Maximum number of bytes of one object. A ttRPC message has at most 4 MiB."""
MAX_DEPTH = 4
"""Longest chain of dictionaries written: a container, its versions, and an object similar to it.
Reading an object means unpacking as many more.
"""
MAX_DEPTH_READ = 16
"""Longest chain of dictionaries followed in an untrusted file."""

# zstd's default. Levels up to 19 gain 2 % of a recording and cost up to 20 times the time.
_LEVEL_ALONE = 3
# With a similar dictionary, higher levels find nothing more, and each compressor has its own
# tables: 130 KiB.
_LEVEL_AGAINST = 1
_COMPRESSORS = 16
_MIN_PACKED = 40
# A shorter dictionary does not help, and zstd ignores fewer than 8 bytes.
_MIN_BASE = 64
# A frame of up to MAX_CONTENT made in one go at this level has a window of at most 2 MiB.
_MAX_WINDOW = 8 << 20


class ObjectKind(IntEnum):
    """The kind of an object."""

    RAW = 0
    """Bytes that could not be decoded: a whole malformed or unknown request."""
    POD = 1
    CONTAINER = 2
    REST = 3
    """A request without its pod and container."""
    REPLY = 4


class StoredObject(NamedTuple):
    """A row of the table ``object``."""

    id: int
    kind: int
    hash: bytes
    size: int
    base: int | None
    data: bytes


def digest(content: bytes) -> bytes:
    """Return the hash that identifies content."""
    return blake2b(content, digest_size=16).digest()


class Packer:
    """Packs content; for one thread.

    Creating a compressor and loading its dictionary takes ten times as long as compressing, so the
    most recently used ones are kept.
    """

    def __init__(self) -> None:
        self._alone = zstandard.ZstdCompressor(level=_LEVEL_ALONE, write_content_size=False)
        self._against: RecentlyUsed[int, zstandard.ZstdCompressor] = RecentlyUsed(_COMPRESSORS)

    def alone(self, content: bytes) -> bytes:
        """Pack ``content`` without a dictionary; return it unchanged if that saves nothing."""
        if len(content) < _MIN_PACKED:
            return content
        packed = self._alone.compress(content)
        return packed if len(packed) < len(content) else content

    def against(self, content: bytes, base: bytes, base_id: int) -> bytes | None:
        """Pack ``content`` with ``base`` as dictionary; return None if that saves nothing.

        ``base_id`` identifies ``base``.
        """
        if len(base) < _MIN_BASE or len(content) < _MIN_PACKED:
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
    """An object's row cannot come from a recorder. The text gives the reason."""


def unpack(stored: StoredObject, base: bytes | None) -> bytes:
    """Return the content of ``stored``, whose dictionary is ``base``. Raises ContentError.

    Never allocates more than `MAX_CONTENT`; checks the hash.
    """
    if not 0 <= stored.size <= MAX_CONTENT or len(stored.data) > stored.size:
        raise ContentError(f"object {stored.id} has an impossible size")
    content = stored.data
    if len(content) < stored.size:
        try:
            # The size that a frame claims would be allocated unchecked; frames of recorders claim
            # none.
            if zstandard.frame_content_size(content) not in (-1, stored.size):
                raise ContentError(f"object {stored.id} claims another size")
            content = _decompressor(base).decompress(
                content, max_output_size=stored.size, allow_extra_data=False
            )
        except zstandard.ZstdError as error:
            raise ContentError(f"object {stored.id} cannot be unpacked") from error
    if len(content) != stored.size or digest(content) != stored.hash:
        raise ContentError(f"object {stored.id} is not what it was")
    return content


def _decompressor(base: bytes | None) -> zstandard.ZstdDecompressor:
    if base is None:
        return zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    return zstandard.ZstdDecompressor(dict_data=_dictionary(base), max_window_size=_MAX_WINDOW)


def _dictionary(base: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _unknown(object_id: int) -> tuple[int, bytes] | None:
    return None


def load(
    object_id: int,
    fetch: Callable[[int], StoredObject | None],
    known: Callable[[int], tuple[int, bytes] | None] = _unknown,
) -> tuple[int, bytes]:
    """Return the kind and content of an object, fetched with the chain of its dictionaries.

    ``known`` returns kind and content of objects that were loaded before. Raises ContentError for a
    missing or damaged object, a cycle and too many dictionaries.
    """
    chain: list[StoredObject] = []
    content: bytes | None = None
    wanted: int | None = object_id
    while wanted is not None:
        before = known(wanted) if chain else None
        if before is not None:
            content = before[1]
            break
        stored = fetch(wanted)
        if stored is None:
            raise ContentError(f"object {wanted} is missing")
        if len(chain) > MAX_DEPTH_READ:
            raise ContentError(f"object {object_id} needs too many others")
        # Each is older than the one before, so there are no cycles.
        if stored.base is not None and not 0 < stored.base < stored.id:
            raise ContentError(f"object {stored.id} is packed against a younger one")
        chain.append(stored)
        wanted = stored.base
    for stored in reversed(chain):
        content = unpack(stored, content)
    assert content is not None
    return chain[0].kind, content
