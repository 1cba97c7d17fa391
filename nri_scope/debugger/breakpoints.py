# SPDX-License-Identifier: Apache-2.0
"""Breakpoints: filters for the events before which a replay stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nri_scope.errors import UsageError
from nri_scope.filter import Filter
from nri_scope.replay.step_control import PendingEvent

MAX_BREAKPOINTS = 50


class Breakpoints:
    """The breakpoints of a session."""

    def __init__(self, filters: Sequence[Filter] = ()) -> None:
        self.filters = list(filters)

    def add(self, where: Filter) -> None:
        """Add a breakpoint, unless it exists. Raises UsageError if there are too many."""
        if any(one.text == where.text for one in self.filters):
            return
        if len(self.filters) == MAX_BREAKPOINTS:
            raise UsageError(f"there are {MAX_BREAKPOINTS} breakpoints", "remove some first")
        self.filters.append(where)

    def clear(self) -> int:
        """Remove all breakpoints; return how many there were."""
        count = len(self.filters)
        self.filters.clear()
        return count

    def stop(self, pending: PendingEvent) -> bool:
        """Return whether to stop before an event."""
        # An event that the profile adds has no recorded one of its own.
        recorded = replace(pending.step.recorded, event=pending.event)
        return any(one.matches(recorded) for one in self.filters)

    def words(self) -> str:
        """Return the texts of all, numbered; "" if there is none."""
        return "  ".join(f"{number} {one.text}" for number, one in enumerate(self.filters, 1))
