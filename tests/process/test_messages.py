# SPDX-License-Identifier: Apache-2.0
"""What two processes tell each other arrives as it was told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.errors import RemoteProtocolError
from nri_scope.process.messages import HEAD, PAYLOAD_MAX, WITH_DESCRIPTORS, MessageReader, message

_MESSAGES = st.lists(
    st.tuples(st.integers(0, WITH_DESCRIPTORS - 1), st.binary(max_size=300)), max_size=20
)


@given(_MESSAGES, st.lists(st.integers(1, 500), min_size=1, max_size=5))
def test_messages_arrive_however_they_are_cut(
    told: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    said = b"".join(message(kind, payload[:7], payload[7:]) for kind, payload in told)
    reader, heard, start, number = MessageReader(), list[tuple[int, bytes]](), 0, 0
    while start < len(said):
        size = cuts[number % len(cuts)]
        heard += reader.feed(said[start : start + size])
        start, number = start + size, number + 1
    assert heard == told


@given(st.binary(max_size=2000), st.integers(1, 300))
def test_any_bytes_are_messages_or_refused(said: bytes, cut: int) -> None:
    reader, heard = MessageReader(), list[tuple[int, bytes]]()
    try:
        for start in range(0, len(said), cut):
            heard += reader.feed(said[start : start + cut])
    except RemoteProtocolError:
        pass
    # What was understood is a beginning of what was said, as another reading of it shows.
    assert said.startswith(b"".join(message(kind, payload) for kind, payload in heard))


def test_a_large_one_is_put_together_in_one_go() -> None:
    payload = bytes(8 << 20)
    said = message(3, payload)
    reader = MessageReader()
    heard = [
        one for n in range(0, len(said), 1 << 14) for one in reader.feed(said[n : n + (1 << 14)])
    ]
    assert heard == [(3, payload)]


def test_one_that_is_too_large_is_refused_at_its_head() -> None:
    with pytest.raises(RemoteProtocolError):
        list(MessageReader().feed(HEAD.pack(PAYLOAD_MAX + 1, 0)))
