# SPDX-License-Identifier: Apache-2.0
"""Limits on a redactor's memory and work, and its cache of answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

_Question = TypeVar("_Question", bound=Hashable)
_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class Memory:
    """Limits on memory and work."""

    values: int = 200_000
    """Maximum number of remembered values; later ones are only replaced in their places."""
    shown: int | None = None
    """Maximum characters of visible names; the oldest are dropped. None: no limit."""
    cached: int = 64 << 20
    """Approximate bytes of cached answers for texts; the same again for parts of messages."""
    part: int = UNBOUNDED
    """Maximum work on one pod or container in a message: one unit per character, see `engine` for
    more. The rest is replaced without a search."""
    message: int = UNBOUNDED
    """Maximum work on a whole message."""
    work: int | None = None
    """Maximum work in total, see `work_limit`; a recording that exceeds it, or has too many values,
    is refused. None: no limit."""


@dataclass(slots=True)
class CachedResult(Generic[_Given, _Found]):
    """The redacted form of a text, and the state for which it is valid."""

    text: _Given
    found: tuple[_Found, ...]
    looked_at: str
    """The text, and all texts decoded from it."""
    known: int
    epoch: int
    late: int | None
    """`ValueOwners.late` of the pod for which the answer is valid; None: valid for all pods."""


class ResultCache(Generic[_Question, _Given, _Found]):
    """A cache of the newest answers, limited by size."""

    def __init__(self, most: int) -> None:
        """Create a cache of about ``most`` bytes."""
        self._most = most
        self._answers: OrderedDict[_Question, tuple[CachedResult[_Given, _Found], int]] = (
            OrderedDict()
        )
        self.size = 0
        """Approximate size in bytes."""

    def get(self, question: _Question) -> CachedResult[_Given, _Found] | None:
        """Return the answer to a question, or None if it is not cached."""
        kept = self._answers.get(question)
        return kept[0] if kept is not None else None

    def keep(self, question: _Question, answer: CachedResult[_Given, _Found]) -> None:
        """Add an answer, and drop the oldest answers as necessary."""
        # The question, the answer, and the searched text, which contains both.
        size = 500 + 2 * len(answer.looked_at)
        if size > self._most // 8:
            return
        before = self._answers.pop(question, None)
        self.size += size - (before[1] if before is not None else 0)
        while self.size > self._most:
            _, (_, gone) = self._answers.popitem(last=False)
            self.size -= gone
        self._answers[question] = (answer, size)
