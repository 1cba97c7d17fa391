# SPDX-License-Identifier: Apache-2.0
"""Both ends of a connection, and the handling of a peer that violates the rules."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.ttrpc.ttrpc_pb2 import Request, Response
from nri_scope.errors import LocalProtocolError
from nri_scope.wire import (
    Code,
    Connection,
    ConnectionFailed,
    FrameIgnored,
    Limits,
    MessageIgnored,
    MessageRejected,
    PeerClosed,
    RequestReceived,
    ResponseReceived,
    WireEvent,
)
from tests.amount import amount

SMALL = Limits(frame_payload=400, message_data=300, requests_in_flight=4, safe_frame=64)


def pair(limits: Limits | None = None) -> tuple[Connection, Connection]:
    """A runtime's end (calls on 1, serves on 2) and a plugin's."""
    return (
        Connection(serves=2, calls=1, limits=limits),
        Connection(serves=1, calls=2, limits=limits),
    )


def output(end: Connection) -> bytes:
    return b"".join(end.data_to_send())


def frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


def message(stream_id: int, kind: int, data: bytes, flags: int = 0) -> bytes:
    return struct.pack(">IIBB", len(data), stream_id, kind, flags) + data


def request_bytes(stream_id: int, method: str = "CreateContainer", payload: bytes = b"") -> bytes:
    return message(
        stream_id, 1, Request(service="s", method=method, payload=payload).SerializeToString()
    )


def statuses(end: Connection) -> list[tuple[int, int]]:
    """(stream id, code) of the responses waiting in the output of the plugin's end."""
    reader = Connection(serves=2, calls=1)
    for _ in range(64):
        reader.send_request("s", "m", b"")
    reader.data_to_send()
    reader.receive_data(output(end))
    return [
        (event.stream_id, event.code)
        for event in reader.events_received()
        if isinstance(event, ResponseReceived)
    ]


def test_request_and_response_cross() -> None:
    runtime, plugin = pair()
    stream = runtime.send_request(
        "svc", "CreateContainer", b"abc", timeout_ns=2_000_000_000, metadata=[("k", "v")]
    )
    plugin.receive_data(output(runtime))
    assert plugin.events_received() == [
        RequestReceived(stream, "svc", "CreateContainer", b"abc", 2_000_000_000, (("k", "v"),))
    ]
    plugin.send_response(stream, b"reply")
    runtime.receive_data(output(plugin))
    assert runtime.events_received() == [ResponseReceived(stream, 0, "", b"reply")]


def test_empty_reply_is_a_bare_header() -> None:
    _runtime, plugin = pair()
    plugin.receive_data(frame(1, request_bytes(1)))
    plugin.send_response(1)
    assert output(plugin) == frame(1, message(1, 2, b""))


def test_concurrent_calls_of_both_ends_with_reordered_responses() -> None:
    runtime, plugin = pair()
    first = runtime.send_request("s", "a", b"1")
    second = runtime.send_request("s", "b", b"2")
    register = plugin.send_request("s", "RegisterPlugin", b"r")
    plugin.receive_data(output(runtime))
    runtime.receive_data(output(plugin))
    assert [type(event) for event in plugin.events_received()] == [RequestReceived] * 2
    assert isinstance(runtime.events_received()[0], RequestReceived)
    plugin.send_response(second, b"B")
    plugin.send_response(first, b"A")
    runtime.send_response(register, b"R")
    runtime.receive_data(output(plugin))
    plugin.receive_data(output(runtime))
    assert runtime.events_received() == [
        ResponseReceived(second, 0, "", b"B"),
        ResponseReceived(first, 0, "", b"A"),
    ]
    assert plugin.events_received() == [ResponseReceived(register, 0, "", b"R")]


def test_error_status_has_no_payload() -> None:
    runtime, plugin = pair()
    stream = runtime.send_request("s", "m", b"")
    plugin.receive_data(output(runtime))
    plugin.send_error(stream, Code.UNIMPLEMENTED, "no such method")
    runtime.receive_data(output(plugin))
    assert runtime.events_received() == [ResponseReceived(stream, 12, "no such method", b"")]


