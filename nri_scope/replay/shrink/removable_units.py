# SPDX-License-Identifier: Apache-2.0
"""Units that can be omitted from a recording: pods, containers, kinds of events, single events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nri_scope.filter import parse
from nri_scope.recording.reader import Recording

_COME_ALONG = ("RegisterPlugin", "Configure")

Unit = tuple[int, ...]
"""Numbers of events."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """One event of the session, as far as it matters here."""

    id: int
    pod_id: str
    container_id: str
    event: str

    @property
    def is_state(self) -> bool:
        """Synchronize: chosen, it lists everything that existed, else only subjects of events."""
        return self.event == "Synchronize"


def events_of(recording: Recording, session: int) -> list[Numbered]:
    """Return the events of a session, without those that are kept in any case."""
    return [
        Numbered(event.id, event.pod_id, event.container_id, event.event)
        for event in recording.events(where=parse(f"session:{session}"))
        if event.event not in _COME_ALONG
    ]


def pods(events: Iterable[Numbered]) -> list[Unit]:
    """Group everything about each pod; an event without a pod is a unit by itself."""
    return _grouped(events, lambda event: event.pod_id or None)


def containers(events: Iterable[Numbered]) -> list[Unit]:
    """Group everything about each container, without events of the pods themselves."""
    return _grouped((one for one in events if one.container_id), lambda event: event.container_id)


def kinds(events: Iterable[Numbered]) -> list[Unit]:
    """Group all starts, all updates, …: most plugins ignore most kinds."""
    return _grouped(events, lambda event: event.event)


def singly(events: Iterable[Numbered]) -> list[Unit]:
    """Return each event by itself."""
    return _grouped(events, lambda event: None)


STAGES: Sequence[tuple[str, Callable[[Iterable[Numbered]], list[Unit]]]] = (
    ("pods", pods),
    ("containers", containers),
    ("kinds of events", kinds),
    ("events", singly),
)
"""In this order: each leaves less to the next one."""


def _grouped(events: Iterable[Numbered], key: Callable[[Numbered], str | None]) -> list[Unit]:
    found: dict[object, list[int]] = {}
    for event in events:
        # All parts of Synchronize belong together: one of them alone is no state.
        group = ("state",) if event.is_state else (key(event) or event.id)
        found.setdefault(group, []).append(event.id)
    return [tuple(numbers) for numbers in found.values()]
