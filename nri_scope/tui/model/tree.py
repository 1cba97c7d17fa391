# SPDX-License-Identifier: Apache-2.0
"""Pods, their containers and the events of these as lines by position, folded and unfolded.

No line exists until it is asked for: finding one among 100,000 pods takes some twenty steps.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from nri_scope.recorder.filter import Filter
from nri_scope.recorder.model import Event
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.rows import ascending, number_of, optional_numbers_of
from nri_scope.recorder.sound import sound


class Level(IntEnum):
    """How deep a line is in the tree."""

    POD = 0
    CONTAINER = 1
    EVENT = 2


class Node(NamedTuple):
    """One line of the tree, by keys of the recording; `census.NO_POD` where nobody told the pod."""

    pod: int
    container: int = 0
    """0 for a pod."""
    event: int = 0
    """An event's number; 0 for what is none."""

    @property
    def level(self) -> Level:
        """What it is."""
        if self.event:
            return Level.EVENT
        return Level.CONTAINER if self.container else Level.POD

    @property
    def parent(self) -> Node | None:
        """What it is part of; None for a pod."""
        if self.event:
            return Node(self.pod, self.container)
        return Node(self.pod) if self.container else None


class Sums:
    """Numbers that change, grow in count, and are added up from the first one: a Fenwick tree."""

    def __init__(self) -> None:
        self._tree = array("q", [0])
        self.total = 0

    def __len__(self) -> int:
        return len(self._tree) - 1

    def append(self, value: int) -> None:
        """One more number."""
        at = len(self._tree)
        self._tree.append(self.total - self.before(at - (at & -at)) + value)
        self.total += value

    def add(self, at: int, value: int) -> None:
        """Add to the number at that place, from 0."""
        self.total += value
        at += 1
        while at < len(self._tree):
            self._tree[at] += value
            at += at & -at

    def before(self, at: int) -> int:
        """The sum of the first ``at`` numbers."""
        total = 0
        while at:
            total += self._tree[at]
            at -= at & -at
        return total

    def find(self, position: int) -> tuple[int, int]:
        """The number that covers ``position`` if each covers as much as it is, and how far in."""
        at = 0
        step = 1 << len(self).bit_length()
        while step:
            there = at + step
            if there <= len(self) and self._tree[there] <= position:
                at = there
                position -= self._tree[there]
            step >>= 1
        return at, position


@dataclass(slots=True)
class _Pod:
    key: int
    containers: array[int] = field(default_factory=lambda: array("q"))
    folded: bool = False
    opened: list[int] = field(default_factory=list)
    """Places in ``containers`` of those that are unfolded, in order."""


