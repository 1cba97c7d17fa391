# SPDX-License-Identifier: Apache-2.0
"""Write Perfetto's trace format as bytes: tracks with slices and instants.

A file is a ``perfetto.protos.Trace``, which is a sequence of ``TracePacket``, so it can be written
incrementally. The numbers below are field numbers of ``perfetto_trace.proto``, which never change.
Tests read the output with Perfetto's own definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from hashlib import blake2b
from typing import IO

from nri_scope.nri.element_limits import varint
from nri_scope.recording.sqlite_text import HIGHEST, LOWEST, storable

MAX_TEXT = 4_096
"""Maximum number of characters of a name or value; a longer one is cut and ends with ``…``."""
MAX_ITEMS = 128
"""Maximum number of items of a list; a longer one is cut and ends with ``…``."""
MAX_NAMES = 1_024
"""Maximum number of names that are written once and then referred to by number."""

Value = bool | int | str | tuple[str, ...]
"""The types of a slice's annotations."""

_CUT = "…"
_SHORT = 64
"""Maximum length in characters of names that get a number."""
_VARINT, _FIXED64, _LENGTH = 0, 1, 2
# TracePacket.trusted_packet_sequence_id: there is a single writer.
_SEQUENCE = 1
# ClockSnapshot: times are wall clock times, drawn unchanged.
_REALTIME, _BOOTTIME = 1, 6
_CLEARED, _NEEDED = 1, 2
"""TracePacket.SequenceFlags: discard earlier names from here on; earlier names are needed."""


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
_OURS = _number(10, _SEQUENCE) + _number(13, _NEEDED)


def track_id(*what: str | int) -> int:
    """Return the deterministic number of the track about ``what``; never 0, which is none."""
    told = "".join(f"{len(text)}:{text}" for text in map(str, what))
    digest = blake2b(told.encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest) | 1


class Packets:
    """Writes a trace. Times are wall clock times in nanoseconds."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._names: dict[str, int] = {}
        self._keys: dict[str, int] = {}

    def begin(self, at_ns: int) -> None:
        """Write the first packet; ``at_ns`` is any moment of the trace."""
        at_ns = _time(at_ns)
        # Both clocks show the same time, so that the viewer can display the time of day.
        clocks = b"".join(
            _bytes(1, _number(1, clock) + _number(2, at_ns)) for clock in (_BOOTTIME, _REALTIME)
        )
        snapshot = clocks + _number(2, _BOOTTIME)
        self._put(
            _number(8, at_ns)
            + _number(10, _SEQUENCE)
            + _number(13, _CLEARED)
            + _number(87, 1)
            + _bytes(6, snapshot)
        )

    def process(self, track: int, number: int, name: str, *, rank: int = 0) -> None:
        """Define a group of tracks; the unique ``number`` is shown beside its name."""
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

        The end of a slice has no name: it ends the newest open slice of its track. Empty texts and
        tuples among ``values`` are left out. ``flow`` connects the event with the previous event of
        the same number; 0: no connection.
        """
        new_names: list[bytes] = []
        parts = [_TYPE[kind], _TRACK, varint(track)]
        if name:
            # Most names are used repeatedly; an untrusted recording may have many.
            number = self._numbered(self._names, 2, name, new_names)
            parts.append(_number(10, number) if number else _text(23, name))
        if category:
            parts.append(_text(22, category))
        for key, value in (values or {}).items():
            if value in ("", ()):
                continue
            number = self._numbered(self._keys, 3, key, new_names)
            content = (_number(1, number) if number else _text(10, key)) + _value(value)
            parts += (_ANNOTATION, varint(len(content)), content)
        if flow:
            parts += (_FLOW, flow.to_bytes(8, "little"))
        content = b"".join(parts)
        told = _bytes(12, b"".join(new_names)) if new_names else b""
        self._put(
            b"".join(
                (
                    _TIMESTAMP,
                    varint(_time(at_ns)),
                    _OURS,
                    told,
                    _TRACK_EVENT,
                    varint(len(content)),
                    content,
                )
            )
        )

    def _numbered(
        self, numbers: dict[str, int], field: int, name: str, new_names: list[bytes]
    ) -> int:
        """Return a name's number, or 0; add the definition of a new name to ``new_names``."""
        number = numbers.get(name, 0)
        if not number and len(numbers) < MAX_NAMES and len(name) <= _SHORT:
            numbers[name] = number = len(numbers) + 1
            new_names.append(_bytes(field, _number(1, number) + _text(2, name)))
        return number

    def _track(self, descriptor: bytes, rank: int) -> None:
        # TrackDescriptor: child tracks are ordered by rank.
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
    # The viewer uses signed numbers.
    return min(max(at_ns, 0), HIGHEST)
