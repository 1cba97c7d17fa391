# SPDX-License-Identifier: Apache-2.0
"""Messages cut out of a stream that somebody else framed."""

from __future__ import annotations

import itertools
import struct

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.wire import Connection, Limits, ResponseReceived
from nri_scope.wire.frames import MessageSplitter, error_response, parse_request
from nri_scope.wire.mux import MuxReader

SMALL = Limits(frame_payload=400, message_data=300, requests_in_flight=4, safe_frame=64)


def frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


def message(stream_id: int, data: bytes) -> bytes:
    return struct.pack(">IIBB", len(data), stream_id, 1, 0) + data


def streams(data: bytes) -> dict[int, bytes]:
    """The bytes of each mux id."""
    pieces, error = MuxReader(SMALL).feed(data)
    assert error is None
    found: dict[int, bytes] = {}
    for conn_id, _, piece in pieces:
        found[conn_id] = found.get(conn_id, b"") + piece
    return {conn_id: stream for conn_id, stream in found.items() if stream}


_DATA = st.lists(st.binary(max_size=150), max_size=5)
_CUTS = st.lists(st.integers(1, 60), max_size=20)


@given(_DATA, _CUTS, st.lists(st.integers(0, 30), min_size=1, max_size=4))
def test_however_messages_are_framed_each_is_found_and_nothing_is_lost(
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


def test_frames_that_hold_a_message_each_are_not_made_anew() -> None:
    # A header and its data in two frames, as Go reads them best.
    whole = message(1, bytes(100))
    first = frame(1, whole[:10]) + frame(1, whole[10:])
    second = frame(1, message(3, b""))
    pieces = MessageSplitter(1, SMALL).feed(first + second)
    assert [piece.raw for piece in pieces] == [first, second]


@given(st.binary(max_size=900), st.integers(1, 100))
def test_whatever_comes_is_passed_on_to_the_last_byte_where_it_cannot_be_cut(
    data: bytes, size: int
) -> None:
    said = frame(1, struct.pack(">IIBB", 301, 1, 1, 0) + data[:50]) + data
    frames = MessageSplitter(1, SMALL)
    passed = b""
    for start in range(0, len(said), size):
        passed += b"".join(piece.raw for piece in frames.feed(said[start : start + size]))
    assert passed + frames.flush() == said
    assert frames.is_passthrough


def test_what_is_held_at_the_end_is_not_lost() -> None:
    frames = MessageSplitter(1, SMALL)
    said = frame(1, message(1, b"12345"))
    assert frames.feed(said[:-2]) == []
    assert frames.flush() == said[:-2]


def test_an_error_in_somebodys_place_is_one_to_the_caller() -> None:
    caller = Connection(serves=2, calls=1)
    stream = caller.send_request("s", "m", b"payload")
    request = b"".join(caller.data_to_send())
    assert parse_request(request[18:]) == ("s", "m", b"payload")
    assert parse_request(b"\xff") is None
    caller.receive_data(error_response(1, stream, 2, "on purpose"))
    assert caller.events_received() == [ResponseReceived(stream, 2, "on purpose", b"")]
