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
    """A user's rule. An empty condition always matches."""

    name: str
    action: Action = Action.REPLACE
    path: str = ""
    """A pattern of the place, e.g. ``container.annotations.*``; ``*`` matches any text."""
    key: str = ""
    """A regular expression (RE2), searched for in the value's key."""
    value: str = ""
    """A regular expression (RE2), searched for in the value. Its first group is replaced, or the
    whole match if it has no group. If empty, the whole value is replaced."""

    def applies_to(self, place: str, key: str) -> bool:
        """Return whether the rule applies to a value at ``place``; ``key`` may be ""."""
        if self.path and self._path_pattern.fullmatch(place) is None:
            return False
        return not self.key or (bool(key) and self._key_pattern.search(key) is not None)

    @cached_property
    def _path_pattern(self) -> re2._Regexp[str]:
        return compiled(glob(self.path))

    @cached_property
    def _key_pattern(self) -> re2._Regexp[str]:
        return compiled(self.key)

    @cached_property
    def value_pattern(self) -> re2._Regexp[str] | None:
        """The compiled ``value``, or None if the rule applies to the whole value."""
        return compiled(self.value) if self.value else None


@dataclass(frozen=True)
class Rules:
    """The rules of one redaction. The user's rules are applied first, in their order."""

    DEFAULT: ClassVar[Rules]

    enabled: frozenset[str] = DEFAULT_RULES
    """Names of the rules of `builtin.BUILT_IN` that are on."""
    user_rules: tuple[Rule, ...] = ()
    kept_variables: tuple[str, ...] = ()
    """Names of variables whose values are kept; ``*`` matches any text."""
    kept_keys: tuple[str, ...] = ()
    """Keys of annotations and labels whose values are kept; ``*`` matches any text."""
    kept_hosts: tuple[str, ...] = ()
    """Host names and registries kept in addition to `harmless.HOSTS`; ``*`` matches any text."""
    kept_values: tuple[str, ...] = ()
    """Values and words kept wherever they stand between spaces, quotes and separators."""
    node_names: tuple[str, ...] = ()
    """Names of nodes for the built-in rule ``nodes``."""
    source: str = ""
    """The name of the rule file without its folder; "" for the default rules."""


Rules.DEFAULT = Rules()
