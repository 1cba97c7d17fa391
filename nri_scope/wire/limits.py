# SPDX-License-Identifier: Apache-2.0
"""The sizes a peer may make us deal with, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGE_HEADER_LENGTH = 10
"""ttRPC: u32 data length, u32 stream id, u8 type, u8 flags, big endian."""

FRAME_HEADER_LENGTH = 8
"""mux: u32 connection id, u32 payload length, big endian."""

MESSAGE_DATA_MAX = 4 << 20
"""ttRPC's own limit for the data of one message (messageLengthMax in containerd/ttrpc)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one connection. The defaults are what real peers keep to."""

    frame_payload: int = MESSAGE_HEADER_LENGTH + MESSAGE_DATA_MAX
    """Go never sends a longer mux frame; one that claims more is not talking mux."""

    message_data: int = MESSAGE_DATA_MAX
    """A longer message is skipped unread and answered with RESOURCE_EXHAUSTED, as Go does."""

    requests_in_flight: int = 1024
    """Runtimes send one at a time; the bound keeps a peer that never waits from filling memory."""

    safe_frame: int = 4096
    """A Go peer reads through a 4,096-byte buffer and gives up on a frame that holds a message's
    header and does not fit into it, so longer messages go as a header frame and a data frame."""
