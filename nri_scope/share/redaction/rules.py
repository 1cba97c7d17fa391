# SPDX-License-Identifier: Apache-2.0
"""What to replace and what to keep, as plain data."""

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
    """What a rule does with a value that it finds."""

    REPLACE = "replace"
    KEEP = "keep"


@dataclass(frozen=True)
class Rule:
    """A rule of the user. Empty conditions always hold."""

    name: str
    action: Action = Action.REPLACE
    path: str = ""
    """A pattern with ``*`` for the place, e.g. ``container.annotations.*``."""
    key: str = ""
    """A regular expression (RE2), searched for in the key of the value."""
    value: str = ""
    """A regular expression (RE2), searched for in the value. Its first group, or else the match, is
    replaced; without an expression the whole value is."""

    def fits(self, place: str, key: str) -> bool:
        """Return whether it applies to the value at ``place``; "" is the key of a value without
        one.
        """
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
    """The rules of one redaction. Those of the user come first, in their order."""

    DEFAULT: ClassVar[Rules]

    on: frozenset[str] = ON
    """Names of the rules of `builtin.BUILT_IN` that are on."""
    rules: tuple[Rule, ...] = ()
    env: tuple[str, ...] = ()
    """Additional names of variables whose values stay; ``*`` is allowed, as in the next three."""
    keys: tuple[str, ...] = ()
    """Keys of annotations and labels."""
    hosts: tuple[str, ...] = ()
    registries: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """Values that stay everywhere, if the whole value is exactly this."""
    nodes: tuple[str, ...] = ()
    """Names of nodes, for the rule of that name."""
    source: str = ""
    """The name of the rule file, without its folder; "" for the default."""


Rules.DEFAULT = Rules()
