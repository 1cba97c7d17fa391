# SPDX-License-Identifier: Apache-2.0
"""The rows of the original that a new recording includes."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from nri_scope.errors import RecordingError

from .event_numbers import is_among


@dataclass(slots=True)
class IncludedRows:
    """Rows of a recording, by number. None instead of a collection means all rows."""

    until: int
    """The last event that was examined; later events are unknown."""
    chosen: Sequence[int] | None = None
    """Numbers of the chosen events, ascending like `kept`."""
    kept: Sequence[int] | None = None
    """Numbers of the chosen events and their context."""
    sessions: Collection[int] | None = None
    pods: Collection[int] | None = None
    containers: Collection[int] | None = None
    whole_states: Sequence[int] = field(default_factory=lambda: array("q"))
    """Chosen Synchronize requests, whose whole state is copied."""
    damage: RecordingError | None = None
    """The reason why `until` is not the last event."""

    def is_chosen(self, event: int) -> bool:
        """Return whether a kept event was chosen; otherwise it is context."""
        return self.chosen is None or is_among(self.chosen, event)

    def stop(self, before: int, damage: RecordingError) -> None:
        """Exclude a damaged event and all later ones."""
        self.until = min(self.until, before - 1)
        self.damage = self.damage or damage
