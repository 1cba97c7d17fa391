# SPDX-License-Identifier: Apache-2.0
"""Counters of a recorder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecorderCounters:
    """What a recorder has done so far."""

    recorded: int = 0
    """Events in the file."""
    filtered: int = 0
    """Events that ``keep`` rejected."""
    lost: int = 0
    """Events that were lost, as far as that is known."""
    gaps: int = 0
    bytes_on_wire: int = 0
    """Payload bytes of all requests and replies that came, recorded or not."""
    removed: int = 0
    """Events that the ring removed again."""
