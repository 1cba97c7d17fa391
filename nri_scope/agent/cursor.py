# SPDX-License-Identifier: Apache-2.0
"""Positions in the recordings of a node, as text for clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from nri_scope.errors import UsageError

from .node_recordings import MAX_RECORDINGS

_PART = re.compile(r"([A-Za-z0-9_.-]{1,128}):([0-9]{1,18}):([0-9]{1,19})", re.ASCII)
_LENGTH_MAX = MAX_RECORDINGS * 180


class Position(NamedTuple):
    """Place in one recording: after an event."""

    event: int
    """Number of the event; 0 before the first one."""
    at_ns: int
    """Its time."""


def format_cursor(positions: Mapping[str, Position]) -> str:
    """Return the positions in all recordings, by name, as text."""
    return ",".join(f"{name}:{event}:{at_ns}" for name, (event, at_ns) in positions.items())


def parse_cursor(text: str) -> dict[str, Position]:
    """Parse the text of `format_cursor`. Raises UsageError."""
    positions: dict[str, Position] = {}
    for part in text.split(",") if text else ():
        found = _PART.fullmatch(part)
        if found is None or len(text) > _LENGTH_MAX or found[1] in positions:
            raise UsageError("after: not a cursor", "use the cursor of a response")
        positions[found[1]] = Position(int(found[2]), int(found[3]))
    return positions
