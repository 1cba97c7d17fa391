# SPDX-License-Identifier: Apache-2.0
"""Make messages of the plain values that `plain` returns for them."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from .element_limits import CUT, CUT_FIELD
from .message_fields import fields_of, is_map, value_field
from .plain import LEFT_OUT, MALFORMED, RAW, UNKNOWN, Plain

_VARINT, _BYTES, _GROUP, _END_GROUP = 0, 2, 3, 4
_FIELD_MAX = (1 << 29) - 1
_GROUPS_MAX = 20


class NotPlain(ValueError):
    """A value that `plain` does not return. The text names its place."""


def bytes_from_plain(kind: type[Message] | None, value: Plain) -> bytes:
    """Return an encoded message of type ``kind``, or raw bytes if that is None.

    The inverse of `plain.plain_bytes`, except for the order of fields. Raises NotPlain.
    """
    entries = _mapping(value, "")
    if kind is None and not entries:
        return b""
    for name in (MALFORMED, RAW):
        if name in entries:
            return _hexadecimal(entries[name], name)
    if kind is None:
        raise NotPlain(f"the key {RAW} is missing")
    return message_from_plain(kind, entries).SerializeToString()


def message_from_plain(kind: type[Message], value: Plain, place: str = "") -> Message:
    """Return the message; ``place`` is the path of ``value``. Raises NotPlain."""
    message = kind()
    _fill(message, _mapping(value, place), place)
    return message


def _fill(message: Message, entries: dict[str, Plain], place: str) -> None:
    known = fields_of(type(message))
    for name, value in entries.items():
        at = f"{place}.{name}" if place else name
        if name == LEFT_OUT:
            message.MergeFromString(_text_field(CUT_FIELD, CUT.encode()))
        elif name == UNKNOWN:
            try:
                message.MergeFromString(b"".join(_encoded(value, at, 0)))
            except DecodeError as error:
                raise NotPlain(f"{at}: {error}") from None
        elif name in known:
            _set(message, known[name], value, at)
        else:
            raise NotPlain(f"{at}: unknown key")


def _set(message: Message, field: FieldDescriptor, value: Plain, place: str) -> None:
    target = getattr(message, field.name)
    if is_map(field):
        of_value = value_field(field)
        for key, one in _mapping(value, place).items():
            at = f"{place}.{key}"
            if of_value.message_type is not None:
                _fill(target[_key(field, key, at)], _mapping(one, at), at)
            else:
                target[_key(field, key, at)] = _scalar(of_value, one, at)
    elif field.is_repeated:
        if not isinstance(value, list):
            raise NotPlain(f"{place}: not a list")
        for number, one in enumerate(value):
            at = f"{place}[{number}]"
            if field.message_type is not None:
                _fill(target.add(), _mapping(one, at), at)
            else:
                target.append(_scalar(field, one, at))
    elif field.message_type is not None:
        target.SetInParent()
        _fill(target, _mapping(value, place), place)
    else:
        setattr(message, field.name, _scalar(field, value, place))


def _key(field: FieldDescriptor, key: str, place: str) -> str | int:
    assert field.message_type is not None
    of_key = field.message_type.fields_by_name["key"]
    if of_key.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return key
    try:
        return int(key)
    except ValueError:
        raise NotPlain(f"{place}: not a number") from None


def _scalar(field: FieldDescriptor, value: Plain, place: str) -> str | int | bytes:
    if field.enum_type is not None and isinstance(value, str):
        named = field.enum_type.values_by_name
        if value not in named:
            raise NotPlain(f"{place}: unknown value")
        return named[value].number
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _hexadecimal(value, place)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        if not isinstance(value, str):
            raise NotPlain(f"{place}: not a text")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotPlain(f"{place}: not a valid text") from None
        return value
    is_bool = field.cpp_type == FieldDescriptor.CPPTYPE_BOOL
    if isinstance(value, bool) != is_bool or not isinstance(value, int):
        raise NotPlain(f"{place}: not {'true or false' if is_bool else 'an integer'}")
    low, high = _RANGES.get(field.cpp_type, (-(2**31), 2**31 - 1))
    if not low <= value <= high:
        raise NotPlain(f"{place}: not between {low} and {high}")
    return value


_RANGES = {
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def _mapping(value: Plain, place: str) -> dict[str, Plain]:
    if not isinstance(value, dict):
        raise NotPlain(f"{place}: not a mapping" if place else "not a mapping")
    return value


def _hexadecimal(value: Plain, place: str) -> bytes:
    try:
        return bytes.fromhex(value if isinstance(value, str) else "-")
    except ValueError:
        raise NotPlain(f"{place}: not hexadecimal") from None


def _encoded(value: Plain, place: str, depth: int) -> Iterable[bytes]:
    """Yield the encoding of unknown fields; whether a number had a fixed length is not known."""
    if not isinstance(value, list) or depth > _GROUPS_MAX:
        raise NotPlain(f"{place}: not a list of fields")
    for one in value:
        field = one.get("field") if isinstance(one, dict) else None
        if not isinstance(one, dict) or not isinstance(field, int) or not 0 < field <= _FIELD_MAX:
            raise NotPlain(f"{place}: not a list of fields")
        content = one.get("value")
        if isinstance(content, list):
            inner = b"".join(_encoded(content, place, depth + 1))
            yield _varint(field << 3 | _GROUP) + inner + _varint(field << 3 | _END_GROUP)
        elif isinstance(content, int) and 0 <= content < 2**64:
            yield _varint(field << 3 | _VARINT) + _varint(content)
        else:
            yield _text_field(field, _hexadecimal(content, place))


def _text_field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