def test_payload_beside_an_error_status_is_dropped() -> None:
    runtime, _ = pair()
    stream = runtime.send_request("s", "m", b"")
    response = Response(payload=b"leftover")
    response.status.code = 13
    runtime.receive_data(frame(1, message(stream, 2, response.SerializeToString())))
    assert runtime.events_received() == [ResponseReceived(stream, 13, "", b"")]


@pytest.mark.parametrize("size", [0, 1, 4000, 4085, 4086, 4087, 4096, 100_000, 3_000_000])
def test_no_frame_makes_a_go_peer_fail(size: int) -> None:
    """Header and data share a frame up to 4,096 bytes; otherwise each has its own."""
    runtime, _ = pair()
    runtime.send_request("s", "m", b"x" * size)
    sent, frames = output(runtime), []
    while sent:
        conn_id, length = struct.unpack_from(">II", sent)
        assert conn_id == 1
        frames.append(sent[8 : 8 + length])
        sent = sent[8 + length :]
    data_length = struct.unpack_from(">I", frames[0])[0]
    if data_length + 10 <= 4096:
        assert [len(one) for one in frames] == [10 + data_length]
    else:
        assert [len(one) for one in frames] == [10, data_length]


@pytest.mark.parametrize(
    ("received", "code", "stream"),
    [
        (request_bytes(2), Code.INVALID_ARGUMENT, 2),
        (request_bytes(0), Code.INVALID_ARGUMENT, 0),
        (message(5, 3, b"data"), Code.INVALID_ARGUMENT, 5),
        (message(7, 1, b"\xff\xff"), Code.INVALID_ARGUMENT, 7),
        (message(7, 1, b"\x0a\x02\xff\xfe"), Code.INVALID_ARGUMENT, 7),
        (message(9, 1, b"x" * 301), Code.RESOURCE_EXHAUSTED, 9),
    ],
    ids=["even", "zero", "data-without-stream", "no-protobuf", "no-utf-8", "too-long"],
)
def test_a_bad_request_is_rejected_and_the_connection_continues(
    received: bytes, code: Code, stream: int
) -> None:
    plugin = pair(SMALL)[1]
    plugin.receive_data(frame(1, received))
    (rejected,) = plugin.events_received()
    assert isinstance(rejected, MessageRejected)
    assert (rejected.stream_id, rejected.code) == (stream, code)
    if stream % 2:
        assert statuses(plugin) == [(stream, code)]
    plugin.data_to_send()
    plugin.receive_data(frame(1, request_bytes(11)))
    assert isinstance(plugin.events_received()[0], RequestReceived)


def test_stream_ids_must_grow() -> None:
    plugin = pair()[1]
    plugin.receive_data(frame(1, request_bytes(5)) + frame(1, request_bytes(5)))
    plugin.receive_data(frame(1, request_bytes(3)) + frame(1, request_bytes(7)))
    kinds = [type(event) for event in plugin.events_received()]
    assert kinds == [RequestReceived, MessageRejected, MessageRejected, RequestReceived]


def test_unknown_connection_and_message_types_are_reported_and_ignored() -> None:
    _runtime, plugin = pair()
    plugin.receive_data(
        frame(9, b"what is this")
        + frame(1, message(1, 77, b"future", flags=3))
        + frame(2, message(1, 2, b""))
        + frame(1, request_bytes(3))
    )
    assert plugin.events_received() == [
        FrameIgnored(9, 12),
        MessageIgnored(1, 1, 77, 3, 6),
        MessageIgnored(2, 1, 2, 0, 0),
        RequestReceived(3, "s", "CreateContainer", b"", 0, ()),
    ]


