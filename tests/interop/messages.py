# SPDX-License-Identifier: Apache-2.0
"""Requests compared as messages: Go puts maps in another order each time it serialises one."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2
from tests.interop.reference import Request


def parse(method: str, payload: bytes) -> Message:
    """The request message of a method of the Plugin service."""
    name = "StateChangeEvent" if method == "StateChange" else f"{method}Request"
    message = getattr(api_pb2, name)()
    assert isinstance(message, Message)
    message.ParseFromString(payload)
    return message


def normal(method: str, payload: bytes) -> bytes:
    """The request, serialised with its maps in order."""
    return parse(method, payload).SerializeToString(deterministic=True)


def exchanges(requests: Iterable[Request]) -> list[tuple[str, bytes]]:
    """Method and normal form of every request that was delivered."""
    return [(item.method, normal(item.method, item.request)) for item in requests if not item.error]
