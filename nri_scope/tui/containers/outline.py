# SPDX-License-Identifier: Apache-2.0
"""A foldable tree of pods, their containers and the containers' events, as lines by position.

A line takes 24 bytes. Events are only stored for unfolded containers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

NO_POD = 0
"""Key of the pod of containers whose pod is unknown; real keys begin at 1. Sorted last."""


class Depth(IntEnum):
    """The depth of a line in the tree."""

    POD = 0
    CONTAINER = 1
    EVENT = 2


class TreeNode(NamedTuple):
    """One line of the tree, by keys of the recording; `NO_POD` if the pod is unknown."""

    pod: int
    container: int = 0
    """The container's key; 0 for a pod."""
    event: int = 0
    """An event's number; 0 for a pod or container."""

    @property
    def level(self) -> Depth:
        """The node's level."""
        if self.event:
            return Depth.EVENT
        return Depth.CONTAINER if self.container else Depth.POD

    @property
    def parent(self) -> TreeNode | None:
        """The parent node; None for a pod."""
        if self.event:
            return TreeNode(self.pod, self.container)
        return TreeNode(self.pod) if self.container else None


class _SortedNodes:
    """Ascending nodes, stored in three arrays and found by binary search."""

    def __init__(self) -> None:
        self._columns = (array("q"), array("q"), array("q"))

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, at: int) -> TreeNode:
        pod, container, event = (column[at] for column in self._columns)
        return TreeNode(NO_POD if pod == LAST else pod, container, event)

    def __iter__(self) -> Iterator[TreeNode]:
        return (self[at] for at in range(len(self)))

    def find(self, node: TreeNode) -> int:
        """Return the position of a node, or its insertion position."""
        key, (pods, containers, events) = _sorted_key(node), self._columns
        if not pods or key > (pods[-1], containers[-1], events[-1]):
            return len(self)
        return bisect_left(
            range(len(self)), key, key=lambda at: (pods[at], containers[at], events[at])
        )

    def insert(self, at: int, nodes: Iterable[TreeNode]) -> None:
        """Insert nodes at a position that keeps the order."""
        keys = [_sorted_key(node) for node in nodes]
        for number, column in enumerate(self._columns):
            column[at:at] = array("q", [key[number] for key in keys])

    def cut(self, first: int, last: int) -> _SortedNodes:
        """Remove and return the nodes at ``first`` to ``last`` (exclusive)."""
        removed = _SortedNodes()
        for column, of_removed in zip(self._columns, removed._columns, strict=True):
            of_removed.extend(column[first:last])
            del column[first:last]
        return removed


_BATCH = 1_000
"""Number of nodes inserted in one step."""
LAST = (1 << 63) - 1
"""Larger than all keys of a recording."""


def _sorted_key(node: TreeNode) -> tuple[int, int, int]:
    """Return the sort key of a node."""
    pod, container, event = node
    return (LAST if pod == NO_POD else pod), container, event


class Outline:
    """The tree. Pods are unfolded at first, containers are not."""

    def __init__(self) -> None:
        """Create an empty tree, in ascending order of keys."""
        self._lines = _SortedNodes()
        self._folded: dict[int, _SortedNodes] = {}
        """Hidden nodes of each folded pod."""
        self._opened: set[TreeNode] = set()
        """The unfolded containers."""

    def __len__(self) -> int:
        return len(self._lines)

    # -- content --------------------------------------------------------------------------

    def add(self, subjects: Iterable[tuple[int, int]]) -> None:
        """Add pods (each with 0) and containers, in the order of the tree."""
        every = (TreeNode(pod, container) for pod, container in subjects)
        while nodes := list(islice(every, _BATCH)):
            if self._lines.find(nodes[0]) == len(self._lines) and not self._folded:
                self._lines.insert(len(self._lines), nodes)
                continue
            for node in nodes:
                lines = self._lines_with(node)
                at = lines.find(node)
                if at == len(lines) or lines[at] != node:
                    lines.insert(at, [node])

    # -- folding --------------------------------------------------------------------------

    def is_open(self, node: TreeNode) -> bool:
        """Return whether a pod or container is unfolded."""
        return node.pod not in self._folded if node.level is Depth.POD else node in self._opened

    def set_folded(self, pod: int, folded: bool) -> None:
        """Fold or unfold a pod; the state of its containers is kept."""
        first = self._lines.find(TreeNode(pod)) + 1
        if folded and pod not in self._folded:
            self._folded[pod] = self._lines.cut(first, self._lines.find(TreeNode(pod, LAST)))
        elif not folded and pod in self._folded:
            self._lines.insert(first, self._folded.pop(pod))

    def open(self, node: TreeNode, events: Iterable[int]) -> None:
        """Unfold a container with the numbers of its events."""
        self.close(node)
        self._opened.add(node)
        self.extend(node, events)

    def close(self, node: TreeNode) -> None:
        """Fold a container."""
        if node in self._opened:
            self._opened.remove(node)
            lines = self._lines_with(node)
            lines.cut(lines.find(node) + 1, lines.find(node._replace(event=LAST)))

    def extend(self, node: TreeNode, events: Iterable[int]) -> None:
        """Add new events of an unfolded container."""
        if node in self._opened:
            lines = self._lines_with(node)
            at = lines.find(node._replace(event=LAST))
            lines.insert(at, [node._replace(event=number) for number in events])

    def opened(self) -> list[tuple[TreeNode, int]]:
        """Return the unfolded containers, each with the number of its newest event, or 0."""
        found = []
        for node in sorted(self._opened, key=_sorted_key):
            lines = self._lines_with(node)
            found.append((node, lines[lines.find(node._replace(event=LAST)) - 1].event))
        return found

    def folded(self) -> list[int]:
        """Return the folded pods."""
        return sorted(self._folded)

    # -- lines ----------------------------------------------------------------------------

    def node_at(self, position: int) -> TreeNode:
        """Return the node at a position. Raises IndexError."""
        if not 0 <= position < len(self):
            raise IndexError(position)
        return self._lines[position]

    def position_of(self, node: TreeNode) -> int | None:
        """Return the position of a node, or of the folded pod that contains it.

        Returns None if the node is not in the tree.
        """
        at = self._lines.find(node)
        if at < len(self) and self._lines[at] == node:
            return at
        if node.parent is None or self.is_open(node.parent):
            return None
        return self.position_of(node.parent)

    def _lines_with(self, node: TreeNode) -> _SortedNodes:
        """Return the nodes that contain ``node``: the visible ones, or those of its folded pod."""
        if node.level is Depth.POD:
            return self._lines
        return self._folded.get(node.pod, self._lines)
