# SPDX-License-Identifier: Apache-2.0
"""Messages between a replay and a plugin whose timers follow the recording's time.

They are not part of NRI. The replay offers them in the ttRPC metadata of Configure, so a plugin
never sends them to a real runtime, and other plugins ignore the offer. The plugin calls `START` and
`CANCEL`; the replay calls `FIRE` when the delay has passed in the recording, and continues when the
plugin has replied.
"""

from __future__ import annotations

import struct

from nri_scope.errors import RemoteProtocolError

OFFER = ("nri-scope-recording-clock", "1")
"""Metadata of Configure: the caller serves `SERVICE`."""

SERVICE = "nri_scope.RecordingClock"
"""ttRPC service of all three methods, served by both ends."""

START = "StartTimer"
"""Start a timer: its number, chosen by the plugin, and the delay in ns."""
CANCEL = "CancelTimer"
"""Cancel a timer: its number, and 0."""
FIRE = "FireTimer"
"""Run a timer's callback: its number, and 0."""

DELAY_MAX_NS = 1 << 62
"""Longest delay of a timer: 146 years."""

_FORM = struct.Struct("<QQ")


def pack(number: int, delay_ns: int = 0) -> bytes:
    """Return the payload of a request."""
    return _FORM.pack(number, min(delay_ns, DELAY_MAX_NS))


def unpack(payload: bytes) -> tuple[int, int]:
    """Return a timer's number and its delay in ns. Raises `RemoteProtocolError`."""
    if len(payload) != _FORM.size:
        raise RemoteProtocolError(f"a timer's request has {len(payload)} bytes, not {_FORM.size}")
    number, delay_ns = _FORM.unpack(payload)
    return number, min(delay_ns, DELAY_MAX_NS)
