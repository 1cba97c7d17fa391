# SPDX-License-Identifier: Apache-2.0
"""Limit the elements and the text of an encoded message before it is decoded.

An empty mount takes two bytes on the wire, eighty as a message and hundreds as values in Python, so
the size of a message does not bound the memory needed to decode it.
"""

from __future__ import annotations

from functools import cache
from typing import cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

MAX_ELEMENTS = 50_000
"""Maximum number of decoded fields of a message, including those of nested messages. A container
with 7,000 variables, 2,000 mounts and annotations of 256 KiB has about 30,000.
"""
MAX_IN_SYNCHRONIZE = 5 * MAX_ELEMENTS
"""Maximum number for Synchronize. The largest message, with 4 MiB, has about 200,000 for a thousand
ordinary pods and containers.
"""

MAX_RECORDED = 10 * MAX_ELEMENTS
"""Maximum number for a message to be recorded in parts; a larger one is recorded unparsed."""

MAX_STRINGS = 4 << 20
"""Maximum number of bytes of all strings in a message: ttRPC's limit for a whole message
(messageLengthMax in containerd/ttrpc).
"""

CUT_FIELD = (1 << 29) - 1
"""Field number, the highest possible, of the marker at the end of a truncated message."""
CUT = "not all of it is here: it is too large, and the rest was left out"
"""Text of the marker."""

_MIN_SIZE = 2
"""Minimum number of bytes of an element: its tag, and a length or a value."""
UNCUT_BYTES = MAX_ELEMENTS * _MIN_SIZE
"""Size in bytes up to which a message cannot have more than `MAX_ELEMENTS`."""
_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)
_MAX_VARINT = 10
_HIGH = bytes(range(0x80, 0x100))


def short_elements(content: bytes) -> int:
    """Return an upper bound for the number of elements of a message shorter than 32 bytes.

    Each has a length byte below 32, which text rarely contains. Numbers are not included; field
    tags below 32 are counted as well.
    """
    return len(content) - len(content.translate(None, _SHORT))


_SHORT = bytes(range(32))


class Elements:
    """The remaining number of elements of several messages together."""

    def __init__(self, most: int) -> None:
        self.left = most
        self._short = most

    def count(self, kind: type[Message] | None, content: bytes) -> None:
        """Subtract a message's elements.

        Only one is subtracted for each message while the messages together are too small to exceed
        the limit.
        """
        self._short -= len(content) // _MIN_SIZE + 1
        if self._short >= 0 or kind is None:
            self.left -= 1
            return
        cutter = _Cutter(MAX_ELEMENTS)
        try:
            cutter.message(_described(kind), content)
        except _Malformed:
            pass
        self.left -= MAX_ELEMENTS - cutter.left


class _Malformed(Exception):
    """The bytes are not a message."""


def bounded(kind: type[Message] | None, content: bytes, most: int = MAX_ELEMENTS) -> bytes:
    """Return the first elements of a message, followed by `CUT_FIELD` if the message was truncated.

    At most `most` elements are included, with at most `MAX_STRINGS` bytes of strings and bytes.
    Each packed number and each field in an unknown group counts as an element. Malformed messages,
    and messages of kind None, which are never decoded, are returned unchanged.
    """
    if kind is None or len(content) <= most * _MIN_SIZE:
        return content
    cutter = _Cutter(most)
    try:
        short = cutter.message(_described(kind), content)
    except _Malformed:
        return content
    return short + _CUT_BYTES if cutter.is_exceeded else content


class _Cutter:
    """Truncates a message, including nested ones, to a number of elements."""

    def __init__(self, most: int) -> None:
        # One more, as a message that was truncated before also has `CUT_FIELD`.
        self.left = most + 1
        self._strings_left = MAX_STRINGS
        self.is_exceeded = False

    def message(self, kind: Descriptor | None, content: bytes) -> bytes:
        """Return a message up to the last element within the limits."""
        fields = _fields_of(kind) if kind is not None else {}
        position = start = 0
        elements: list[bytes] = []
        end = len(content)
        while position < end:
            field_start = position
            # Most varints have one byte, and a call would double the time.
            tag = content[position]
            position += 1
            if tag > 0x7F:
                tag, position = _varint(content, field_start)
            wire_type = tag & 7
            self.left -= 1
            if wire_type == _BYTES:
                size = content[position] if position < end else 0x80
                if size < 0x80:
                    position += 1
                else:
                    size, position = _varint(content, position)
                if size > end - position:
                    raise _Malformed
                inner, is_packed = fields.get(tag >> 3, _UNKNOWN)
                if size == 0:
                    pass
                elif inner is not None and self.left > 0:
                    value = content[position : position + size]
                    shorter = self.message(inner, value)
                    if self.is_exceeded:
                        elements += [content[start:field_start], _field(tag, shorter)]
                        return b"".join(elements)
                elif is_packed:
                    self.left -= len(content[position : position + size].translate(None, _HIGH))
                elif inner is None:
                    self._strings_left -= size
                position += size
            else:
                position = self._skip(content, position, wire_type)
            if self.left < 0 or self._strings_left < 0:
                self.is_exceeded = True
                elements.append(content[start:field_start])
                return b"".join(elements)
        return content

    def _skip(self, content: bytes, position: int, wire_type: int) -> int:
        """Return the end of a field that is not a message."""
        if wire_type == _VARINT:
            return _varint(content, position)[1]
        if wire_type == _FIXED64:
            position += 8
        elif wire_type == _FIXED32:
            position += 4
        elif wire_type == _GROUP:
            return self._skip_group(content, position)
        else:
            raise _Malformed
        if position > len(content):
            raise _Malformed
        return position

    def _skip_group(self, content: bytes, position: int) -> int:
        depth = 1
        while depth and self.left >= 0:
            self.left -= 1
            tag, position = _varint(content, position)
            wire_type = tag & 7
            if wire_type == _GROUP:
                depth += 1
            elif wire_type == _END_GROUP:
                depth -= 1
            elif wire_type == _BYTES:
                size, position = _varint(content, position)
                position += size
            else:
                position = self._skip(content, position, wire_type)
            if position > len(content):
                raise _Malformed
        return position


@cache
def _fields_of(kind: Descriptor) -> dict[int, tuple[Descriptor | None, bool]]:
    """Return the message type of each field, and whether numbers may be packed in it."""
    texts = FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES
    return {field.number: (field.message_type, field.type not in texts) for field in kind.fields}


_UNKNOWN = None, False


def _described(kind: type[Message]) -> Descriptor:
    # protobuf's stubs declare two classes for a descriptor.
    return cast("Descriptor", kind.DESCRIPTOR)


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """Return the varint at `position`, and the offset after it."""
    if position < len(content) and content[position] < 0x80:
        return content[position], position + 1
    value = 0
    for index, octet in enumerate(content[position : position + _MAX_VARINT]):
        value |= (octet & 0x7F) << 7 * index
        if octet < 0x80:
            return value, position + index + 1
    raise _Malformed


def _field(tag: int, content: bytes) -> bytes:
    return varint(tag) + varint(len(content)) + content


def encoded_field(number: int, content: bytes) -> bytes:
    """Return an encoded length-delimited field: tag, length and content."""
    return _field(number << 3 | _BYTES, content)


def varint(number: int) -> bytes:
    """Encode a non-negative number as protobuf does."""
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)


_CUT_BYTES = encoded_field(CUT_FIELD, CUT.encode())
