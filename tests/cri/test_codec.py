# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.cri.runtime import v1
from nri_scope.cri.client import MessageCodec
from nri_scope.errors import RemoteProtocolError

ANSWER = v1.ContainerStatusResponse(
    status=v1.ContainerStatus(
        id="abc", metadata=v1.ContainerMetadata(name="app"), labels={"a": "grüße"}, exit_code=-1
    ),
    info={"info": "{}"},
)


def test_a_message_round_trips() -> None:
    codec = MessageCodec()
    data = codec.encode(ANSWER, v1.ContainerStatusResponse)
    assert codec.decode(data, v1.ContainerStatusResponse) == ANSWER


@given(st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4), st.binary())
def test_any_bytes_are_a_message_or_a_protocol_error(
    damage: list[tuple[int, int]], tail: bytes
) -> None:
    data = bytearray(bytes(ANSWER) + tail)
    for place, value in damage:
        data[place % len(data)] = value
    try:
        message = MessageCodec().decode(bytes(data), v1.ContainerStatusResponse)
    except RemoteProtocolError:
        return
    assert isinstance(message, v1.ContainerStatusResponse)
