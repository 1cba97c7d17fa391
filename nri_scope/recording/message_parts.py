# SPDX-License-Identifier: Apache-2.0
"""Reassemble requests from their stored parts."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import DecodeError

from nri_scope.nri.element_limits import MAX_IN_SYNCHRONIZE, bounded, varint
from nri_scope.nri.events import METHODS

_LENGTH_DELIMITED = 2
_SYNC_PODS = METHODS["Synchronize"].request.DESCRIPTOR.fields_by_name["pods"].number
_SYNC_CONTAINERS = METHODS["Synchronize"].request.DESCRIPTOR.fields_by_name["containers"].number


def field(number: int, content: bytes) -> bytes:
    """Return an encoded length-delimited field: tag, length and content."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(len(content)) + content


def request(method: str, rest: bytes, pod: bytes | None, container: bytes | None) -> bytes:
    """Return a request built from its parts, serialised deterministically.

    None means that a part was absent, b"" that it was present and empty. A message that is too
    large is truncated (`element_limits.bounded`). Raises ValueError if the parts do not form such
    a request.
    """
    parts = [rest]
    for name, content in (("pod", pod), ("container", container)):
        if content is not None:
            parts.append(field(_number(method, name), content))
    return _parsed(method, parts)


def synchronize(rest: bytes, pods: Iterable[bytes], containers: Iterable[bytes]) -> bytes:
    """Return a Synchronize request built from its parts, serialised deterministically."""
    parts = [rest]
    parts += [field(_SYNC_PODS, pod) for pod in pods]
    parts += [field(_SYNC_CONTAINERS, container) for container in containers]
    return _parsed("Synchronize", parts)


def _number(method: str, name: str) -> int:
    known = METHODS.get(method)
    described = known.request.DESCRIPTOR.fields_by_name.get(name) if known else None
    if described is None:
        raise ValueError(f"{method} has no {name}")
    return described.number


def _parsed(method: str, parts: list[bytes]) -> bytes:
    # Protobuf merges concatenated messages. Parsing puts the fields in order and detects damage.
    joined = b"".join(parts)
    known = METHODS.get(method)
    if known is None:
        raise ValueError(f"{method} is not a known method")
    try:
        message = known.request.FromString(bounded(known.request, joined, MAX_IN_SYNCHRONIZE))
        return message.SerializeToString(deterministic=True)
    except DecodeError as error:
        raise ValueError(f"no request of {method}") from error
