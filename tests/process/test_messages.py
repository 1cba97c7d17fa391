# SPDX-License-Identifier: Apache-2.0
"""Messages between processes arrive unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.errors import RemoteProtocolError
from nri_scope.process.channel import HEAD, PAYLOAD_MAX, ChannelReader, message

_MESSAGES = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), max_size=20)


@given(_MESSAGES, st.lists(st.integers(1, 500), min_size=1, max_size=5))
def test_messages_arrive_in_chunks_of_any_size(
    sent: list[tuple[int, bytes]], sizes: list[int]
) -> None:
    stream = b"".join(message(kind, payload[:7], payload[7:]) for kind, payload in sent)
    reader, received, start, number = ChannelReader(), list[tuple[int, bytes]](), 0, 0
    while start < len(stream):
        size = sizes[number % len(sizes)]
        received += reader.feed(stream[start : start + size])
        start, number = start + size, number + 1
    assert received == sent


@given(st.binary(max_size=2000), st.integers(1, 300))
def test_arbitrary_bytes_are_messages_or_rejected(stream: bytes, size: int) -> None:
    reader, received = ChannelReader(), list[tuple[int, bytes]]()
    try:
        for start in range(0, len(stream), size):
            received += reader.feed(stream[start : start + size])
    except RemoteProtocolError:
        pass
    # Encoded again, the received messages are a prefix of the stream.
    assert stream.startswith(b"".join(message(kind, payload) for kind, payload in received))


def test_a_large_message_in_many_chunks_is_assembled() -> None:
    payload = bytes(8 << 20)
    stream = message(3, payload)
    reader = ChannelReader()
    received = [
        each
        for start in range(0, len(stream), 1 << 14)
        for each in reader.feed(stream[start : start + (1 << 14)])
    ]
    assert received == [(3, payload)]


def test_a_message_that_is_too_large_is_rejected_by_its_head() -> None:
    with pytest.raises(RemoteProtocolError):
        list(ChannelReader().feed(HEAD.pack(PAYLOAD_MAX + 1, 0)))
