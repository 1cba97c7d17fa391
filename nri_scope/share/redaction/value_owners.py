# SPDX-License-Identifier: Apache-2.0
"""Track the pods from which values are known, so that texts of other pods do not reveal them."""

from __future__ import annotations

import re

ALL_PODS = ""
"""The key of texts without a pod, in which values of all pods are replaced."""
_NAMES = -1
"""The key of names and ids, which are the same everywhere and belong to no pod."""
_MAX_PODS = 200_000
"""Maximum number of separate pods; further pods share one key."""
_PAIRS_PER_VALUE = 10
_MIN_RANDOM = 20
"""Number of letters and digits from which a random-looking value cannot be guessed."""
_RUN = re.compile(r"[a-z]+|[A-Z]+|[0-9]+")
_OTHER = re.compile(r"[^A-Za-z0-9]+")


class ValueOwners:
    """The pods from which values are known.

    A user who writes a guess into their own pod and sees the result must not be able to learn that
    another pod has that value. So a value that can be guessed is replaced only in texts of the pods
    from which it is known, and in texts without a pod; any other value is replaced everywhere.
    """

    def __init__(self, values: int) -> None:
        """Start without values. ``values``: the expected maximum. Once there are ten times as many
        pairs of a value and a pod, further values are replaced everywhere.
        """
        self._most_pairs = values * _PAIRS_PER_VALUE
        self._of: dict[str, int | set[int]] = {}
        self._random: set[str] = set()
        self._numbers: dict[str, int] = {ALL_PODS: 0}
        self._late: dict[int, int] = {}
        self._left: set[tuple[str, int]] = set()
        self._pairs = 0
        self._current = 0
        self.added = 0
        """Number of times that a known value became known from another pod."""
        self.skipped = 0
        """Number of times that a known value was not replaced in a pod's text."""

    def enter(self, pod: str | None) -> None:
        """Set the pod of the following texts; None if these are names."""
        if pod is None:
            self._current = _NAMES
        else:
            number = self._numbers.get(pod, _MAX_PODS)
            if number == _MAX_PODS > len(self._numbers):
                number = self._numbers[pod] = len(self._numbers)
            self._current = number

    @property
    def late(self) -> int:
        """Number of values known from this pod only after they were known from another one."""
        return self._late.get(self._current, 0)

    def add(self, value: str) -> None:
        """Record that a value is known from the current pod."""
        current = self._current
        if self._is_of(value, current):
            return
        pods = self._of.get(value)
        if self._pairs >= self._most_pairs:
            # No room to record the pod: replace the value everywhere.
            self._random.add(value)
            return
        self._pairs += 1
        if pods is None:
            self._of[value] = current
            if not can_be_guessed(value):
                self._random.add(value)
            return
        if isinstance(pods, set):
            pods.add(current)
        else:
            self._of[value] = {pods, current}
        self.added += 1
        self._late[current] = self._late.get(current, 0) + 1

    def has(self, value: str) -> bool:
        """Return whether a value is known from the current pod."""
        return self._is_of(value, self._current)

    def may_replace(self, value: str) -> bool:
        """Return whether to replace a known value in the current pod's texts; record refusals."""
        if self._current == 0 or value in self._random or self.has(value):
            return True
        self._left.add((value, self._current))
        self.skipped += 1
        return False

    def skipped_values(self) -> set[str]:
        """Return values that were not replaced in texts of pods from which they are not known."""
        return {value for value, pod in self._left if not self._is_of(value, pod)}

    def _is_of(self, value: str, pod: int) -> bool:
        pods = self._of.get(value)
        return pods == pod or (isinstance(pods, set) and pod in pods)


def can_be_guessed(value: str) -> bool:
    """Return whether a value does not look random, or is too short to judge.

    A value looks random if it has 20 or more letters and digits, in any encoding, and changes
    between small letters, capitals and digits at every third of them or more often; combined words
    and numbers do not.
    """
    bare = _OTHER.sub("", value)
    return len(bare) < _MIN_RANDOM or 3 * len(_RUN.findall(bare)) < len(bare)
