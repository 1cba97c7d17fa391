# SPDX-License-Identifier: Apache-2.0
"""The longest of many strings that stands at a place of a text, in logarithmic time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass


@dataclass(slots=True)
class _Node:
    """A string with the longest other one that it begins with."""

    value: str
    depth: int
    parent: _Node | None
    jump: _Node | None
    """An ancestor farther away, so that one of any length is reached in a few steps."""


class Prefixes:
    """Strings in their order.

    Of those that are not above a text in that order, the last one begins with each string that the
    text begins with: it is the answer, or the answer is one of its ancestors.
    """

    def __init__(self) -> None:
        self._values: list[str] = []
        self._nodes: dict[str, _Node] = {}
        self._is_nested = False
        self._longest = 0

    def add(self, value: str) -> None:
        """Add a string that is not there yet."""
        values = self._values
        at = bisect_left(values, value)
        if at and value.startswith(values[at - 1]):
            self._is_nested = True
        self._detach(at, value)
        values.insert(at, value)
        self._longest = max(self._longest, len(value))

    def remove(self, value: str) -> None:
        """Take a string away that is there."""
        at = bisect_left(self._values, value)
        del self._values[at]
        self._nodes.pop(value, None)
        self._detach(at, value)

    def longest_at(self, text: str, start: int, end: int) -> str | None:
        """The longest string that is in ``text`` from ``start`` on and ends before ``end``."""
        content = text[start : min(end, start + self._longest)]
        at = bisect_right(self._values, content) - 1
        if at < 0:
            return None
        value = self._values[at]
        if content.startswith(value):
            return value
        if not self._is_nested:
            return None
        node = _begins(self._node(at), content)
        return None if node is None else node.value

    def _detach(self, at: int, value: str) -> None:
        # Those that begin with `value`, which follow it, get it as an ancestor, or lose it.
        while at < len(self._values) and self._values[at].startswith(value):
            self._is_nested = True
            self._nodes.pop(self._values[at], None)
            at += 1

    def _node(self, at: int) -> _Node:
        first = at
        while first and self._values[first] not in self._nodes:
            first -= 1
        last = self._nodes.get(self._values[first])
        for value in self._values[first if last is None else first + 1 : at + 1]:
            parent = None if last is None else _begins(last, value)
            last = self._nodes[value] = _below(parent, value)
        assert last is not None
        return last


def _below(parent: _Node | None, value: str) -> _Node:
    if parent is None:
        return _Node(value, 0, None, None)
    jump = parent.jump
    # Jumps of lengths as in a skewed binary number: as many steps as that has digits.
    if jump is not None and jump.jump is not None:
        is_equal = parent.depth - jump.depth == jump.depth - jump.jump.depth
        jump = jump.jump if is_equal else parent
    else:
        jump = parent
    return _Node(value, parent.depth + 1, parent, jump)


def _begins(node: _Node | None, content: str) -> _Node | None:
    """The node or the nearest of its ancestors that ``content`` begins with."""
    while node is not None and not content.startswith(node.value):
        jump = node.jump
        node = node.parent if jump is None or content.startswith(jump.value) else jump
    return node
