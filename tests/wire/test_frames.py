# SPDX-License-Identifier: Apache-2.0
"""Messages split out of a stream framed by another process."""

from __future__ import annotations

import itertools
import struct

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.wire import Connection, Limits, ResponseReceived
from nri_scope.wire.mux import MessageSplitter, MuxReader, error_response, parse_request

SMALL = Limits(frame_payload=400, message_data=300, requests_in_flight=4, safe_frame=64)


def frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


def message(stream_id: int, data: bytes) -> bytes:
    return struct.pack(">IIBB", len(data), stream_id, 1, 0) + data


def streams(data: bytes) -> dict[int, bytes]:
    """Return the bytes of each mux id."""
    pieces, error = MuxReader(SMALL).feed(data)
    assert error is None
    found: dict[int, bytes] = {}
    for conn_id, _, piece in pieces:
        found[conn_id] = found.get(conn_id, b"") + piece
    return {conn_id: stream for conn_id, stream in found.items() if stream}


_DATA = st.lists(st.binary(max_size=150), max_size=5)
_CUTS = st.lists(st.integers(1, 60), max_size=20)


@given(_DATA, _CUTS, st.lists(st.integers(0, 30), min_size=1, max_size=4))
def test_all_messages_are_found_in_any_framing_and_no_byte_is_lost(
    contents: list[bytes], cuts: list[int], others: list[int]
) -> None:
    stream = b"".join(message(number, data) for number, data in enumerate(contents, 1))
    framed = b""
    sizes, fill = itertools.cycle(cuts or [200]), itertools.cycle(others)
    while stream:
        size = next(sizes)
        framed += frame(1, stream[:size]) + frame(2, bytes(next(fill)))
        stream = stream[size:]
    frames = MessageSplitter(1, SMALL)
    pieces = []
    for start in range(0, len(framed), 37):
        pieces += frames.feed(framed[start : start + 37])
    assert frames.flush() == b""
    found = [(piece.stream_id, piece.data) for piece in pieces if piece.type]
    assert found == list(enumerate(contents, 1))
    assert streams(b"".join(piece.raw for piece in pieces)) == streams(framed)


def test_frames_that_contain_one_message_are_not_rebuilt() -> None:
    # A header and its data in two frames, as Go writes them.
    whole = message(1, bytes(100))
    first = frame(1, whole[:10]) + frame(1, whole[10:])
    second = frame(1, message(3, b""))
    pieces = MessageSplitter(1, SMALL).feed(first + second)
    assert [piece.raw for piece in pieces] == [first, second]


@given(st.binary(max_size=900), st.integers(1, 100))
def test_a_stream_that_cannot_be_split_passes_unchanged(data: bytes, size: int) -> None:
    stream = frame(1, struct.pack(">IIBB", 301, 1, 1, 0) + data[:50]) + data
    frames = MessageSplitter(1, SMALL)
    passed = b""
    for start in range(0, len(stream), size):
        passed += b"".join(piece.raw for piece in frames.feed(stream[start : start + size]))
    assert passed + frames.flush() == stream
    assert frames.is_passthrough


def test_flush_returns_an_incomplete_message() -> None:
    frames = MessageSplitter(1, SMALL)
    stream = frame(1, message(1, b"12345"))
    assert frames.feed(stream[:-2]) == []
    assert frames.flush() == stream[:-2]


def test_a_caller_receives_an_error_response() -> None:
    caller = Connection(serves=2, calls=1)
    stream = caller.send_request("s", "m", b"payload")
    request = b"".join(caller.data_to_send())
    assert parse_request(request[18:]) == ("s", "m", b"payload")
    assert parse_request(b"\xff") is None
    caller.receive_data(error_response(1, stream, 2, "on purpose"))
    assert caller.events_received() == [ResponseReceived(stream, 2, "on purpose", b"")]
