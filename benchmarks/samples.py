# SPDX-License-Identifier: Apache-2.0
"""Random texts that match a regular expression."""

from __future__ import annotations

import importlib
from random import Random
from typing import Any

# Python's own parser of regular expressions is not public.
_parser: Any = importlib.import_module("re._parser")

_VISIBLE = [chr(code) for code in range(33, 127)]
_MAX_EXTRA_REPETITIONS = 8
# RE2 syntax (Go) and its Python equivalent. Case-insensitive parts become case-sensitive.
_RE2_TO_PYTHON = (("(?i)", ""), ("(?-i:", "(?:"), (r"\z", r"\Z"), ("[:alnum:]", "A-Za-z0-9"))
_CLASSES = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_SPACE": " ",
    "CATEGORY_WORD": "".join(c for c in _VISIBLE if c.isalnum() or c == "_"),
    "CATEGORY_NOT_DIGIT": "".join(c for c in _VISIBLE if not c.isdigit()),
    "CATEGORY_NOT_SPACE": "".join(_VISIBLE),
    "CATEGORY_NOT_WORD": "#",
}


class Sampler:
    """Generator of texts that match one expression. Lookarounds and anchors are ignored."""

    def __init__(self, expression: str, chance: Random) -> None:
        """Parse the expression. Raises re.error if Python does not support its syntax."""
        for re2, python in _RE2_TO_PYTHON:
            expression = expression.replace(re2, python)
        self._tree = _parser.parse(expression)
        self._names = {number: name for name, number in self._tree.state.groupdict.items()}
        self._chance = chance
        self._text = ""
        self._groups: dict[str | int, str] = {}

    def sample(self) -> tuple[str, dict[str | int, str]]:
        """Return a text and the values of its groups, by number and by name."""
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
                    self._text += "."  # usually an unescaped literal dot
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
                    most = min(most, least + _MAX_EXTRA_REPETITIONS)
                    for _ in range(self._chance.randint(least, most)):
                        self._add(body)
                case _:
                    pass  # lookarounds and anchors


def _members(character_class: Any) -> list[str]:
    chosen: set[str] = set()
    is_negated = False
    for operation, argument in character_class:
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
