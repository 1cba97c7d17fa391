# SPDX-License-Identifier: Apache-2.0
"""Encode Perfetto's trace format: tracks with slices and instants.

A file is a ``perfetto.protos.Trace``, which is a sequence of ``TracePacket``, so it can be written
incrementally. The numbers below are field numbers of ``perfetto_trace.proto``, which never change.
Tests decode the output with Perfetto's own definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from hashlib import blake2b
from typing import IO

from nri_scope.nri.element_limits import varint
from nri_scope.recording.file.sqlite_text import HIGHEST, LOWEST, storable

MAX_TEXT = 4_096
"""Maximum number of characters of a name or value; longer ones are cut and end with ``…``."""
MAX_ITEMS = 128
"""Maximum number of items of a list; longer lists are cut and end with ``…``."""
MAX_NAMES = 1_024
"""Maximum number of interned names, which are written once and then referred to by number."""

Value = bool | int | str | tuple[str, ...]
"""Types of a slice's annotations."""

_CUT = "…"
_MAX_INTERNED = 64
"""Maximum number of characters of an interned name."""
_VARINT, _FIXED64, _LENGTH = 0, 1, 2
# TracePacket.trusted_packet_sequence_id: there is a single writer.
_SEQUENCE = 1
# ClockSnapshot: timestamps are wall clock times.
_REALTIME, _BOOTTIME = 1, 6
_STATE_CLEARED, _NEEDS_STATE = 1, 2
"""TracePacket.SequenceFlags: discard all interned names; the packet needs interned names."""


class PacketKind(IntEnum):
    """The enum TrackEvent.Type."""

    BEGIN = 1
    END = 2
    INSTANT = 3


def _key(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def _number(field: int, value: int) -> bytes:
    # As in protobuf, a negative number is written as its 64-bit two's complement.
    return _key(field, _VARINT) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def _bytes(field: int, content: bytes) -> bytes:
    return _key(field, _LENGTH) + varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    cut = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + _CUT
    return _bytes(field, storable(cut).encode())


_PACKET = _key(1, _LENGTH)
_TIMESTAMP = _key(8, _VARINT)
_TRACK_EVENT = _key(11, _LENGTH)
_TYPE = {kind: _number(9, kind) for kind in PacketKind}
_TRACK = _key(11, _VARINT)
_FLOW = _key(47, _FIXED64)
_ANNOTATION = _key(4, _LENGTH)
_SEQUENCE_FIELDS = _number(10, _SEQUENCE) + _number(13, _NEEDS_STATE)


def track_id(*subject: str | int) -> int:
    """Return the deterministic number of the track of a subject; never 0, which means no track."""
    key = "".join(f"{len(text)}:{text}" for text in map(str, subject))
    digest = blake2b(key.encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest) | 1


class Packets:
    """Writer of one trace. Times are wall clock times in nanoseconds."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._names: dict[str, int] = {}
        self._keys: dict[str, int] = {}

    def begin(self, at_ns: int) -> None:
        """Write the first packet; ``at_ns`` is any time during the trace."""
        at_ns = _time(at_ns)
        # Both clocks show the same time, so that the viewer can display the time of day.
        clocks = b"".join(
            _bytes(1, _number(1, clock) + _number(2, at_ns)) for clock in (_BOOTTIME, _REALTIME)
        )
        snapshot = clocks + _number(2, _BOOTTIME)
        self._put(
            _number(8, at_ns)
            + _number(10, _SEQUENCE)
            + _number(13, _STATE_CLEARED)
            + _number(87, 1)
            + _bytes(6, snapshot)
        )

    def process(self, track: int, number: int, name: str, *, rank: int = 0) -> None:
        """Define a group of tracks; the viewer displays the unique ``number`` beside its name."""
        process = _number(1, number) + _text(6, name)
        self._track(_number(1, track) + _bytes(3, process), rank)

    def track(self, track: int, parent: int, name: str, *, rank: int = 0) -> None:
        """Define a track below another one or in a group; lower values of ``rank`` come first."""
        self._track(_number(1, track) + _number(5, parent) + _text(2, name), rank)

    def event(
        self,
        kind: PacketKind,
        track: int,
        at_ns: int,
        name: str = "",
        category: str = "",
        values: Mapping[str, Value] | None = None,
        flow: int = 0,
    ) -> None:
        """Write the beginning or end of a slice, or an instant.

        An END has no name: it ends the newest open slice of its track. Empty strings and tuples
        among ``values`` are omitted. An arrow connects the event with the previous event of the
        same ``flow``; 0: no arrow.
        """
        new_names: list[bytes] = []
        parts = [_TYPE[kind], _TRACK, varint(track)]
        if name:
            # Most names are used repeatedly, but an untrusted recording may have too many.
            number = self._intern(self._names, 2, name, new_names)
            parts.append(_number(10, number) if number else _text(23, name))
        if category:
            parts.append(_text(22, category))
        for key, value in (values or {}).items():
            if value in ("", ()):
                continue
            number = self._intern(self._keys, 3, key, new_names)
            content = (_number(1, number) if number else _text(10, key)) + _value(value)
            parts += (_ANNOTATION, varint(len(content)), content)
        if flow:
            parts += (_FLOW, flow.to_bytes(8, "little"))
        content = b"".join(parts)
        interned = _bytes(12, b"".join(new_names)) if new_names else b""
        self._put(
            b"".join(
                (
                    _TIMESTAMP,
                    varint(_time(at_ns)),
                    _SEQUENCE_FIELDS,
                    interned,
                    _TRACK_EVENT,
                    varint(len(content)),
                    content,
                )
            )
        )

    def _intern(
        self, numbers: dict[str, int], field: int, name: str, new_names: list[bytes]
    ) -> int:
        """Return the number of an interned name, or 0; append new definitions to ``new_names``."""
        number = numbers.get(name, 0)
        if not number and len(numbers) < MAX_NAMES and len(name) <= _MAX_INTERNED:
            numbers[name] = number = len(numbers) + 1
            new_names.append(_bytes(field, _number(1, number) + _text(2, name)))
        return number

    def _track(self, descriptor: bytes, rank: int) -> None:
        # TrackDescriptor.ChildTracksOrdering: 3 orders child tracks by rank.
        order = _number(11, 3) + (_number(12, rank) if rank else b"")
        self._put(_number(10, _SEQUENCE) + _bytes(60, descriptor + order))

    def _put(self, packet: bytes) -> None:
        self._stream.write(b"".join((_PACKET, varint(len(packet)), packet)))


def _value(value: Value) -> bytes:
    """Return the value field of a DebugAnnotation."""
    match value:
        case bool():
            return _number(2, value)
        case int():
            return _number(4, min(max(value, LOWEST), HIGHEST))
        case str():
            return _text(6, value)
        case _:
            items = value if len(value) <= MAX_ITEMS else (*value[:MAX_ITEMS], _CUT)
            return b"".join(_bytes(12, _text(6, item)) for item in items)


def _time(at_ns: int) -> int:
    # The viewer uses signed 64-bit integers.
    return min(max(at_ns, 0), HIGHEST)
