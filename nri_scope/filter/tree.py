# SPDX-License-Identifier: Apache-2.0
"""Nodes of a parsed filter: immutable; ``str()`` returns the canonical text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .fields import PARENTS, FilterField

OPERATORS = ("AND", "OR", "NOT")

_PLAIN = re.compile(r"[A-Za-z0-9_./@+][A-Za-z0-9_./@+-]*")
_PLAIN_REGEX = re.compile(r"[A-Za-z0-9_./@+*?^$-]+")


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction of ``items``; an empty one matches every event."""

    items: tuple[Node, ...]

    def __str__(self) -> str:
        return " ".join(
            f"({item})" if isinstance(item, And | Or) else str(item) for item in self.items
        )


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction of ``items``."""

    items: tuple[Node, ...]

    def __str__(self) -> str:
        return " OR ".join(
            f"({item})" if isinstance(item, Or) else str(item) for item in self.items
        )


@dataclass(frozen=True, slots=True)
class Not:
    """Negation of ``item``."""

    item: Node

    def __str__(self) -> str:
        return f"-({self.item})" if isinstance(self.item, And | Or) else f"-{self.item}"


@dataclass(frozen=True, slots=True)
class Word:
    """A bare word, searched in names and ids. If ``wild``, each ``*`` matches any text."""

    text: str
    wild: bool

    def __str__(self) -> str:
        return self.text if self.wild else quote(self.text)


@dataclass(frozen=True, slots=True)
class Is:
    """``field:value``. If ``wild``, each ``*`` in ``text`` matches any text."""

    field: FilterField
    text: str
    wild: bool

    def __str__(self) -> str:
        is_name = self.field.name in PARENTS
        return f"{self.field.name}:{self.text if self.wild else quote(self.text, is_name=is_name)}"


@dataclass(frozen=True, slots=True)
class Matches:
    """``field:~pattern``, searched anywhere in the value."""

    field: FilterField
    pattern: str

    def __str__(self) -> str:
        plain = _PLAIN_REGEX.fullmatch(self.pattern)
        return f"{self.field.name}:~{self.pattern if plain else _in_quotes(self.pattern)}"


@dataclass(frozen=True, slots=True)
class Between:
    """``field:>number`` and similar: an inclusive range of nanoseconds, bytes, or numbers."""

    field: FilterField
    text: str
    """Operator and number as written."""
    low: int | None
    high: int | None

    def __str__(self) -> str:
        return f"{self.field.name}:{self.text}"


Node = And | Or | Not | Word | Is | Matches | Between


def quote(text: str, *, is_name: bool = False) -> str:
    """Return a filter value that matches exactly ``text``, quoted only if needed.

    ``is_name``: for a pod or container, where a slash without quotes separates names.
    """
    plain = _PLAIN.fullmatch(text) and text.upper() not in OPERATORS
    plain = plain and not (is_name and "/" in text)
    return text if plain else _in_quotes(text)


def _in_quotes(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
