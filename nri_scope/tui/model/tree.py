# SPDX-License-Identifier: Apache-2.0
"""Pods, their containers and the events of these as lines by position, folded and unfolded.

No line exists until it is asked for: finding one among 100,000 pods takes some twenty steps.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from nri_scope.tui.model.groups import Groups, Slots


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


class Outline:
    """The tree. Pods are unfolded at first, containers are not."""

    def __init__(self) -> None:
        self._pods = Slots()
        self._containers = Groups()
        """Of each pod."""
        self._folded: set[int] = set()
        """Places of pods."""
        self._opened: dict[int, list[int]] = {}
        """Of pods by place: places of the containers in it that are unfolded, in order."""
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
        return self._containers.total()

    # -- what there is --------------------------------------------------------------------

    def add_pod(self, key: int) -> None:
        """One more pod, behind the others."""
        if self._pods.find(key) is None:
            self._pods.append(key)
            self._containers.add_group()
            self._heights.append(1)

    def add_container(self, pod: int, key: int) -> None:
        """One more container, with the largest key of its pod; the pod comes along if need be."""
        self.add_pod(pod)
        slot = self._slot(pod)
        self._containers.append(slot, key)
        if slot not in self._folded:
            self._heights.add(slot, 1)

    def lanes(self) -> Iterator[Node]:
        """All pods and containers in order, whatever is folded."""
        for slot in range(len(self._pods)):
            pod = self._pods.key(slot)
            yield Node(pod)
            for key in self._containers[slot]:
                yield Node(pod, key)

    # -- folding --------------------------------------------------------------------------

    def is_open(self, node: Node) -> bool:
        """Whether what is in it has lines of its own."""
        if node.level is Level.POD:
            return self._slot(node.pod) not in self._folded
        return node.level is Level.CONTAINER and node.container in self._events

    def set_folded(self, pod: int, folded: bool) -> None:
        """Fold or unfold a pod; what was unfolded in it stays so."""
        slot = self._slot(pod)
        if (slot in self._folded) != folded:
            (self._folded.add if folded else self._folded.remove)(slot)
            height = self._height(slot)
            self._heights.add(slot, -height if folded else height)

    def open(self, node: Node, events: Iterable[int]) -> None:
        """Unfold a container; these are the numbers of its events."""
        self.close(node)
        slot = self._slot(node.pod)
        at = bisect_left(self._containers[slot], node.container)
        insort(self._opened.setdefault(slot, []), at)
        self._events[node.container] = array("q", events)
        if slot not in self._folded:
            self._heights.add(slot, len(self._events[node.container]))

    def close(self, node: Node) -> None:
        """Fold a container."""
        events = self._events.pop(node.container, None)
        if events is None:
            return
        slot = self._slot(node.pod)
        opened = self._opened[slot]
        opened.remove(bisect_left(self._containers[slot], node.container))
        if not opened:
            del self._opened[slot]
        if slot not in self._folded:
            self._heights.add(slot, -len(events))

    def opened(self) -> list[tuple[Node, int]]:
        """The containers that are unfolded, each with its newest event, or 0."""
        return [
            (Node(self._pods.key(slot), key), events[-1] if (events := self._events[key]) else 0)
            for slot in sorted(self._opened)
            for key in (self._containers[slot][at] for at in self._opened[slot])
        ]

    def folded(self) -> list[int]:
        """The pods that are folded."""
        return [self._pods.key(slot) for slot in sorted(self._folded)]

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
        pod, containers = self._pods.key(slot), self._containers[slot]
        if not rest:
            return Node(pod)
        rest -= 1
        before = 0
        for at in self._opened.get(slot, ()):
            if rest <= at + before:
                break
            events = self._events[containers[at]]
            within = rest - (at + before + 1)
            if within < len(events):
                return Node(pod, containers[at], events[within])
            before += len(events)
        return Node(pod, containers[rest - before])

    def position_of(self, node: Node) -> int | None:
        """Where a line is. What is folded into another one is where that is; None: not there."""
        slot = self._pods.find(node.pod)
        if slot is None:
            return None
        position = self._heights.before(slot)
        if node.level is Level.POD or slot in self._folded:
            return position
        containers = self._containers[slot]
        place = bisect_left(containers, node.container)
        if place == len(containers) or containers[place] != node.container:
            return None
        opened = (at for at in self._opened.get(slot, ()) if at < place)
        position += 1 + place + sum(len(self._events[containers[at]]) for at in opened)
        events = self._events.get(node.container)
        if node.level is Level.CONTAINER or events is None:
            return position
        at = bisect_left(events, node.event)
        return position + 1 + at if at < len(events) and events[at] == node.event else None

    def _slot(self, pod: int) -> int:
        slot = self._pods.find(pod)
        if slot is None:
            raise KeyError(pod)
        return slot

    def _height(self, slot: int) -> int:
        """Lines of what is in a pod where it is unfolded."""
        containers = self._containers[slot]
        events = sum(len(self._events[containers[at]]) for at in self._opened.get(slot, ()))
        return len(containers) + events