def test_response_without_a_pending_call_is_ignored() -> None:
    runtime, plugin = pair()
    stream = runtime.send_request("s", "m", b"")
    plugin.receive_data(output(runtime))
    runtime.forget_request(stream)
    plugin.send_response(stream, b"late")
    runtime.receive_data(output(plugin))
    assert [type(event) for event in runtime.events_received()] == [MessageIgnored]


def test_response_over_the_limit_fails_that_call_only() -> None:
    runtime, _ = pair(SMALL)
    stream = runtime.send_request("s", "m", b"")
    runtime.receive_data(frame(1, message(stream, 2, b"x" * 301)))
    (answer,) = runtime.events_received()
    assert isinstance(answer, ResponseReceived)
    assert answer.code == Code.RESOURCE_EXHAUSTED


def test_undecodable_response_ends_the_connection() -> None:
    runtime, _ = pair()
    stream = runtime.send_request("s", "m", b"")
    undecodable = message(stream, 2, b"\xff\xff")
    runtime.receive_data(frame(1, undecodable + undecodable) + frame(9, b"") + b"\xff" * 8)
    assert [type(event) for event in runtime.events_received()] == [ConnectionFailed]
    runtime.receive_data(frame(1, request_bytes(1)))
    runtime.receive_eof()
    assert runtime.events_received() == []


def test_frame_over_the_limit_ends_the_connection_before_any_allocation() -> None:
    plugin = pair()[1]
    plugin.receive_data(frame(1, request_bytes(1)) + struct.pack(">II", 1, 0xFFFFFFFF))
    first, last = plugin.events_received()
    assert isinstance(first, RequestReceived)
    assert isinstance(last, ConnectionFailed)
    assert "4294967295" in str(last.error)


@pytest.mark.parametrize(
    ("before", "mid"),
    [
        (b"", False),
        (frame(1, request_bytes(1)), False),
        (frame(1, request_bytes(1))[:5], True),
        (frame(1, request_bytes(1))[:-1], True),
        (frame(1, request_bytes(1)[:-1]), True),
        (frame(1, request_bytes(1)[:3]), True),
    ],
    ids=["nothing", "whole", "frame-header", "frame", "message", "message-header"],
)
def test_end_of_stream_reports_an_incomplete_message(before: bytes, mid: bool) -> None:
    plugin = pair()[1]
    plugin.receive_data(before)
    plugin.receive_eof()
    assert plugin.events_received()[-1] == PeerClosed(mid)


def test_requests_in_flight_are_bounded() -> None:
    plugin = pair(SMALL)[1]
    for stream in range(1, 13, 2):
        plugin.receive_data(frame(1, request_bytes(stream)))
    kinds = [type(event) for event in plugin.events_received()]
    assert kinds == [RequestReceived] * 4 + [MessageRejected] * 2
    plugin.send_response(1)
    plugin.receive_data(frame(1, request_bytes(21)))
    assert isinstance(plugin.events_received()[0], RequestReceived)


def test_local_errors_raise_and_send_nothing() -> None:
    runtime, plugin = pair(SMALL)
    with pytest.raises(LocalProtocolError, match="exceeds the limit"):
        runtime.send_request("s", "m", b"x" * 400)
    with pytest.raises(LocalProtocolError, match="no unanswered request"):
        plugin.send_response(1)
    plugin.receive_data(frame(1, request_bytes(1)))
    with pytest.raises(LocalProtocolError, match="other than 0"):
        plugin.send_error(1, 0, "fine")
    with pytest.raises(LocalProtocolError, match="exceeds the limit"):
        plugin.send_response(1, b"x" * 400)
    plugin.send_response(1)
    with pytest.raises(LocalProtocolError, match="no unanswered request"):
        plugin.send_response(1)
    assert output(runtime) == b""
    runtime.receive_eof()
    with pytest.raises(LocalProtocolError, match="has ended"):
        runtime.send_request("s", "m", b"")
    with pytest.raises(LocalProtocolError, match="cannot both"):
        Connection(serves=1, calls=1)


# -- laws -------------------------------------------------------------------------------------


