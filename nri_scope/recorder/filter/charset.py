# SPDX-License-Identifier: Apache-2.0
"""Sets of characters: what one position of a regular expression accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def is_word(char: str) -> bool:
    """True for what ``\\w`` stands for: letters and digits of any script, and the underscore."""
    return char == "_" or char.isalnum()


CLASSES: dict[str, Callable[[str], bool]] = {
    "d": str.isdecimal,
    "w": is_word,
    "s": str.isspace,
    "D": lambda char: not char.isdecimal(),
    "W": lambda char: not is_word(char),
    "S": lambda char: not char.isspace(),
}
"""What follows a backslash to name a class, and its test."""


@dataclass(frozen=True, slots=True)
class Charset:
    """Ranges of code points (both ends included) and named classes, perhaps the other way round."""

    ranges: tuple[tuple[str, str], ...] = ()
    classes: str = ""
    negated: bool = False
    ignore_case: bool = False

    def __contains__(self, char: str) -> bool:
        found = self._holds(char)
        if not found and self.ignore_case:
            found = self._holds(char.lower()) or self._holds(char.upper())
        return found != self.negated

    def _holds(self, char: str) -> bool:
        # Lower and upper case of some characters are two characters long: those stay as they are.
        if len(char) != 1:
            return False
        return any(low <= char <= high for low, high in self.ranges) or any(
            CLASSES[name](char) for name in self.classes
        )


ANY = Charset(ranges=(("\n", "\n"),), negated=True)
"""The dot: everything but a line's end."""
