# SPDX-License-Identifier: Apache-2.0
"""Limits on sizes that a peer controls, each with its reason. All sizes are in bytes."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGE_HEADER_LENGTH = 10
"""Size of ttRPC's header: u32 data length, u32 stream id, u8 type, u8 flags, big endian."""

FRAME_HEADER_LENGTH = 8
"""Size of the mux header: u32 connection id, u32 payload length, big endian."""

MESSAGE_DATA_MAX = 4 << 20
"""ttRPC's own limit for the data of one message (messageLengthMax in containerd/ttrpc)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one connection. Real peers stay within the defaults."""

    frame_payload: int = MESSAGE_HEADER_LENGTH + MESSAGE_DATA_MAX
    """Maximum payload of a frame. Go never sends more; a peer that declares more does not use mux.
    """

    message_data: int = MESSAGE_DATA_MAX
    """Maximum data of a message. A longer one is skipped without being buffered; a request is
    answered with RESOURCE_EXHAUSTED, as by Go.
    """

    requests_in_flight: int = 1024
    """Maximum number of unanswered requests, which bounds memory. Runtimes send one at a time."""

    safe_frame: int = 4096
    """Maximum payload of a frame with both a message's header and its data. A Go peer reads through
    a 4,096-byte buffer and fails on a larger frame of this kind, so longer messages are sent as a
    header frame and a data frame.
    """
