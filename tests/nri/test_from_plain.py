# SPDX-License-Identifier: Apache-2.0
"""Messages are made of the plain values that were made of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.element_limits import CUT
from nri_scope.nri.plain import (
    NotPlain,
    Plain,
    bytes_from_plain,
    message_from_plain,
    plain,
    plain_bytes,
)
from tests.oci.random_messages import RandomMessages

UNKNOWN = bytes.fromhex("92f6060568656c6c6f" + "90f60605")
"""Field 14178, a text, then a number."""


@given(st.integers(0, 2**32))
def test_a_message_is_as_it_was(seed: int) -> None:
    source = RandomMessages(seed)
    for message in (source.container(), source.adjustment()):
        if seed % 2:
            message.MergeFromString(UNKNOWN)
            message.linux.MergeFromString(UNKNOWN)
        told = plain(message)
        made = message_from_plain(type(message), told)
        assert made == message and plain(made) == told
        encoded = message.SerializeToString()
        kind = type(message)
        again = bytes_from_plain(kind, plain_bytes(kind, encoded))
        assert kind.FromString(again) == message and len(again) == len(encoded)


def test_owners_have_numbers_as_keys() -> None:
    request = api.ValidateContainerAdjustmentRequest()
    request.owners.owners["id"].simple[5] = "10-a"
    request.owners.owners["id"].compound[2].owners["KEY"] = "20-b"
    assert message_from_plain(type(request), plain(request)) == request


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (api.Container, b"\xff"),
        (None, b"\x00\xff"),
        (None, b""),
        (api.Container, b"\x0b\x10\x01\x0c" + b"\x13\x1b\x1c\x14"),
    ],
)
def test_bytes_that_are_no_message(kind: type[api.Container] | None, content: bytes) -> None:
    told = plain_bytes(kind, content)
    assert plain_bytes(kind, bytes_from_plain(kind, told)) == told


def test_a_cut_message_stays_cut() -> None:
    message = api.Container(name="a")
    told: dict[str, Plain] = {**plain(message), "left_out": CUT}
    assert plain(message_from_plain(api.Container, told)) == told


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"nam": "x"}, "nam: unknown key"),
        ({"name": 5}, "name: not a text"),
        ({"name": "\ud800"}, "name: not a valid text"),
        ({"pid": "5"}, "pid: not an integer"),
        ({"pid": True}, "pid: not an integer"),
        ({"pid": 2**32}, "pid: not between 0 and 4294967295"),
        ({"exit_code": 2**31}, "exit_code: not between -2147483648 and 2147483647"),
        ({"state": "GONE"}, "state: unknown value"),
        ({"args": "x"}, "args: not a list"),
        ({"args": [1]}, "args[0]: not a text"),
        ({"mounts": [{"source": []}]}, "mounts[0].source: not a text"),
        ({"labels": {"a": None}}, "labels.a: not a text"),
        ({"linux": {"resources": {"memory": {"limit": 5}}}}, "linux.resources.memory.limit: not a"),
        ({"linux": {"oom_score_adj": {"value": 1.5}}}, "linux.oom_score_adj.value: not an int"),
        ({"unknown_fields": {}}, "unknown_fields: not a list of fields"),
        ({"unknown_fields": [{"field": 0}]}, "unknown_fields: not a list of fields"),
        ({"unknown_fields": [{"field": 9, "value": "x"}]}, "unknown_fields: not hexadecimal"),
        ({"unknown_fields": [{"field": 9, "value": "…"}]}, "unknown_fields: not hexadecimal"),
        (
            {"unknown_fields": [{"field": 9, "value": 2**32, "bits": 32}]},
            "unknown_fields: not hexadecimal",
        ),
        ({"unknown_fields": [{"field": 9, "value": -1, "bits": 64}]}, "unknown_fields: not hexade"),
        ({"unknown_fields": [{"field": 9, "value": -1, "bits": []}]}, "unknown_fields: not hexade"),
        ({"malformed": "f"}, "malformed: not hexadecimal"),
        ([], "not a mapping"),
    ],
)
def test_other_values_are_rejected_with_their_place(value: Plain, problem: str) -> None:
    with pytest.raises(NotPlain) as raised:
        bytes_from_plain(api.Container, value)
    assert problem in str(raised.value)
    with pytest.raises(NotPlain):
        bytes_from_plain(None, {"a": "b"})
