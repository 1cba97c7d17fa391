# SPDX-License-Identifier: Apache-2.0
"""What is heard of two peers that talk to each other."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.ttrpc.ttrpc_pb2 import KeyValue, Request, Response
from nri_scope.wire import (
    Connection,
    DecodingEnded,
    Limits,
    MessageSkipped,
    PassiveDecoder,
    RequestObserved,
    ResponseObserved,
)
from nri_scope.wire.events import RequestReceived

SMALL = Limits(frame_payload=400, message_data=300, requests_in_flight=4, safe_frame=64)


def frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


def message(stream_id: int, kind: int, data: bytes) -> bytes:
    return struct.pack(">IIBB", len(data), stream_id, kind, 0) + data


def hearing() -> PassiveDecoder:
    return PassiveDecoder((1, 2), SMALL)


def fed(data: bytes, cuts: list[int]) -> list[object]:
    """What is heard of ``data`` when it comes in pieces of these lengths."""
    ears = hearing()
    heard: list[object] = []
    for cut in cuts:
        heard += ears.feed(data[:cut])
        data = data[cut:]
    return heard + list(ears.feed(data))


def test_a_call_and_its_answer_are_heard_with_all_that_came_along() -> None:
    runtime, plugin = Connection(serves=2, calls=1), Connection(serves=1, calls=2)
    stream = runtime.send_request(
        "svc", "Do", b"payload", timeout_ns=5, metadata=[("k", "v"), ("k", "w")]
    )
    asked = b"".join(runtime.data_to_send())
    plugin.receive_data(asked)
    assert isinstance(plugin.events_received()[0], RequestReceived)
    plugin.send_response(stream, b"reply")
    assert hearing().feed(asked) == [
        RequestObserved(1, stream, "svc", "Do", b"payload", 5, (("k", "v"), ("k", "w")))
    ]
    assert hearing().feed(b"".join(plugin.data_to_send())) == [
        ResponseObserved(1, stream, 0, "", b"reply")
    ]


def test_calls_on_both_ids_and_in_any_order_are_heard_from_either_side() -> None:
    data = b"".join(
        (
            frame(2, message(7, 2, b"")),
            frame(1, message(5, 1, Request(service="s", method="m").SerializeToString())),
            frame(1, message(5, 1, Request(service="s", method="again").SerializeToString())),
        )
    )
    assert hearing().feed(data) == [
        ResponseObserved(2, 7, 0, "", b""),
        RequestObserved(1, 5, "s", "m", b"", 0, ()),
        RequestObserved(1, 5, "s", "again", b"", 0, ()),
    ]


def test_an_error_is_heard_without_the_payload_beside_it() -> None:
    response = Response(payload=b"ignored")
    response.status.code = 12
    response.status.message = "no such thing"
    data = frame(1, message(1, 2, response.SerializeToString()))
    assert hearing().feed(data) == [ResponseObserved(1, 1, 12, "no such thing", b"")]


def test_what_is_not_understood_is_told_and_what_follows_is_heard() -> None:
    request = message(9, 1, Request(service="s", method="m").SerializeToString())
    data = b"".join(
        (
            frame(3, b"not listened to"),
            frame(1, message(1, 1, b"\xff\xff")),
            frame(1, message(3, 9, b"what type is that?")),
            frame(1, message(5, 1, bytes(301))),
            frame(1, request),
        )
    )
    *strange, last = hearing().feed(data)
    assert [type(one) for one in strange] == [MessageSkipped] * 3
    assert [one.stream_id for one in strange if isinstance(one, MessageSkipped)] == [1, 3, 5]
    assert last == RequestObserved(1, 9, "s", "m", b"", 0, ())


def test_hearing_ends_where_nobody_can_tell_what_is_said() -> None:
    ears = hearing()
    assert ears.feed(frame(1, b"")) == []
    (ended,) = ears.feed(struct.pack(">II", 1, 401))
    assert isinstance(ended, DecodingEnded)
    assert ended.offset == 8
    assert ears.feed(frame(1, message(1, 2, b""))) == []


def test_a_message_that_is_not_whole_is_known_to_be_there() -> None:
    ears = hearing()
    assert not ears.in_message
    ears.feed(frame(1, message(1, 2, b"12345"))[:-1])
    assert ears.in_message


@given(st.binary(max_size=600), st.lists(st.integers(0, 90), max_size=12))
def test_anything_may_be_said_in_any_pieces(data: bytes, cuts: list[int]) -> None:
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


def _plain(heard: list[object]) -> list[object]:
    # Where hearing ends is told as the beginning of the piece it ended in.
    return [one.error.args if isinstance(one, DecodingEnded) else one for one in heard]
