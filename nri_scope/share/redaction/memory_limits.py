# SPDX-License-Identifier: Apache-2.0
"""Limits on a redactor's memory and work, and its cache of results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

_Question = TypeVar("_Question", bound=Hashable)
_Given = TypeVar("_Given")
_Replacement = TypeVar("_Replacement")


UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class Memory:
    """Limits on memory and work."""

    values: int = 200_000
    """Maximum number of remembered values; later ones are only replaced in their places."""
    characters: int = 64 << 20
    """Maximum number of characters of all remembered values."""
    shown: int | None = None
    """Maximum characters of visible names; the oldest are dropped. None: no limit."""
    cached: int = 64 << 20
    """Approximate size of the cache of texts in bytes; the caches of message parts have the same
    size together."""
    part: int = UNBOUNDED
    """Maximum work on one pod or container in a message: one unit per character, plus the costs in
    `engine`. The rest is replaced without a search."""
    message: int = UNBOUNDED
    """Maximum work on a whole message."""
    work: int | None = None
    """Maximum work in total, see `work_limit`; a recording that exceeds it, or has too many values,
    is refused. None: no limit."""


@dataclass(slots=True)
class CachedResult(Generic[_Given, _Replacement]):
    """The redacted form of a text, and the state of known values for which it is valid."""

    text: _Given
    replacements: tuple[_Replacement, ...]
    searched: str
    """The text, its redacted form, and all texts decoded from it."""
    known: int
    epoch: int
    late: int | None
    """`ValueOwners.late` of the pod for which the result is valid; None: valid for all pods."""


class ResultCache(Generic[_Question, _Given, _Replacement]):
    """A cache of the newest results, limited by size."""

    def __init__(self, max_bytes: int) -> None:
        """Create a cache of about ``max_bytes``."""
        self._most = max_bytes
        self._answers: OrderedDict[_Question, tuple[CachedResult[_Given, _Replacement], int]] = (
            OrderedDict()
        )
        self.size = 0
        """Approximate size in bytes."""

    def get(self, key: _Question) -> CachedResult[_Given, _Replacement] | None:
        """Return the result for a key, or None if it is not cached."""
        entry = self._answers.get(key)
        return entry[0] if entry is not None else None

    def keep(self, key: _Question, result: CachedResult[_Given, _Replacement]) -> None:
        """Add a result, and drop the oldest results if necessary."""
        # The key, the result, and the searched text, which contains both.
        size = 500 + 2 * len(result.searched)
        if size > self._most // 8:
            return
        previous = self._answers.pop(key, None)
        self.size += size - (previous[1] if previous is not None else 0)
        while self.size > self._most:
            _, (_, dropped) = self._answers.popitem(last=False)
            self.size -= dropped
        self._answers[key] = (result, size)
