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
    """Rows of a recording by number. None in place of a collection: all rows."""

    until: int
    """The last event that was examined; later ones are unknown."""
    chosen: Sequence[int] | None = None
    """Ascending, as `kept`."""
    kept: Sequence[int] | None = None
    """The chosen events with their context."""
    sessions: Collection[int] | None = None
    pods: Collection[int] | None = None
    containers: Collection[int] | None = None
    whole_states: Sequence[int] = field(default_factory=lambda: array("q"))
    """Chosen parts of Synchronize: their whole state is copied."""
    damage: RecordingError | None = None
    """The reason why `until` is not the end."""

    def is_chosen(self, event: int) -> bool:
        """Return whether an event that is kept was chosen (and is not context)."""
        return self.chosen is None or is_among(self.chosen, event)

    def stop(self, before: int, damage: RecordingError) -> None:
        """Exclude a damaged event and all later ones."""
        self.until = min(self.until, before - 1)
        self.damage = self.damage or damage
