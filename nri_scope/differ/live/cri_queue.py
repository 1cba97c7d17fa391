# SPDX-License-Identifier: Apache-2.0
"""Selects the containers that the CRI is to be asked about, by their events."""

from __future__ import annotations

from collections.abc import Iterable

from nri_scope.events import Event

from ..attribution.attributed_changes import RoundDiff
from ..attribution.rounds import CONTAINER_STATUS, CREATE

_DONE = frozenset({"PostCreateContainer", "PostStartContainer", "PostUpdateContainer"})
"""Events after which the runtime has applied the preceding event to the container."""
_STARTS_OR_ENDS = frozenset(
    {"StartContainer", "PostStartContainer", "StopContainer", "RemoveContainer"}
)
_AGAIN = (1.0, 5.0)
"""Seconds after its creation at which a container that does not run yet is asked about again."""


def worth_asking(event: Event | None, rounds: Iterable[RoundDiff]) -> set[str]:
    """Return the ids of containers whose spec has changed, as this event and these rounds show."""
    wanted: set[str] = set()
    if event is not None and event.event in _DONE:
        wanted.add(event.container_id)
    for one in rounds:
        if one.name == CONTAINER_STATUS:
            continue
        wanted.update(step.container for step in one.steps)
        if one.name == CREATE:
            # It does not exist yet; the events after its creation show when it does.
            wanted.discard(one.container)
    wanted.discard("")
    return wanted


class Starting:
    """Containers that were created and do not run yet: a failing start may not cause an event.

    containerd prepares the process before it sends plugins the start. If that preparation fails,
    there is no event of the container until it is removed.
    """

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, int]] = {}
        self._under_way: set[str] = set()

    def failed(self, event: Event | None, now: float) -> str:
        """Take an event at this time in seconds; return the id of a container that ended instead of
        starting, "" for none.
        """
        if event is None or not (container := event.container_id):
            return ""
        if event.event == "PostCreateContainer":
            self._since[container] = now, 0
        elif event.event in _STARTS_OR_ENDS:
            self._since.pop(container, None)
            was_under_way = container in self._under_way
            self._under_way.discard(container)
            if event.event == "StartContainer":
                self._under_way.add(container)
            return container if was_under_way and event.event == "StopContainer" else ""
        return ""

    def due(self, now: float) -> set[str]:
        """Return the ids of containers to ask about again, as they had no event for a while."""
        found = set()
        for container, (since, count) in list(self._since.items()):
            if now - since >= _AGAIN[count]:
                found.add(container)
                if count + 1 < len(_AGAIN):
                    self._since[container] = since, count + 1
                else:
                    del self._since[container]
        return found

    def rest(self) -> set[str]:
        """Return the ids of all containers that do not run yet, at the end."""
        return {*self._since, *self._under_way}


def is_gone(event: Event | None) -> str:
    """Return the id of a container that need not be asked about again; "" for none."""
    return event.container_id if event is not None and event.event == "RemoveContainer" else ""
