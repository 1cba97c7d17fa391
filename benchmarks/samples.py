# SPDX-License-Identifier: Apache-2.0
"""Texts that a regular expression matches, made by chance."""

from __future__ import annotations

import importlib
from random import Random
from typing import Any

# Python's own parser of expressions: it has no public name.
_parser: Any = importlib.import_module("re._parser")

_VISIBLE = [chr(code) for code in range(33, 127)]
_MORE = 8
"""Repetitions beyond what is needed."""
# Go's and RE2's spelling of what Python writes in another way; small letters for both are fine.
_RESPELT = (("(?i)", ""), ("(?-i:", "(?:"), (r"\z", r"\Z"), ("[:alnum:]", "A-Za-z0-9"))
_CLASSES = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_SPACE": " ",
    "CATEGORY_WORD": "".join(c for c in _VISIBLE if c.isalnum() or c == "_"),
    "CATEGORY_NOT_DIGIT": "".join(c for c in _VISIBLE if not c.isdigit()),
    "CATEGORY_NOT_SPACE": "".join(_VISIBLE),
    "CATEGORY_NOT_WORD": "#",
}


class Sampler:
    """Makes texts for one expression. What must not stand beside a match is not asked for."""

    def __init__(self, expression: str, chance: Random) -> None:
        """Parse the expression. Raises re.error where Python does not know such an expression."""
        for theirs, ours in _RESPELT:
            expression = expression.replace(theirs, ours)
        self._tree = _parser.parse(expression)
        self._names = {number: name for name, number in self._tree.state.groupdict.items()}
        self._chance = chance
        self._text = ""
        self._groups: dict[str | int, str] = {}

    def sample(self) -> tuple[str, dict[str | int, str]]:
        """One text, and what its groups have, by number and by name."""
        self._text, self._groups = "", {}
        self._add(self._tree)
        return self._text, self._groups

    def _add(self, sequence: Any) -> None:
        for operation, argument in sequence:
            match str(operation):
                case "LITERAL":
                    self._text += chr(argument)
                case "NOT_LITERAL":
                    self._text += self._chance.choice([c for c in _VISIBLE if c != chr(argument)])
                case "ANY":
                    self._text += "."  # meant as such more often than not
                case "IN":
                    self._text += self._chance.choice(_members(argument))
                case "BRANCH":
                    self._add(self._chance.choice(argument[1]))
                case "SUBPATTERN":
                    before = len(self._text)
                    self._add(argument[3])
                    number = argument[0]
                    if number is not None:
                        self._groups[number] = self._text[before:]
                        self._groups[self._names.get(number, number)] = self._text[before:]
                case "MAX_REPEAT" | "MIN_REPEAT":
                    least, most, body = argument
                    for _ in range(self._chance.randint(least, min(most, least + _MORE))):
                        self._add(body)
                case _:
                    pass  # what stands beside a match


def _members(of: Any) -> list[str]:
    chosen: set[str] = set()
    is_negated = False
    for operation, argument in of:
        match str(operation):
            case "NEGATE":
                is_negated = True
            case "LITERAL":
                chosen.add(chr(argument))
            case "RANGE":
                chosen |= {c for c in _VISIBLE if argument[0] <= ord(c) <= argument[1]}
            case "CATEGORY":
                chosen |= set(_CLASSES[str(argument)])
    visible = [c for c in _VISIBLE if (c in chosen) is not is_negated]
    return visible or sorted(chosen)
