# SPDX-License-Identifier: Apache-2.0
"""Read the zip archive of a bundle, which may be malicious.

Only a small subset of zip is supported, and every number is checked before use, so that an archive
is unambiguous and other programs see the same content: no second directory, no duplicate names,
no overlapping files, no data before, between or after files, no links, no folders, no paths as
names, no alternative names.
"""

from __future__ import annotations

import re
import stat
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

MAX_ENTRIES = 16
"""Maximum number of files in an archive. A bundle has three."""
MAX_DIRECTORY = 16 << 10
"""Maximum size of the directory at the end of an archive, in bytes."""
MAX_RATIO = 20
"""Maximum compression ratio. Recordings reach 10, forged deflate data 1,032."""
RATIO_FROM = 16 << 20
"""Unpacked size in bytes up to which the ratio is not checked."""

_CHUNK = 256 << 10
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

# APPNOTE.TXT, 4.3.7, 4.3.12 and 4.3.16.
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_EXTRA = struct.Struct("<2H")
LOCAL_SIGNATURE = b"PK\x03\x04"
_CENTRAL_SIGNATURE = b"PK\x01\x02"
_END_SIGNATURE = b"PK\x05\x06"
_STORED, _DEFLATED = 0, 8
# Compression level, sizes after the content, name in UTF-8. Other flags mean that the content is
# encrypted, patched or masked.
_HARMLESS_FLAGS = 0x0002 | 0x0004 | 0x0008 | 0x0800
_DESCRIPTOR = 0x0008
# APPNOTE.TXT, 4.3.9: the sizes after the content, with or without a signature.
_DESCRIPTOR_SIGNATURE = b"PK\x07\x08"
_DESCRIPTOR_SIZE = 12
# Extra fields with times and owners (NTFS, Info-ZIP). Others may override the name or the sizes.
_HARMLESS_EXTRAS = frozenset({0x000A, 0x5455, 0x5855, 0x7855, 0x7875})
_UNIX = 3
_DOS_FOLDER = 0x10


class ArchiveError(ValueError):
    """Unsupported archive. The text is the reason."""


class Entry(NamedTuple):
    """File in an archive."""

    name: str
    begin: int
    """Offset of the header."""
    start: int
    """Offset of the content."""
    packed: int
    """Size of the packed content in bytes."""
    size: int
    """Declared size of the unpacked content in bytes."""
    crc: int
    deflated: bool
    described: bool
    """Whether a data descriptor, with the sizes, follows the content."""


def entries(file: BinaryIO, length: int, max_size: int) -> dict[str, Entry]:
    """Return the files in an archive of ``length`` bytes by name. Raises ArchiveError and OSError.

    Refuses files with a declared size of more than ``max_size`` bytes.
    """
    directory = _directory(file, length)
    by_name: dict[str, Entry] = {}
    offset = 0
    for _ in range(directory.files):
        entry, offset = _entry(file, directory, offset, max_size)
        if entry.name.lower() in (name.lower() for name in by_name):
            raise ArchiveError(f"it has two files {entry.name}")
        by_name[entry.name] = entry
    if offset != len(directory.content):
        raise ArchiveError("its directory has undeclared content")
    reached = 0
    for entry in sorted(by_name.values(), key=lambda entry: entry.begin):
        if entry.begin < reached:
            raise ArchiveError("two of its files overlap")
        if entry.begin > reached:
            raise ArchiveError("it has data outside its files")
        reached = _end(file, entry)
    if reached != directory.start:
        raise ArchiveError("it has data outside its files")
    return by_name


def _end(file: BinaryIO, entry: Entry) -> int:
    """Return the offset of the next file."""
    end = entry.start + entry.packed
    if not entry.described:
        return end
    has_signature = _read(file, end, len(_DESCRIPTOR_SIGNATURE)) == _DESCRIPTOR_SIGNATURE
    return end + _DESCRIPTOR_SIZE + has_signature * len(_DESCRIPTOR_SIGNATURE)


def unpacked(file: BinaryIO, entry: Entry) -> Iterator[bytes]:
    """Yield the content of a file in chunks. Raises ArchiveError and OSError.

    Never yields more bytes than the file's declared size.
    """
    inflater = zlib.decompressobj(-zlib.MAX_WBITS) if entry.deflated else None
    crc = size = 0
    for piece in _pieces(file, entry):
        for content in _contents(inflater, piece, entry):
            size += len(content)
            if size > entry.size:
                raise ArchiveError(f"{entry.name} is larger than its declared size")
            crc = zlib.crc32(content, crc)
            yield content
    if inflater is not None and not inflater.eof:
        raise ArchiveError(f"{entry.name} is cut short")
    if size != entry.size or crc != entry.crc:
        raise ArchiveError(f"{entry.name} does not match its size or checksum")


def _contents(inflater: zlib._Decompress | None, piece: bytes, entry: Entry) -> Iterator[bytes]:
    """Yield the unpacked content of ``piece`` in chunks."""
    if inflater is None:
        yield piece
        return
    pending, is_full = piece, False
    # zlib may have consumed all input before it has returned all output.
    while pending or (is_full and not inflater.eof):
        try:
            content = inflater.decompress(pending, _CHUNK)
        except zlib.error as error:
            raise ArchiveError(f"{entry.name} cannot be unpacked") from error
        if inflater.unused_data:
            raise ArchiveError(f"{entry.name} has data after its end")
        pending, is_full = inflater.unconsumed_tail, len(content) == _CHUNK
        yield content


