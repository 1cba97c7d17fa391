# SPDX-License-Identifier: Apache-2.0
"""Find the longest of many strings at a position in a text, in logarithmic time.

The strings are kept in sorted blocks, so that insertions take the same time at any number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

MAX_BLOCK = 1_000
"""Maximum number of strings per list; in a single list, each insertion would move half of all."""

Position = tuple[int, int]
"""Number of a list, and index in that list. Valid until the next change."""


class SortedStrings:
    """Consecutive lists of bounded size."""

    def __init__(self) -> None:
        self._lists: list[list[str]] = [[]]
        # The first string of each list except the first list.
        self._firsts: list[str] = []

    def add(self, value: str) -> Position:
        """Add a new string; return its place."""
        number = bisect_right(self._firsts, value)
        block = self._lists[number]
        index = bisect_left(block, value)
        block.insert(index, value)
        if len(block) <= MAX_BLOCK:
            return number, index
        half = len(block) // 2
        self._lists[number : number + 1] = [block[:half], block[half:]]
        self._firsts.insert(number, block[half])
        return (number, index) if index < half else (number + 1, index - half)

    def remove(self, value: str) -> Position:
        """Remove a string, which must exist; return the place of the strings after it."""
        number = bisect_right(self._firsts, value)
        block = self._lists[number]
        index = bisect_left(block, value)
        del block[index]
        return number, index

    def last_to(self, value: str) -> Position | None:
        """Return the place of the last string that does not sort after ``value``, or None."""
        number = bisect_right(self._firsts, value)
        index = bisect_right(self._lists[number], value) - 1
        return (number, index) if index >= 0 else self._end_before(number)

    def string_at(self, position: Position) -> str:
        """Return the string at a place."""
        return self._lists[position[0]][position[1]]

    def before(self, position: Position) -> Position | None:
        """Return the preceding place, or None."""
        number, index = position
        return (number, index - 1) if index else self._end_before(number)

    def since(self, position: Position) -> Iterator[str]:
        """Yield all strings from a place on."""
        number, index = position
        while number < len(self._lists):
            block = self._lists[number]
            while index < len(block):
                yield block[index]
                index += 1
            number, index = number + 1, 0

    def _end_before(self, number: int) -> Position | None:
        while number:
            number -= 1
            if self._lists[number]:
                return number, len(self._lists[number]) - 1
        return None


@dataclass(slots=True)
class _Node:
    """A string; its parent is the longest other string that is a prefix of it."""

    value: str
    depth: int
    parent: _Node | None
    jump: _Node | None
    """A more distant ancestor, so that ancestors of any length are reached in a few steps."""


class PrefixSet:
    """A sorted set of strings with prefix search.

    Among the strings that do not sort after a text, the last one begins with every string that is a
    prefix of the text. So this string or one of its ancestors is the longest prefix.
    """

    def __init__(self) -> None:
        self._values = SortedStrings()
        self._nodes: dict[str, _Node] = {}
        self._is_nested = False
        self._longest = 0

    def add(self, value: str) -> None:
        """Add a new string."""
        values = self._values
        position = values.add(value)
        before = values.before(position)
        if before is not None and value.startswith(values.string_at(before)):
            self._is_nested = True
        self._detach((position[0], position[1] + 1), value)
        if len(value) > self._longest:
            self._longest = len(value)

    def remove(self, value: str) -> None:
        """Remove a string, which must exist."""
        position = self._values.remove(value)
        self._nodes.pop(value, None)
        self._detach(position, value)

    def longest_at(self, text: str, start: int, end: int) -> str | None:
        """Return the longest string that occurs in ``text`` at ``start`` and ends by ``end``."""
        content = text[start : min(end, start + self._longest)]
        position = self._values.last_to(content)
        if position is None:
            return None
        value = self._values.string_at(position)
        if content.startswith(value):
            return value
        if not self._is_nested:
            return None
        node = _nearest_prefix(self._node(position), content)
        return None if node is None else node.value

    def _detach(self, position: Position, value: str) -> None:
        # Strings that begin with `value` come after it; their ancestors change.
        for one in self._values.since(position):
            if not one.startswith(value):
                break
            self._is_nested = True
            self._nodes.pop(one, None)

    def _node(self, position: Position) -> _Node:
        values = [self._values.string_at(position)]
        before = self._values.before(position)
        while values[-1] not in self._nodes and before is not None:
            values.append(self._values.string_at(before))
            before = self._values.before(before)
        last = self._nodes.get(values[-1])
        if last is not None:
            values.pop()
        for value in reversed(values):
            parent = None if last is None else _nearest_prefix(last, value)
            last = self._nodes[value] = _make_node(parent, value)
        assert last is not None
        return last


class PrefixIndex:
    """Strings indexed by their first characters, to search for them in a text."""

    def __init__(self, size: int) -> None:
        """Set ``size``, the number of first characters; no string may be shorter."""
        self._size = size
        # Most beginnings belong to a single string.
        self.of: dict[str, str | PrefixSet] = {}

    def add(self, value: str) -> None:
        """Add a new string."""
        begin = value[: self._size]
        entry = self.of.get(begin)
        if entry is None:
            self.of[begin] = value
            return
        if isinstance(entry, str):
            first, entry = entry, PrefixSet()
            entry.add(first)
            self.of[begin] = entry
        entry.add(value)

    def remove(self, value: str) -> None:
        """Remove a string, which must exist."""
        begin = value[: self._size]
        entry = self.of[begin]
        if isinstance(entry, str):
            del self.of[begin]
        else:
            entry.remove(value)

    def longest_at(self, text: str, start: int, end: int) -> str:
        """Return the longest string in ``text`` at ``start`` that ends by ``end``, or ""."""
        entry = self.of.get(text[start : start + self._size])
        if entry is None:
            return ""
        if isinstance(entry, str):
            return entry if text.startswith(entry, start, end) else ""
        return entry.longest_at(text, start, end) or ""


def _make_node(parent: _Node | None, value: str) -> _Node:
    if parent is None:
        return _Node(value, 0, None, None)
    jump = parent.jump
    # Jump lengths as in a skew binary number: a path has as many steps as the number has digits.
    if jump is not None and jump.jump is not None:
        is_equal = parent.depth - jump.depth == jump.depth - jump.jump.depth
        jump = jump.jump if is_equal else parent
    else:
        jump = parent
    return _Node(value, parent.depth + 1, parent, jump)


def _nearest_prefix(node: _Node | None, content: str) -> _Node | None:
    """Return the node or its nearest ancestor that is a prefix of ``content``."""
    while node is not None and not content.startswith(node.value):
        jump = node.jump
        node = node.parent if jump is None or content.startswith(jump.value) else jump
    return node
