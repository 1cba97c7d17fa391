# SPDX-License-Identifier: Apache-2.0
"""What a new recording is made of."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from nri_scope.errors import RecordingError

from .event_numbers import is_among


@dataclass(slots=True)
class IncludedRows:
    """Rows of a recording by number. None in place of a collection: all that there are."""

    until: int
    """The last event that was looked at; of what comes later nothing is known."""
    chosen: Sequence[int] | None = None
    """Ascending, as `kept`."""
    kept: Sequence[int] | None = None
    """The chosen events with their context."""
    sessions: Collection[int] | None = None
    pods: Collection[int] | None = None
    containers: Collection[int] | None = None
    whole_states: Sequence[int] = field(default_factory=lambda: array("q"))
    """Parts of Synchronize that were chosen themselves: they keep all that they told."""
    damage: RecordingError | None = None
    """Why `until` is not the end."""

    def is_chosen(self, event: int) -> bool:
        """Whether an event that is kept was chosen, rather than came along."""
        return self.chosen is None or is_among(self.chosen, event)

    def stop(self, before: int, damage: RecordingError) -> None:
        """Something is wrong with an event: nothing from there on is taken."""
        self.until = min(self.until, before - 1)
        self.damage = self.damage or damage