def _pieces(file: BinaryIO, entry: Entry) -> Iterator[bytes]:
    file.seek(entry.start)
    left = entry.packed
    while left:
        piece = file.read(min(left, _CHUNK))
        if not piece:
            raise ArchiveError(f"{entry.name} is cut short")
        left -= len(piece)
        yield piece


class _Directory(NamedTuple):
    content: bytes
    start: int
    files: int


def _directory(file: BinaryIO, length: int) -> _Directory:
    if length < _END.size:
        raise ArchiveError("it is cut short")
    # The end record must be the last one, as a comment after it could contain a second one.
    signature, disk, first_disk, disk_files, count, size, start, comment = _END.unpack(
        _read(file, length - _END.size, _END.size)
    )
    if signature != _END_SIGNATURE:
        raise ArchiveError("it is cut short, or something was added to it")
    if disk or first_disk or disk_files != count or comment:
        raise ArchiveError("it is one part of an archive, or has a comment")
    if not 1 <= count <= MAX_ENTRIES or size > MAX_DIRECTORY:
        raise ArchiveError(f"it has {count} files, and a bundle has three")
    if start + size != length - _END.size:
        raise ArchiveError("its directory is not at its declared offset")
    return _Directory(_read(file, start, size), start, count)


def _entry(file: BinaryIO, directory: _Directory, offset: int, max_size: int) -> tuple[Entry, int]:
    """Return the entry of the directory at ``offset``, and the offset of the next one."""
    if offset + _CENTRAL.size > len(directory.content):
        raise ArchiveError("its directory is cut short")
    values = _CENTRAL.unpack_from(directory.content, offset)
    signature, made_by, _, flags, method, _, _, crc, packed, size = values[:10]
    name_length, extra_length, comment_length, disk, _, attributes, local = values[10:]
    name_start = offset + _CENTRAL.size
    end = name_start + name_length + extra_length + comment_length
    if signature != _CENTRAL_SIGNATURE or end > len(directory.content) or disk:
        raise ArchiveError("its directory is damaged")
    raw_name = directory.content[name_start : name_start + name_length]
    name = raw_name.decode("ascii", "backslashreplace")
    if not _NAME.fullmatch(name):
        raise ArchiveError(f"it has a file {_shortened(name)!r}, and no bundle has such a name")
    mode = attributes >> 16 if made_by >> 8 == _UNIX else 0
    if attributes & _DOS_FOLDER or stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise ArchiveError(f"{name} is a link, a folder or a device")
    if flags & ~_HARMLESS_FLAGS:
        raise ArchiveError(f"{name} is encrypted, or packed in an unsupported way")
    if method not in (_STORED, _DEFLATED):
        raise ArchiveError(f"{name} is packed in an unsupported way (method {method})")
    if size > max_size:
        raise ArchiveError(f"{name} would have {size:,} bytes, and at most {max_size:,} are read")
    if size > max(RATIO_FROM, packed * MAX_RATIO):
        raise ArchiveError(f"{name} would unpack to {size // max(packed, 1):,} times its size")
    if method == _STORED and size != packed:
        raise ArchiveError(f"{name} has two different sizes")
    _check_extras(directory.content[name_start + name_length :][:extra_length], name)
    start = _content_start(file, directory, local, raw_name, method)
    if start + packed > directory.start:
        raise ArchiveError(f"{name} is cut short")
    described = bool(flags & _DESCRIPTOR)
    return Entry(name, local, start, packed, size, crc, method == _DEFLATED, described), end


def _content_start(file: BinaryIO, directory: _Directory, at: int, name: bytes, method: int) -> int:
    """Return the offset of the content after the header at ``at``. The header must match the
    directory.
    """
    if at + _LOCAL.size > directory.start:
        raise ArchiveError("its directory is damaged")
    signature, _, flags, local_method, *_, name_length, extra_length = _LOCAL.unpack(
        _read(file, at, _LOCAL.size)
    )
    start: int = at + _LOCAL.size + name_length + extra_length
    if (
        signature != LOCAL_SIGNATURE
        or flags & ~_HARMLESS_FLAGS
        or local_method != method
        or name_length != len(name)
        or _read(file, at + _LOCAL.size, name_length) != name
    ):
        raise ArchiveError("its directory contradicts the headers of its files")
    _check_extras(_read(file, start - extra_length, extra_length), name.decode("ascii"))
    return start


def _check_extras(extras: bytes, name: str) -> None:
    """Check extra fields, APPNOTE.TXT 4.5.1: each has a number and a length."""
    offset = 0
    while offset < len(extras):
        if offset + _EXTRA.size > len(extras):
            raise ArchiveError(f"{name} has damaged extra fields")
        number, length = _EXTRA.unpack_from(extras, offset)
        if number not in _HARMLESS_EXTRAS:
            raise ArchiveError(f"{name} has an unsupported extra field ({number:#06x})")
        offset += _EXTRA.size + length
    if offset != len(extras):
        raise ArchiveError(f"{name} has damaged extra fields")


def _read(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    data = file.read(count)
    if len(data) != count:
        raise ArchiveError("it is cut short")
    return data


def _shortened(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:60]}…"
