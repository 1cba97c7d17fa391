# SPDX-License-Identifier: Apache-2.0
"""Comparison of requests as messages, as Go serialises maps in random order."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import Message

from nri_scope._gen.nri import api_pb2
from tests.interop.reference import Request


def parse(method: str, payload: bytes) -> Message:
    """Parse the request of a method of the Plugin service."""
    name = "StateChangeEvent" if method == "StateChange" else f"{method}Request"
    message = getattr(api_pb2, name)()
    assert isinstance(message, Message)
    message.ParseFromString(payload)
    return message


def normal(method: str, payload: bytes) -> bytes:
    """Serialise a request with sorted maps."""
    return parse(method, payload).SerializeToString(deterministic=True)


def exchanges(requests: Iterable[Request]) -> list[tuple[str, bytes]]:
    """Return method and normal form of every delivered request."""
    return [(item.method, normal(item.method, item.request)) for item in requests if not item.error]
