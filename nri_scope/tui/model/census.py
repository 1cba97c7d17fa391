# SPDX-License-Identifier: Apache-2.0
"""Which pods and containers a recording has, and when what became of them.

One pass over all events, in steps, so that others get their turn; what comes later is added. It
takes some hundred bytes of memory for each pod and container, and next to nothing for an event.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from nri_scope.recorder.reader import Recording
from nri_scope.recorder.rows import RowError, ascending
from nri_scope.recorder.sound import sound
from nri_scope.tui.model.lives import STAGES, Lives, Stage

if TYPE_CHECKING:
    from nri_scope.tui.model.store import Store

STEP = 5_000
"""Events in one step: some 10 ms, and what it reads takes little memory."""
NO_POD = 0
"""Stands for the pod of containers whose pod nobody told; no key is 0."""
_BLOCK = 512
"""Events of which only the span of time is remembered."""


class Span(NamedTuple):
    """Events by their numbers, both included; empty where ``first`` is larger."""

    first: int
    last: int


class Census:
    """Pods and containers by their keys in the recording. It only grows.

    Steps are made in a thread; meanwhile another one may read, and sees some of what is new.
    """

    def __init__(self) -> None:
        self.pods = Lives()
        self.containers = Lives()
        self.pod_of = array("q")
        """The pod of each of ``containers``, or `NO_POD`."""
        self.newest = 0
        """The number of the newest event that was read."""
        self.first_ns = 0
        """Of all events; 0 where there is none."""
        self.last_ns = 0
        self.outdated = False
        """The oldest events were removed since: a new census has to be made."""
        self._oldest = 0
        self._names: dict[int, tuple[Stage, bool] | None] = {}
        self._told = (0, 0, -1)
        self._blocks: list[tuple[int, int, int]] = []
        """First number, earliest and latest time of every so many events."""
        self._in_block = 0

    # -- reading --------------------------------------------------------------------------

    def step(self, recording: Recording) -> bool:
        """Read on; False where nothing is left. Raises RecordingError."""
        with sound(recording):
            self._look_for_the_oldest(recording)
            self._read_subjects(recording)
            self._read_told(recording)
            rows = recording.connection.execute(
                "SELECT id, at_ns, event, pod, container, status_code, changed IS NOT NULL "
                f"FROM event WHERE id > ? ORDER BY id LIMIT {STEP}",
                (self.newest,),
            ).fetchall()
            self._read_names(recording, {row[2] for row in rows})
            for row in ascending(rows, (self.newest,)):
                self._add(row)
        return len(rows) == STEP

    def _look_for_the_oldest(self, recording: Recording) -> None:
        (oldest,) = recording.connection.execute(
            "SELECT coalesce(min(id), 0) FROM event"
        ).fetchone()
        if self._oldest and oldest != self._oldest:
            self.outdated = True
        self._oldest = self._oldest or oldest

    def _read_subjects(self, recording: Recording) -> None:
        newest = self.pods.newest
        rows = recording.connection.execute(
            "SELECT key FROM pod WHERE key > ? ORDER BY key", (newest,)
        )
        for (key,) in ascending(rows, (newest,)):
            self.pods.append(key)
        newest = self.containers.newest
        rows = recording.connection.execute(
            "SELECT key, pod FROM container WHERE key > ? ORDER BY key", (newest,)
        )
        for key, pod in ascending(rows, (newest,)):
            self.containers.append(key)
            self.pod_of.append(pod if type(pod) is int and pod in self.pods else NO_POD)

    def _read_told(self, recording: Recording) -> None:
        """What Synchronize told; each pod and container counts from the first time."""
        rows = recording.connection.execute(
            "SELECT t.session, t.event, t.position, t.pod, t.container, t.object, s.started_ns "
            "FROM state AS t JOIN session AS s ON s.id = t.session "
            "WHERE (t.session, t.event, t.position) > (?, ?, ?) "
            "ORDER BY t.session, t.event, t.position",
            self._told,
        )
        for row in ascending(rows, self._told):
            self._told = row[:3]
            pod, container, thing, at_ns = row[3:]
            lives, key = (self.pods, pod) if container is None else (self.containers, container)
            if type(key) is not int or type(thing) is not int or type(at_ns) is not int:
                raise RowError("a state has values of a wrong type")
            lives.tell(key, thing, at_ns)

    def _read_names(self, recording: Recording, wanted: Iterable[object]) -> None:
        for number in wanted:
            if type(number) is not int or number in self._names:
                continue
            found = recording.connection.execute(
                "SELECT text FROM name WHERE id = ?", (number,)
            ).fetchone()
            self._names[number] = STAGES.get(found[0]) if found else None

    def _add(self, row: tuple[object, ...]) -> None:
        number, at_ns, name, pod, container, code, changed = row
        if not (isinstance(number, int) and isinstance(at_ns, int) and isinstance(name, int)):
            raise RowError("an event has values of a wrong type")
        self.newest = number
        self.first_ns = min(self.first_ns, at_ns) if self.first_ns else at_ns
        self.last_ns = max(self.last_ns, at_ns)
        self._span(number, at_ns)
        stage, of_container = self._names[name] or (None, True)
        ok, did = not code, bool(changed)
        if isinstance(pod, int):
            of_pod = None if of_container else stage
            self.pods.count(pod, number, at_ns, of_pod, ok=ok, changed=did)
        if isinstance(container, int):
            reached = stage if of_container else None
            self.containers.count(container, number, at_ns, reached, ok=ok, changed=did)

    def _span(self, number: int, at_ns: int) -> None:
        if not self._in_block:
            self._blocks.append((number, at_ns, at_ns))
        else:
            first, earliest, latest = self._blocks[-1]
            if not earliest <= at_ns <= latest:
                self._blocks[-1] = (first, min(earliest, at_ns), max(latest, at_ns))
        self._in_block = (self._in_block + 1) % _BLOCK

    # -- asking ---------------------------------------------------------------------------

    def between(self, from_ns: int, to_ns: int) -> Span:
        """All events of that time are among these numbers, with some others."""
        first = last = 0
        blocks = self._blocks
        for at, (number, earliest, latest) in enumerate(blocks):
            if earliest <= to_ns and latest >= from_ns:
                first = first or number
                last = blocks[at + 1][0] - 1 if at + 1 < len(blocks) else self.newest
        return Span(first, last) if first else Span(1, 0)


_CENSUSES: WeakKeyDictionary[Store, Census] = WeakKeyDictionary()
"""One for each recording: the tree and the timeline have it together."""


def census_of(store: Store) -> Census:
    """What is known of a recording's pods and containers; another one where the oldest events were
    removed since.
    """
    census = _CENSUSES.get(store)
    if census is None or census.outdated:
        census = _CENSUSES[store] = Census()
    return census
