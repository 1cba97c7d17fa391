# SPDX-License-Identifier: Apache-2.0
"""W3C Trace Context in ttRPC metadata: the runtime's own span of a request.

Source: https://www.w3.org/TR/trace-context/, "Trace Context HTTP Headers Format". containerd sends
it with github.com/containerd/otelttrpc if its tracing is on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_PARENT, _STATE = "traceparent", "tracestate"
# Version 00 ends after the flags; later versions may continue after another "-".
_TRACEPARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?",
    re.ASCII | re.DOTALL,
)
_MEMBERS_MAX = 32
_KEY = r"[a-z0-9][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}"
_MEMBER = re.compile(rf"(?:{_KEY})=[ -+\--<>-~]{{0,255}}[!-+\--<>-~]")

Metadata = tuple[tuple[str, str], ...]


class TraceContext(NamedTuple):
    """A span of the runtime, from the metadata of a request that belongs to it."""

    trace_id: str
    """32 hexadecimal digits in lowercase, not all zero."""
    span_id: str
    """16 hexadecimal digits in lowercase, not all zero."""
    flags: int
    """Trace flags, of which bit 0 (sampled) and bit 1 (random trace id) are defined."""
    state: str = ""
    """``tracestate``; "" if there is none or it is invalid."""


def trace_metadata(metadata: Metadata) -> Metadata:
    """Return the pairs with trace context, valid or not, in their order.

    The rest is not about the request: containerd sends its namespace, and "baggage" may contain
    any data of the runtime's clients.
    """
    return tuple(pair for pair in metadata if pair[0].lower() in (_PARENT, _STATE))


def trace_context(metadata: Metadata) -> TraceContext | None:
    """Return the runtime's span; None without exactly one valid "traceparent"."""
    parents = [value for key, value in metadata if key.lower() == _PARENT]
    match = _TRACEPARENT.fullmatch(parents[0]) if len(parents) == 1 else None
    if match is None or (match[1] == "00" and match[5] is not None):
        return None
    state = _state(value for key, value in metadata if key.lower() == _STATE)
    return TraceContext(match[2], match[3], int(match[4], 16), state)


def _state(values: Iterable[str]) -> str:
    """Return the list members of all "tracestate" values; "" if they are invalid."""
    members = [member.strip(" \t") for value in values for member in value.split(",")]
    members = [member for member in members if member]
    if len(members) > _MEMBERS_MAX or not all(map(_MEMBER.fullmatch, members)):
        return ""
    keys = {member.partition("=")[0] for member in members}
    return ",".join(members) if len(keys) == len(members) else ""
