# SPDX-License-Identifier: Apache-2.0
"""The number of elements of a message is bounded before decoding; checked with protobuf."""

from __future__ import annotations

import random
from typing import cast

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.element_limits import (
    CUT,
    CUT_FIELD,
    MAX_ELEMENTS,
    MAX_RECORDED,
    Elements,
    bounded,
)
from nri_scope.nri.plain import LEFT_OUT, plain_bytes
from nri_scope.nri.request_subject import OVERSIZED, decode_reply, decode_request
from tests.amount import amount
from tests.bombs.recordings import of_many, repeated_fields
from tests.nri.message_elements import KINDS, elements_of
from tests.recording.traffic import a_container, a_pod, random_message

pytestmark = pytest.mark.beyond_core

FULL = [(kind, path) for kind in KINDS[:3] for path in repeated_fields(kind.DESCRIPTOR)]


@settings(deadline=None, max_examples=amount(200, 60))
@given(st.sampled_from(KINDS), st.integers(0, 1 << 32), st.integers(1, 60))
def test_a_message_over_the_limit_is_cut_and_others_are_unchanged(
    kind: type[Message], seed: int, limit: int
) -> None:
    content = random_message(kind, random.Random(seed)).SerializeToString()
    whole, kept = kind.FromString(content), bounded(kind, content, limit)
    message = kind.FromString(kept)
    if kept == content:
        assert elements_of(message) <= 2 * limit
    else:
        assert kept.endswith(CUT.encode())
        unknown = UnknownFieldSet(message)
        assert unknown[len(unknown) - 1].field_number == CUT_FIELD
        assert elements_of(message) <= limit + 2 < elements_of(whole) * 3 + 3


@settings(deadline=None, max_examples=amount(200, 60))
@given(st.sampled_from(KINDS), st.binary(max_size=40), st.integers(0, 255), st.integers(1, 60))
def test_any_bytes_are_bounded(kind: type[Message], data: bytes, times: int, limit: int) -> None:
    kept = bounded(kind, data * times, limit)
    try:
        message = kind.FromString(kept)
    except DecodeError:
        return
    assert elements_of(message) <= 2 * limit + 2


@pytest.mark.parametrize(("kind", "path"), FULL, ids=lambda value: str(value)[-30:])
def test_every_repeated_field_is_bounded(kind: type[Message], path: tuple[int, ...]) -> None:
    content = of_many(cast("Descriptor", kind.DESCRIPTOR), path, 1_000)
    kept = bounded(kind, content, 100)
    assert kept.endswith(CUT.encode())
    assert elements_of(kind.FromString(kept)) <= 102 < elements_of(kind.FromString(content))


def test_a_realistic_large_message_is_not_cut() -> None:
    pod = a_pod()
    container = a_container(pod, variables=7_000)
    container.annotations.update({f"example.org/{n}": "x" * 20 for n in range(6_000)})
    for n in range(2_000):
        container.mounts.add(destination=f"/m/{n}", source="/s", type="bind", options=["ro"])
    content = container.SerializeToString()
    assert len(content) > 2 * MAX_ELEMENTS
    assert bounded(api.Container, content) is content
    request = api.SynchronizeRequest(pods=[pod] * 700, containers=[a_container(pod)] * 700)
    decoded = decode_request("Synchronize", request.SerializeToString())
    assert decoded.message == request


def test_an_oversized_request_is_marked_and_keeps_its_subject() -> None:
    pod, container = a_pod(), a_container(a_pod())
    request = api.CreateContainerRequest(pod=pod, container=container).SerializeToString()
    many = of_many(api.CreateContainerRequest.DESCRIPTOR, (2, 8), 2 * MAX_RECORDED + 100)
    decoded = decode_request("CreateContainer", request + many)
    assert (decoded.mark, decoded.message) == (OVERSIZED, None)
    assert decoded.pod is not None and decoded.pod.id == pod.id
    assert decoded.container is not None and decoded.container.name == container.name
    mounts = of_many(api.CreateContainerResponse.DESCRIPTOR, (1, 3), 1 << 18)
    reply = decode_reply("CreateContainer", mounts)
    assert reply is not None and elements_of(reply) <= MAX_ELEMENTS + 2


def test_a_cut_message_shows_that_elements_are_omitted() -> None:
    shown = plain_bytes(
        api.Container, b"\x0a\x02c1" + of_many(api.Container.DESCRIPTOR, (8,), 1 << 20)
    )
    assert shown["id"] == "c1" and LEFT_OUT in shown
    assert list(shown)[-1] == LEFT_OUT


def test_elements_of_many_messages_are_counted_together() -> None:
    elements = Elements(10_000)
    one = of_many(api.Container.DESCRIPTOR, (8,), 2_000)
    turns = 0
    while elements.left >= 0:
        elements.count(api.Container, one)
        turns += 1
    assert 10 <= turns <= 25