def divide(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def feed(end: Connection, parts: list[bytes]) -> list[WireEvent]:
    for part in parts:
        end.receive_data(part)
    end.receive_eof()
    return end.events_received()


frames = st.lists(
    st.one_of(
        st.builds(frame, st.sampled_from([0, 1, 2, 3]), st.binary(max_size=40)),
        st.builds(
            lambda conn, stream, kind, data: frame(conn, message(stream, kind, data)),
            st.sampled_from([1, 2]),
            st.integers(0, 9),
            st.sampled_from([0, 1, 2, 3, 4]),
            st.binary(max_size=320),
        ),
        st.builds(
            lambda stream, payload: frame(1, request_bytes(stream, payload=payload)),
            st.integers(0, 30),
            st.binary(max_size=350),
        ),
    ),
    max_size=12,
).map(b"".join)
streams = st.one_of(st.binary(max_size=300), frames)
cuts = st.lists(st.integers(0, 1 << 20), max_size=30)


def comparable(events: list[WireEvent]) -> list[object]:
    return [str(event.error) if isinstance(event, ConnectionFailed) else event for event in events]


@given(streams, cuts)
def test_any_division_of_a_stream_gives_the_same_events_and_responses(
    data: bytes, where: list[int]
) -> None:
    ends = [Connection(serves=1, calls=2, limits=SMALL) for _ in range(3)]
    for end in ends:
        end.send_request("s", "m", b"")
    seen = [
        comparable(feed(ends[0], [data])),
        comparable(feed(ends[1], divide(data, where))),
        comparable(feed(ends[2], [data[i : i + 1] for i in range(len(data))])),
    ]
    assert seen[0] == seen[1] == seen[2]
    assert len({output(end) for end in ends}) == 1


@given(st.binary(max_size=2000))
def test_arbitrary_bytes_give_events_that_end_once(data: bytes) -> None:
    events = feed(Connection(serves=1, calls=2, limits=SMALL), [data])
    endings = [isinstance(event, (ConnectionFailed, PeerClosed)) for event in events]
    assert endings.count(True) == 1
    assert endings[-1]


@settings(max_examples=amount(50, 50))
@given(
    st.lists(
        st.tuples(
            st.text(max_size=20),
            st.binary(max_size=12_000),
            st.integers(0, 2**62),
            st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=3),
        ),
        max_size=6,
    ),
    cuts,
)
def test_calls_and_responses_round_trip(
    calls: list[tuple[str, bytes, int, list[tuple[str, str]]]], where: list[int]
) -> None:
    runtime, plugin = pair()
    ids = [
        runtime.send_request("svc", method, payload, timeout_ns=timeout, metadata=metadata)
        for method, payload, timeout, metadata in calls
    ]
    for part in divide(output(runtime), where):
        plugin.receive_data(part)
    assert plugin.events_received() == [
        RequestReceived(stream, "svc", method, payload, timeout, tuple(metadata))
        for stream, (method, payload, timeout, metadata) in zip(ids, calls, strict=True)
    ]
    for stream, (_, payload, _, _) in zip(ids, calls, strict=True):
        plugin.send_response(stream, payload[::-1])
    for part in divide(output(plugin), where):
        runtime.receive_data(part)
    assert runtime.events_received() == [
        ResponseReceived(stream, 0, "", payload[::-1])
        for stream, (_, payload, _, _) in zip(ids, calls, strict=True)
    ]


@pytest.mark.beyond_core
def test_memory_stays_bounded_by_the_message_limit_whatever_the_pieces() -> None:
    """A message received byte by byte costs about its size, not an object per byte."""
    import tracemalloc

    plugin = Connection(serves=1, calls=2)
    size = 100_000
    plugin.receive_data(struct.pack(">II", 1, size + 10) + struct.pack(">IIBB", size, 1, 1, 0))
    tracemalloc.start()
    try:
        for _ in range(size - 1):
            plugin.receive_data(b"\x00")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * size
