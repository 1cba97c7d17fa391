# SPDX-License-Identifier: Apache-2.0
"""Limits on a redactor's memory and work, and its cache of results."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from nri_scope.errors import UsageError
from nri_scope.nri.element_limits import short_elements
from nri_scope.recording.work_budget import Budget

_Question = TypeVar("_Question", bound=Hashable)
_Given = TypeVar("_Given")
_Replacement = TypeVar("_Replacement")


UNBOUNDED = 1 << 62
REMEDY = "export a part of it with --where, and redact that part"
MESSAGE, TEXT, VALUE = 180, 40, 450
"""Units per message, per searched text, and per remembered value; for texts and values, one more
per character.
"""
PART = 5
"""Units per message in a message, such as a mount, even if it contains no text."""
AGAIN = 100
"""Units per message from which the redactor already learned; one more per 32 bytes."""
TEXT_LOOKUP, PART_LOOKUP = 20, 50
"""Units for looking up a text, and a part of a message, in the cache."""
_ELEMENT = 4
"""Units per short element beyond the usual number for the message's size, such as a thousand empty
mounts.
"""


class RedactionBudget(Budget):
    """Units of work for redacting a file; see `nri_scope.recording.work_budget.REDACTION`."""

    def __init__(self, units: int | None = None) -> None:
        """Start with ``units``; None for no limit."""
        super().__init__(math.inf if units is None else units)

    def decode(self, content: bytes) -> None:
        """Subtract the units for decoding and copying a message, whatever it contains."""
        size = len(content)
        self.spend(size // 32 + max(0, short_elements(content) - size // 16) * _ELEMENT)

    def spend(self, units: int) -> None:
        """Subtract units. Raises UsageError if none are left."""
        self.left -= units
        if self.left < 0:
            raise UsageError(
                "searching this recording for secrets exceeds the work limit for a file of "
                "its size",
                REMEDY,
            )


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
    """Maximum work in total, see `RedactionBudget`. A recording that exceeds it, or has too many
    values, is refused. None: no limit."""


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