class Outline:
    """The tree. Pods are unfolded at first, containers are not."""

    def __init__(self) -> None:
        self._pods: list[_Pod] = []
        self._slot: dict[int, int] = {}
        self._heights = Sums()
        self._events: dict[int, array[int]] = {}

    def __len__(self) -> int:
        return self._heights.total

    @property
    def pods(self) -> int:
        """How many pods there are, whatever is folded."""
        return len(self._pods)

    @property
    def containers(self) -> int:
        """How many containers there are, likewise."""
        return sum(len(pod.containers) for pod in self._pods)

    # -- what there is --------------------------------------------------------------------

    def add_pod(self, key: int) -> None:
        """One more pod, behind the others."""
        if key not in self._slot:
            self._slot[key] = len(self._pods)
            self._pods.append(_Pod(key))
            self._heights.append(1)

    def add_container(self, pod: int, key: int) -> None:
        """One more container, with the largest key of its pod; the pod comes along if need be."""
        self.add_pod(pod)
        slot = self._slot[pod]
        self._pods[slot].containers.append(key)
        if not self._pods[slot].folded:
            self._heights.add(slot, 1)

    def lanes(self) -> Iterator[Node]:
        """All pods and containers in order, whatever is folded."""
        for pod in self._pods:
            yield Node(pod.key)
            for key in pod.containers:
                yield Node(pod.key, key)

    # -- folding --------------------------------------------------------------------------

    def is_open(self, node: Node) -> bool:
        """Whether what is in it has lines of its own."""
        if node.level is Level.POD:
            return not self._pods[self._slot[node.pod]].folded
        return node.level is Level.CONTAINER and node.container in self._events

    def set_folded(self, pod: int, folded: bool) -> None:
        """Fold or unfold a pod; what was unfolded in it stays so."""
        slot = self._slot[pod]
        if self._pods[slot].folded != folded:
            height = self._height(self._pods[slot])
            self._pods[slot].folded = folded
            self._heights.add(slot, -height if folded else height)

    def open(self, node: Node, events: Iterable[int]) -> None:
        """Unfold a container; these are the numbers of its events."""
        self.close(node)
        slot = self._slot[node.pod]
        pod = self._pods[slot]
        insort(pod.opened, bisect_left(pod.containers, node.container))
        self._events[node.container] = array("q", events)
        if not pod.folded:
            self._heights.add(slot, len(self._events[node.container]))

    def close(self, node: Node) -> None:
        """Fold a container."""
        events = self._events.pop(node.container, None)
        if events is None:
            return
        slot = self._slot[node.pod]
        pod = self._pods[slot]
        pod.opened.remove(bisect_left(pod.containers, node.container))
        if not pod.folded:
            self._heights.add(slot, -len(events))

    def opened(self) -> list[tuple[Node, int]]:
        """The containers that are unfolded, each with its newest event, or 0."""
        return [
            (Node(pod.key, key), events[-1] if (events := self._events[key]) else 0)
            for pod in self._pods
            if pod.opened
            for key in (pod.containers[at] for at in pod.opened)
        ]

    def folded(self) -> list[int]:
        """The pods that are folded."""
        return [pod.key for pod in self._pods if pod.folded]

    def extend(self, node: Node, events: Iterable[int]) -> None:
        """An unfolded container has new events."""
        if node.container in self._events:
            self.open(node, [*self._events[node.container], *events])

    # -- lines ----------------------------------------------------------------------------

    def node_at(self, position: int) -> Node:
        """The line there. Raises IndexError."""
        if not 0 <= position < len(self):
            raise IndexError(position)
        slot, rest = self._heights.find(position)
        pod = self._pods[slot]
        if not rest:
            return Node(pod.key)
        rest -= 1
        before = 0
        for at in pod.opened:
            if rest <= at + before:
                break
            events = self._events[pod.containers[at]]
            within = rest - (at + before + 1)
            if within < len(events):
                return Node(pod.key, pod.containers[at], events[within])
            before += len(events)
        return Node(pod.key, pod.containers[rest - before])

    def position_of(self, node: Node) -> int | None:
        """Where a line is. What is folded into another one is where that is; None: not there."""
        slot = self._slot.get(node.pod)
        if slot is None:
            return None
        position = self._heights.before(slot)
        pod = self._pods[slot]
        if node.level is Level.POD or pod.folded:
            return position
        place = bisect_left(pod.containers, node.container)
        if place == len(pod.containers) or pod.containers[place] != node.container:
            return None
        opened = (at for at in pod.opened if at < place)
        position += 1 + place + sum(len(self._events[pod.containers[at]]) for at in opened)
        events = self._events.get(node.container)
        if node.level is Level.CONTAINER or events is None:
            return position
        at = bisect_left(events, node.event)
        return position + 1 + at if at < len(events) and events[at] == node.event else None

    def _height(self, pod: _Pod) -> int:
        """Lines of what is in an unfolded pod."""
        events = sum(len(self._events[pod.containers[at]]) for at in pod.opened)
        return len(pod.containers) + events


def neighbour(recording: Recording, event: Event, *, forwards: bool) -> int | None:
    """The number of the next or previous event of the same container, or, for an event about a pod
    alone, of the next one about that pod alone. None where there is none. Raises RecordingError.
    """
    there, order = (">", "ASC") if forwards else ("<", "DESC")
    with sound(recording):
        about = recording.connection.execute(
            "SELECT pod, container FROM event WHERE id = ?", (event.id,)
        ).fetchone()
        pod, container = optional_numbers_of(about or (None, None))
        of_it = "container = ?" if container is not None else "pod = ? AND container IS NULL"
        found = recording.connection.execute(
            f"SELECT id FROM event WHERE {of_it} AND id {there} ? ORDER BY id {order} LIMIT 1",
            (pod if container is None else container, event.id),
        ).fetchone()
        return number_of(found) if found else None


def events_of(recording: Recording, node: Node, after: int, where: Filter | None) -> list[int]:
    """The numbers of a container's events behind ``after``. Raises RecordingError."""
    text, values = where.to_sql() if where is not None else ("1", ())
    with sound(recording):
        rows = recording.connection.execute(
            "SELECT id FROM events WHERE id IN (SELECT id FROM event WHERE container = ? "
            f"AND id > ?) AND ({text}) ORDER BY id",
            (node.container, after, *values),
        )
        return [number for (number,) in ascending(rows, (after,))]
