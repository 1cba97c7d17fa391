# SPDX-License-Identifier: Apache-2.0
"""Units that can be omitted from a recording: pods, containers, kinds of events, single events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nri_scope.filter import parse
from nri_scope.recording.reader import Recording

_COME_ALONG = ("RegisterPlugin", "Configure")

Unit = tuple[int, ...]
"""Event numbers."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """One event of the session, reduced to the fields needed here."""

    id: int
    pod_id: str
    container_id: str
    event: str

    @property
    def is_state(self) -> bool:
        """Whether it is Synchronize: chosen, it lists all objects, else only events' subjects."""
        return self.event == "Synchronize"


def events_of(recording: Recording, session: int) -> list[Numbered]:
    """Return the events of a session, without those that are always kept."""
    return [
        Numbered(event.id, event.pod_id, event.container_id, event.event)
        for event in recording.events(where=parse(f"session:{session}"))
        if event.event not in _COME_ALONG
    ]


Group = Callable[[Numbered], object]
"""The group of an event; None for one on its own, and "" for one that the stage never removes."""
STAGES: Mapping[str, Group] = {
    "pods": lambda event: event.pod_id or None,
    "containers": lambda event: event.container_id,
    "kinds of events": lambda event: event.event,
    "events": lambda event: None,
}
"""Stages in this order: each leaves fewer events to the next. Most plugins ignore most kinds."""


def units(events: Iterable[Numbered], group_of: Group) -> list[Unit]:
    """Return the units that a stage tries to leave out, one after the other."""
    found: dict[object, list[int]] = {}
    for event in events:
        group = group_of(event)
        if group != "":
            # All parts of Synchronize belong together: a single part is not a valid state.
            key = ("state",) if event.is_state else (group or event.id)
            found.setdefault(key, []).append(event.id)
    return [tuple(numbers) for numbers in found.values()]
