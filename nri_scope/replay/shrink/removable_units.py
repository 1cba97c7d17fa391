# SPDX-License-Identifier: Apache-2.0
"""Units that can be removed from a recording: pods, containers, kinds of events, single events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nri_scope.filter import parse
from nri_scope.recording.reader import Recording

_NEVER_REMOVED = ("RegisterPlugin", "Configure")

Unit = tuple[int, ...]
"""Event numbers."""


@dataclass(frozen=True, slots=True)
class EventKey:
    """Event of the session, reduced to the fields needed for grouping."""

    id: int
    pod_id: str
    container_id: str
    event: str

    @property
    def is_state(self) -> bool:
        """Whether it is Synchronize. If kept, it lists all objects, else only events' subjects."""
        return self.event == "Synchronize"


def events_of(recording: Recording, session: int) -> list[EventKey]:
    """Return the events of a session, except for those that are never removed."""
    return [
        EventKey(event.id, event.pod_id, event.container_id, event.event)
        for event in recording.events(where=parse(f"session:{session}"))
        if event.event not in _NEVER_REMOVED
    ]


Group = Callable[[EventKey], object]
"""Return the group of an event; None for a group of its own, "" if the stage keeps it."""
STAGES: Mapping[str, Group] = {
    "pods": lambda event: event.pod_id or None,
    "containers": lambda event: event.container_id,
    "kinds of events": lambda event: event.event,
    "events": lambda event: None,
}
"""Grouping functions by stage, in the order of the search. Most plugins ignore most kinds."""


def units(events: Iterable[EventKey], group_of: Group) -> list[Unit]:
    """Return the units that a stage tries to remove."""
    found: dict[object, list[int]] = {}
    for event in events:
        group = group_of(event)
        if group != "":
            # All parts of Synchronize are one unit, as a single part is not a valid state.
            key = ("state",) if event.is_state else (group or event.id)
            found.setdefault(key, []).append(event.id)
    return [tuple(numbers) for numbers in found.values()]
