# SPDX-License-Identifier: Apache-2.0
"""Select the containers to query the CRI for, by their events."""

from __future__ import annotations

from collections.abc import Iterable

from nri_scope.events import Event

from ..attribution.attributed_changes import RoundDiff
from ..attribution.rounds import CONTAINER_STATUS, CREATE

_DONE = frozenset({"PostCreateContainer", "PostStartContainer", "PostUpdateContainer"})
"""Events that follow after the runtime has applied a change to the container."""
_STARTS_OR_ENDS = frozenset(
    {"StartContainer", "PostStartContainer", "StopContainer", "RemoveContainer"}
)
_RETRY_SECONDS = (1.0, 5.0)
"""Times after the creation of a container at which it is queried again if it does not run yet."""


def worth_asking(event: Event | None, rounds: Iterable[RoundDiff]) -> set[str]:
    """Return the ids of the containers whose spec changed, by an event and completed rounds."""
    selected: set[str] = set()
    if event is not None and event.event in _DONE:
        selected.add(event.container_id)
    for one in rounds:
        if one.name == CONTAINER_STATUS:
            continue
        selected.update(step.container for step in one.steps)
        if one.name == CREATE:
            # The container does not exist yet; later events show when it does.
            selected.discard(one.container)
    selected.discard("")
    return selected


class Starting:
    """Set of created containers that do not run yet, as a failing start may not cause an event.

    containerd prepares the process before it sends StartContainer. If that preparation fails, the
    container has no event until it is removed.
    """

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, int]] = {}
        self._under_way: set[str] = set()

    def failed(self, event: Event | None, now: float) -> str:
        """Process an event; return the id of a container whose start failed, "" for none.

        ``now``: the monotonic time, in seconds.
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
        """Return the ids of the containers to query again, as they had no event for a while."""
        found = set()
        for container, (since, count) in list(self._since.items()):
            if now - since >= _RETRY_SECONDS[count]:
                found.add(container)
                if count + 1 < len(_RETRY_SECONDS):
                    self._since[container] = since, count + 1
                else:
                    del self._since[container]
        return found

    def rest(self) -> set[str]:
        """Return the ids of all containers that do not run yet."""
        return {*self._since, *self._under_way}


def is_gone(event: Event | None) -> str:
    """Return the id of a removed container, which needs no further query; "" for none."""
    return event.container_id if event is not None and event.event == "RemoveContainer" else ""
