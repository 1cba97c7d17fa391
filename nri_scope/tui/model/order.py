# SPDX-License-Identifier: Apache-2.0
"""The one order that all rows of a recording have, in whatever view they are shown."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """A row's place. Keys of two rows compare as the rows follow each other, in every view."""

    event: int
    """The event's number; of a row that is none, the number of the event that it goes before."""
    is_event: int
    """1 or 0."""
    at_ns: int = 0
    number: int = 0
    """These two order what goes before the same event."""

    @classmethod
    def of_event(cls, event_id: int) -> Key:
        """The key of an event's row."""
        return cls(event_id, 1)
