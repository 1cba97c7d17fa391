# SPDX-License-Identifier: Apache-2.0
"""Redaction rules as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from .builtin import DEFAULT_RULES
from .re2_patterns import compiled, glob

if TYPE_CHECKING:
    import re2


class Action(StrEnum):
    """The action of a rule on a value that it matches."""

    REPLACE = "replace"
    KEEP = "keep"


@dataclass(frozen=True)
class Rule:
    """A user's rule. Empty conditions always match."""

    name: str
    action: Action = Action.REPLACE
    path: str = ""
    """A pattern for the place; ``*`` matches any text, e.g. ``container.annotations.*``."""
    key: str = ""
    """A regular expression (RE2), searched for in the value's key."""
    value: str = ""
    """A regular expression (RE2), searched for in the value. Its first group, or else the whole
    match, is replaced; without an expression, the whole value is."""

    def fits(self, place: str, key: str) -> bool:
        """Return whether the rule applies to a value at ``place``; ``key`` is "" without a key."""
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
        """The compiled ``value``; None to match the whole value."""
        return compiled(self.value) if self.value else None


@dataclass(frozen=True)
class Rules:
    """The rules of one redaction. The user's rules come first, in their order."""

    DEFAULT: ClassVar[Rules]

    on: frozenset[str] = DEFAULT_RULES
    """Names of the rules of `builtin.BUILT_IN` that are on."""
    rules: tuple[Rule, ...] = ()
    env: tuple[str, ...] = ()
    """Additional variables whose values are kept; ``*`` in a name matches any text."""
    keys: tuple[str, ...] = ()
    """Additional annotations and labels whose values are kept; ``*`` as in ``env``."""
    hosts: tuple[str, ...] = ()
    """Additional host names that are kept; ``*`` as in ``env``."""
    registries: tuple[str, ...] = ()
    """Additional registries whose names are kept; ``*`` as in ``env``."""
    values: tuple[str, ...] = ()
    """Values that are always kept, if the whole value matches."""
    nodes: tuple[str, ...] = ()
    """Names of nodes that the built-in rule ``nodes`` replaces."""
    source: str = ""
    """The name of the rule file without its folder; "" for the default rules."""


Rules.DEFAULT = Rules()
