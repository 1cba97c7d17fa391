# SPDX-License-Identifier: Apache-2.0
"""Which pods a value is known from, and whether another pod's texts may tell that it is known."""

from __future__ import annotations

import re

EVERYTHING = ""
"""Texts of no pod: what is known of any pod is replaced in them."""
_NAMES = -1
"""Names and ids, which have to stay the same wherever they are met: no pod's."""
_MOST_PODS = 200_000
"""More of them count as one."""
_PAIRS_PER_VALUE = 10
_RANDOM_MIN = 20
"""Letters and digits from which on a value that looks random cannot be guessed."""
_RUN = re.compile(r"[a-z]+|[A-Z]+|[0-9]+")
_OTHER = re.compile(r"[^A-Za-z0-9]+")


class Owners:
    """Pods by the values that are known from them.

    Who writes a guess into a pod of theirs, and sees the result, must not learn from it that
    another pod has that value. So a value that can be guessed is replaced in the texts of the pods
    that it is known from, and in texts of no pod; one that cannot be guessed is replaced
    everywhere.
    """

    def __init__(self, values: int) -> None:
        """``values``: how many there will be at most. Of more pairs of a value and a pod than ten
        times that many, the later values are replaced everywhere.
        """
        self._most_pairs = values * _PAIRS_PER_VALUE
        self._of: dict[str, int | set[int]] = {}
        self._random: set[str] = set()
        self._numbers: dict[str, int] = {EVERYTHING: 0}
        self._late: dict[int, int] = {}
        self._left: set[tuple[str, int]] = set()
        self._pairs = 0
        self._current = 0
        self.added = 0
        """How often a value that was known became known from one more pod."""
        self.skipped = 0
        """How often a value was left."""

    def enter(self, pod: str | None) -> None:
        """Take what comes for text of this pod; None: for a name."""
        if pod is None:
            self._current = _NAMES
        else:
            number = self._numbers.get(pod, _MOST_PODS)
            if number == _MOST_PODS > len(self._numbers):
                number = self._numbers[pod] = len(self._numbers)
            self._current = number

    @property
    def late(self) -> int:
        """How many values became known from this pod that were known before from another one."""
        return self._late.get(self._current, 0)

    def add(self, value: str) -> None:
        """Remember that a value is known from the current pod."""
        current = self._current
        if self._is_of(value, current):
            return
        owners = self._of.get(value)
        if self._pairs >= self._most_pairs:
            # Better replaced than not.
            self._random.add(value)
            return
        self._pairs += 1
        if owners is None:
            self._of[value] = current
            if not can_be_guessed(value):
                self._random.add(value)
            return
        if isinstance(owners, set):
            owners.add(current)
        else:
            self._of[value] = {owners, current}
        self.added += 1
        self._late[current] = self._late.get(current, 0) + 1

    def has(self, value: str) -> bool:
        """Whether a value is known from the current pod."""
        return self._is_of(value, self._current)

    def may_tell(self, value: str) -> bool:
        """Whether the current pod's texts may tell that a value is known; if not, it is left."""
        if self._current == 0 or value in self._random or self.has(value):
            return True
        self._left.add((value, self._current))
        self.skipped += 1
        return False

    def left(self) -> set[str]:
        """Values that were left in texts of pods that they are not known from."""
        return {value for value, pod in self._left if not self._is_of(value, pod)}

    def _is_of(self, value: str, pod: int) -> bool:
        owners = self._of.get(value)
        return owners == pod or (isinstance(owners, set) and pod in owners)


def can_be_guessed(value: str) -> bool:
    """Whether a value does not look random, or is too short for that to mean anything.

    Random are 20 letters and digits, in any encoding, that change between small letters, capitals
    and digits as often as at every third of them; words and numbers put together do not.
    """
    bare = _OTHER.sub("", value)
    return len(bare) < _RANDOM_MIN or 3 * len(_RUN.findall(bare)) < len(bare)
