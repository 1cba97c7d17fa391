# SPDX-License-Identifier: Apache-2.0
"""What to replace and what to leave, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from .builtin import ON
from .re2_patterns import compiled, glob

if TYPE_CHECKING:
    import re2


class Action(StrEnum):
    """What becomes of what a rule finds."""

    REPLACE = "replace"
    KEEP = "keep"


@dataclass(frozen=True)
class Rule:
    """One rule of a user. What it does not say, it does not ask for."""

    name: str
    action: Action = Action.REPLACE
    path: str = ""
    """A pattern with ``*`` for the place, e.g. ``container.annotations.*``."""
    key: str = ""
    """A regular expression (RE2), found somewhere in the key of the value."""
    value: str = ""
    """Likewise in the value. Its first group, or else all that it matches, is what is replaced;
    without such an expression it is the whole value."""

    def fits(self, place: str, key: str) -> bool:
        """Whether it asks for the value at ``place``; "" is the key of what has none."""
        if self.path and self._path.fullmatch(place) is None:
            return False
        return not self.key or (bool(key) and self._key.search(key) is not None)

    @cached_property
    def _path(self) -> re2._Regexp[str]:
        return compiled(glob(self.path))

    @cached_property
    def _key(self) -> re2._Regexp[str]:
        return compiled(self.key)

    @cached_property
    def pattern(self) -> re2._Regexp[str] | None:
        """``value``, compiled; None for the whole value."""
        return compiled(self.value) if self.value else None


@dataclass(frozen=True)
class Rules:
    """Rules of one redaction. Those of the user are asked first, in their order."""

    DEFAULT: ClassVar[Rules]

    on: frozenset[str] = ON
    """Names of the rules of `builtin.BUILT_IN` that are asked."""
    rules: tuple[Rule, ...] = ()
    env: tuple[str, ...] = ()
    """Further names of variables whose values stay, with ``*``; likewise the next four."""
    keys: tuple[str, ...] = ()
    """Keys of annotations and labels."""
    hosts: tuple[str, ...] = ()
    registries: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """Values that stay wherever they are, as a whole and exactly."""
    nodes: tuple[str, ...] = ()
    """Names of nodes, for the rule of that name."""
    source: str = ""
    """The name of the file that they come from, without its folder; "" for the default."""


Rules.DEFAULT = Rules()
