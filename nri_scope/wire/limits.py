# SPDX-License-Identifier: Apache-2.0
"""Limits for sizes that a peer sends, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGE_HEADER_LENGTH = 10
"""Bytes of ttRPC's header: u32 data length, u32 stream id, u8 type, u8 flags, big endian."""

FRAME_HEADER_LENGTH = 8
"""Bytes of the mux header: u32 connection id, u32 payload length, big endian."""

MESSAGE_DATA_MAX = 4 << 20
"""ttRPC's own limit for the data of one message (messageLengthMax in containerd/ttrpc)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one connection. Real peers stay within the defaults."""

    frame_payload: int = MESSAGE_HEADER_LENGTH + MESSAGE_DATA_MAX
    """Go never sends a longer mux frame; a peer that declares more does not use mux."""

    message_data: int = MESSAGE_DATA_MAX
    """A longer message is skipped unread and answered with RESOURCE_EXHAUSTED, as Go does."""

    requests_in_flight: int = 1024
    """Runtimes send one request at a time; the limit keeps a peer that never waits from filling
    memory.
    """

    safe_frame: int = 4096
    """A Go peer reads through a 4,096-byte buffer and gives up on a frame that contains a message's
    header and exceeds it, so longer messages are sent as a header frame and a data frame.
    """
