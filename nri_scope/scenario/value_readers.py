# SPDX-License-Identifier: Apache-2.0
"""Strict readers of the values in a document."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nri_scope.filter.moments import parse_duration
from nri_scope.text.yaml_reader import Node

from .model import Position, nearest, shown

SECOND_NS = 1_000_000_000
LONGEST_NS = 10 * 365 * 86_400 * SECOND_NS
"""Longest duration: ten years."""
LATEST_NS = 2**63 - 1 - 2 * LONGEST_NS
"""Latest start of a scenario."""

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.([0-9]{1,9}))?Z")

ValueReader = Callable[[Node, Position], Any]
"""Returns the value of a node, or raises UsageError."""


def integer(low: int, high: int) -> ValueReader:
    """Return a reader of an integer within bounds."""

    def read(node: Node, position: Position) -> int:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int):
            raise position.error(f"{_what(node)} is not an integer")
        if not low <= value <= high:
            raise position.error(f"{value} is not between {low} and {high}")
        return value

    return read


def choice(names: Sequence[str]) -> ValueReader:
    """Return a reader of one of several names."""

    def read(node: Node, position: Position) -> str:
        text = text_of(node, position)
        if text not in names:
            raise position.error(f"{shown(text)} is unknown", nearest(text, names))
        return text

    return read


def flag(node: Node, position: Position) -> bool:
    """Return true or false."""
    if not isinstance(node.value, bool):
        raise position.error(f"{_what(node)} is neither true nor false")
    return node.value


def duration(node: Node, position: Position) -> int:
    """Return a duration in nanoseconds, written as ``90s``, ``1.5ms`` or ``0s``."""
    text = text_of(node, position)
    nanoseconds = parse_duration(text)
    if nanoseconds is None or nanoseconds > LONGEST_NS:
        raise position.error(f"{shown(text)} is not a duration", "write for example 500ms or 2s")
    return nanoseconds


def time(node: Node, position: Position) -> int:
    """Return a time in nanoseconds since the epoch, written as ``2026-01-31T14:05:07.25Z``."""
    text = text_of(node, position)
    parsed = _TIME.fullmatch(text)
    try:
        if parsed is None:
            raise ValueError
        seconds = datetime.fromisoformat(f"{text[:19]}+00:00")
    except ValueError:
        raise position.error(
            f"{shown(text)} is not a time", "write for example 2026-01-31T14:05:07Z"
        ) from None
    whole = int((seconds - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    if not 0 <= whole * SECOND_NS <= LATEST_NS:
        raise position.error(f"{shown(text)} is outside of the years 1970 to 2240")
    return whole * SECOND_NS + int((parsed[1] or "0").ljust(9, "0"))


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known keys."""

    keys: Mapping[str, ValueReader]
    required: tuple[str, ...] = ()
    make: Callable[[dict[str, Any], Position], Any] = lambda values, position: values

    def read(self, node: Node, position: Position) -> Any:
        """Return the object that `make` returns for the values by key."""
        return self.make(self.values(mapping_of(node, position), position), position)

    def values(self, nodes: Mapping[str, Node], position: Position) -> dict[str, Any]:
        """Return the values by key."""
        values: dict[str, Any] = {}
        for name, value in nodes.items():
            read = self.keys.get(name)
            if read is None:
                raise position.key(name, value.line).error("unknown key", nearest(name, self.keys))
            values[name] = read(value, position.key(name, value.line))
        for name in self.required:
            if name not in values:
                raise position.error(f"the key {name} is missing")
        return values


def text_of(node: Node, position: Position) -> str:
    """Return a value as text. Raises UsageError for a list or a mapping."""
    value = node.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise position.error(f"{_what(node)} is not a text")


def mapping_of(node: Node, position: Position) -> dict[str, Node]:
    """Return the entries of a mapping. Raises UsageError for other values."""
    if not isinstance(node.value, dict):
        raise position.error(f"{_what(node)} is not a mapping", "write KEY: VALUE")
    return node.value


def list_of(node: Node, position: Position) -> list[Node]:
    """Return the items of a list. Raises UsageError for other values."""
    if not isinstance(node.value, list):
        raise position.error(f"{_what(node)} is not a list")
    return node.value


def _what(node: Node) -> str:
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, list):
        return "a list"
    return shown(node.value)
