# SPDX-License-Identifier: Apache-2.0
"""Decoding the traffic of two peers without taking part in it."""

from __future__ import annotations

import re
import struct
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.ttrpc.ttrpc_pb2 import KeyValue, Request, Response
from nri_scope.wire import (
    Connection,
    DecodingEnded,
    Limits,
    MessageSkipped,
    PassiveDecoder,
    RequestReceived,
    ResponseReceived,
)
from tests.wire.go_connection import GoConnection

SMALL = Limits(frame_payload=400, message_data=300, requests_in_flight=4, safe_frame=64)


def frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


def message(stream_id: int, kind: int, data: bytes) -> bytes:
    return struct.pack(">IIBB", len(data), stream_id, kind, 0) + data


def decoder() -> PassiveDecoder:
    return PassiveDecoder((1, 2), SMALL)


def fed(data: bytes, cuts: list[int]) -> list[object]:
    """Return the events of ``data`` in chunks of these lengths."""
    passive = decoder()
    events: list[object] = []
    for cut in cuts:
        events += passive.feed(data[:cut])
        data = data[cut:]
    return events + list(passive.feed(data))


def test_a_request_and_its_response_are_decoded_with_timeout_and_metadata() -> None:
    runtime, plugin = Connection(serves=2, calls=1), Connection(serves=1, calls=2)
    stream = runtime.send_request(
        "svc", "Do", b"payload", timeout_ns=5, metadata=[("k", "v"), ("k", "w")]
    )
    request = b"".join(runtime.data_to_send())
    plugin.receive_data(request)
    assert isinstance(plugin.events_received()[0], RequestReceived)
    plugin.send_response(stream, b"reply")
    assert decoder().feed(request) == [
        RequestReceived(stream, "svc", "Do", b"payload", 5, (("k", "v"), ("k", "w")), 1)
    ]
    assert decoder().feed(b"".join(plugin.data_to_send())) == [
        ResponseReceived(stream, 0, "", b"reply", 1)
    ]


def test_messages_on_both_ids_are_decoded_in_any_order() -> None:
    data = b"".join(
        (
            frame(2, message(7, 2, b"")),
            frame(1, message(5, 1, Request(service="s", method="m").SerializeToString())),
            frame(1, message(5, 1, Request(service="s", method="again").SerializeToString())),
        )
    )
    assert decoder().feed(data) == [
        ResponseReceived(7, 0, "", b"", 2),
        RequestReceived(5, "s", "m", b"", 0, (), 1),
        RequestReceived(5, "s", "again", b"", 0, (), 1),
    ]


def test_an_error_status_is_decoded_without_its_payload() -> None:
    response = Response(payload=b"ignored")
    response.status.code = 12
    response.status.message = "no such thing"
    data = frame(1, message(1, 2, response.SerializeToString()))
    assert decoder().feed(data) == [ResponseReceived(1, 12, "no such thing", b"", 1)]


def test_skipped_messages_are_reported_and_later_messages_decoded() -> None:
    request = message(9, 1, Request(service="s", method="m").SerializeToString())
    data = b"".join(
        (
            frame(3, b"other id"),
            frame(1, message(1, 1, b"\xff\xff")),
            frame(1, message(3, 9, b"what type is that?")),
            frame(1, message(5, 1, bytes(301))),
            frame(1, request),
        )
    )
    *strange, last = decoder().feed(data)
    assert [type(one) for one in strange] == [MessageSkipped] * 3
    assert [one.stream_id for one in strange if isinstance(one, MessageSkipped)] == [1, 3, 5]
    assert last == RequestReceived(9, "s", "m", b"", 0, (), 1)


def test_decoding_ends_at_an_invalid_frame() -> None:
    passive = decoder()
    assert passive.feed(frame(1, b"")) == []
    (ended,) = passive.feed(struct.pack(">II", 1, 401))
    assert isinstance(ended, DecodingEnded)
    assert ended.offset == 8
    assert passive.feed(frame(1, message(1, 2, b""))) == []


def test_an_incomplete_message_is_reported_by_in_message() -> None:
    passive = decoder()
    assert not passive.in_message
    passive.feed(frame(1, message(1, 2, b"12345"))[:-1])
    assert passive.in_message


@given(st.binary(max_size=600), st.lists(st.integers(0, 90), max_size=12))
def test_any_bytes_in_any_chunks_give_the_same_events(data: bytes, cuts: list[int]) -> None:
    assert _plain(fed(data, cuts)) == _plain(fed(data, []))


_MESSAGES = st.builds(
    lambda conn_id, stream_id, method, pairs: frame(
        conn_id,
        message(
            stream_id,
            1,
            Request(
                service="s", method=method, metadata=[KeyValue(key=k, value=v) for k, v in pairs]
            ).SerializeToString(),
        ),
    ),
    st.sampled_from((1, 2, 3)),
    st.integers(0, 2**32 - 1),
    st.text(max_size=20),
    st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=3),
)


@given(st.lists(_MESSAGES, max_size=6), st.lists(st.integers(0, 90), max_size=12))
def test_any_split_gives_the_same(messages: list[bytes], cuts: list[int]) -> None:
    data = b"".join(messages)
    whole = fed(data, [])
    assert len(whole) == sum(data[3] != 3 for data in messages)
    assert fed(data, cuts) == whole


def _plain(events: list[object]) -> list[object]:
    # The offset of the end depends on the chunks.
    return [event.error.args if isinstance(event, DecodingEnded) else event for event in events]


@given(st.data(), st.integers(1000, 9000))
def test_of_a_message_over_the_limit_only_its_content_is_lost(
    data: st.DataObject, size: int
) -> None:
    runtime = GoConnection(serves=2, calls=1)
    stream = runtime.send_request("nri.pkg.api.v1alpha1.Plugin", "Synchronize", b"x" * size)
    runtime.send_request("svc", "Later", b"")
    written = b"".join(runtime.data_to_send())
    cuts = data.draw(st.lists(st.integers(0, len(written)), max_size=8))
    decoder = PassiveDecoder((1, 2), Limits(frame_payload=64 << 20, message_data=999))
    events: list[object] = []
    for start, end in pairwise([0, *sorted(cuts), len(written)]):
        events += decoder.feed(written[start:end])
    skipped, later = events
    assert isinstance(skipped, MessageSkipped) and isinstance(later, RequestReceived)
    assert (skipped.conn_id, skipped.stream_id, skipped.is_oversized) == (1, stream, True)
    words = re.fullmatch(r"Synchronize of (\d+) bytes; the limit is 999", skipped.reason)
    assert words is not None and size < int(words[1]) < size + 100
    assert later.method == "Later"
    assert not decoder.in_message
