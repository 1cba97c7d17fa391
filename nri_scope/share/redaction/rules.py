# SPDX-License-Identifier: Apache-2.0
"""Redaction rules as plain data. In all patterns, ``*`` matches any text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .builtin import DEFAULT_RULES


@dataclass(frozen=True)
class Rules:
    """The rules of one redaction."""

    DEFAULT: ClassVar[Rules]

    enabled: frozenset[str] = DEFAULT_RULES
    """Names of the rules of `builtin.BUILT_IN` that are on."""
    kept_variables: tuple[str, ...] = ()
    """Names of variables whose values are kept."""
    kept_keys: tuple[str, ...] = ()
    """Keys of annotations and labels whose values are kept."""
    kept_hosts: tuple[str, ...] = ()
    """Host names and registries kept in addition to `harmless.HOSTS`."""
    kept_values: tuple[str, ...] = ()
    """Values and words kept wherever they stand between spaces, quotes and separators; these are
    no patterns."""
    replaced_keys: tuple[str, ...] = ()
    """Keys whose values are replaced like those of credentials."""
    replaced_values: tuple[str, ...] = ()
    """Words that are replaced wherever they stand between spaces, quotes and separators."""
    node_names: tuple[str, ...] = ()
    """Names of nodes for the built-in rule ``nodes``."""
    source: str = ""
    """The name of the rule file without its folder; "" for the default rules."""


Rules.DEFAULT = Rules()
