# SPDX-License-Identifier: Apache-2.0
"""Shapes of values in a document: each reads a value strictly, and describes it as JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from nri_scope.filter.quantity import parse_duration
from nri_scope.text.yaml_reader import Node

from .place import Place, nearest, shown

Schema = dict[str, Any]
"""A JSON Schema, or a part of one."""
Definitions = dict[str, Schema]
"""Schemas by name, to which others refer."""

SECOND_NS = 1_000_000_000
LONGEST_NS = 10 * 365 * 86_400 * SECOND_NS
"""Longest duration: ten years."""
LATEST_NS = 2**63 - 1 - 2 * LONGEST_NS
"""Latest start of a scenario."""

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.([0-9]{1,9}))?Z")
_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)/(s|m|h)")
_RATE_UNITS = {"s": 1, "m": 60, "h": 3600}


class Shape(Protocol):
    """A kind of value."""

    def read(self, node: Node, place: Place) -> Any:
        """Return the value of ``node``. Raises ScenarioError."""
        ...

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema, and add the definitions that it refers to."""
        ...


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a mapping."""

    shape: Shape
    help: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """Text; numbers and booleans are accepted as they are written."""

    def read(self, node: Node, place: Place) -> str:
        """Return the text."""
        return text_of(node, place)

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        definitions["text"] = {"type": ["string", "number", "boolean"]}
        return {"$ref": "#/$defs/text"}


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer within bounds."""

    low: int
    high: int

    def read(self, node: Node, place: Place) -> int:
        """Return the number."""
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int):
            raise place.error(f"{_what(node)} is not an integer")
        if not self.low <= value <= self.high:
            raise place.error(f"{value} is not between {self.low} and {self.high}")
        return value

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    def read(self, node: Node, place: Place) -> bool:
        """Return the value."""
        if not isinstance(node.value, bool):
            raise place.error(f"{_what(node)} is neither true nor false")
        return node.value

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several names."""

    names: Sequence[str]

    def read(self, node: Node, place: Place) -> str:
        """Return the name."""
        text = text_of(node, place)
        if text not in self.names:
            raise place.error(f"{shown(text)} is unknown", nearest(text, self.names))
        return text

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        return {"enum": list(self.names)}


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration in nanoseconds, written as ``90s``, ``1.5ms`` or ``0s``."""

    def read(self, node: Node, place: Place) -> int:
        """Return the nanoseconds."""
        text = text_of(node, place)
        found = parse_duration(text)
        if found is None or found > LONGEST_NS:
            raise place.error(f"{shown(text)} is not a duration", "write for example 500ms or 2s")
        return found

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        return {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d)$"}


@dataclass(frozen=True, slots=True)
class Rate:
    """Nanoseconds between two events, written as ``50/s``."""

    def read(self, node: Node, place: Place) -> int:
        """Return the nanoseconds."""
        text = text_of(node, place)
        found = _RATE.fullmatch(text)
        count = float(found[1]) if found else 0.0
        if found is None or not count:
            raise place.error(f"{shown(text)} is not a rate", "write for example 50/s or 10/m")
        return min(LONGEST_NS, round(_RATE_UNITS[found[2]] * SECOND_NS / count))

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        return {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?/(s|m|h)$"}


@dataclass(frozen=True, slots=True)
class Time:
    """A time in nanoseconds since the epoch, written as ``2026-01-31T14:05:07.25Z``."""

    def read(self, node: Node, place: Place) -> int:
        """Return the nanoseconds."""
        text = text_of(node, place)
        found = _TIME.fullmatch(text)
        try:
            if found is None:
                raise ValueError
            seconds = datetime.fromisoformat(f"{text[:19]}+00:00")
        except ValueError:
            raise place.error(
                f"{shown(text)} is not a time", "write for example 2026-01-31T14:05:07Z"
            ) from None
        whole = int((seconds - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
        if not 0 <= whole * SECOND_NS <= LATEST_NS:
            raise place.error(f"{shown(text)} is outside of the years 1970 to 2240")
        return whole * SECOND_NS + int((found[1] or "0").ljust(9, "0"))

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        day, clock = "[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
        return {"type": "string", "pattern": f"^{day}T{clock}Z$"}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one shape."""

    shape: Shape

    def read(self, node: Node, place: Place) -> list[Any]:
        """Return the values."""
        return [
            self.shape.read(item, place.item(number, item.line))
            for number, item in enumerate(list_of(node, place))
        ]

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        return {"type": "array", "items": self.shape.schema(definitions)}


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping from any names to values of one shape."""

    shape: Shape

    def read(self, node: Node, place: Place) -> dict[str, Any]:
        """Return the values by name."""
        return {
            name: self.shape.read(value, place.key(name, value.line))
            for name, value in mapping_of(node, place).items()
        }

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        return {"type": "object", "additionalProperties": self.shape.schema(definitions)}


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known keys."""

    keys: Mapping[str, Key]
    required: tuple[str, ...] = ()
    make: Callable[[dict[str, Any], Place], Any] = lambda values, place: values

    def read(self, node: Node, place: Place) -> Any:
        """Return the object that `make` returns for the values by key."""
        return self.make(self.values(mapping_of(node, place), place), place)

    def values(self, nodes: Mapping[str, Node], place: Place) -> dict[str, Any]:
        """Return the values by key."""
        values: dict[str, Any] = {}
        for name, value in nodes.items():
            key = self.keys.get(name)
            if key is None:
                raise place.key(name, value.line).error("unknown key", nearest(name, self.keys))
            values[name] = key.shape.read(value, place.key(name, value.line))
        for name in self.required:
            if name not in values:
                raise place.error(f"the key {name} is missing")
        return values

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        found: Schema = {
            "type": "object",
            "additionalProperties": False,
            "properties": properties(self.keys, definitions),
        }
        if self.required:
            found["required"] = list(self.required)
        return found


@dataclass(frozen=True, slots=True)
class TextOr:
    """Text, or a value of another shape that is no text."""

    text: Shape
    other: Shape

    def read(self, node: Node, place: Place) -> Any:
        """Return the value of either shape."""
        is_other = isinstance(node.value, dict | list)
        return (self.other if is_other else self.text).read(node, place)

    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema."""
        return {"anyOf": [self.text.schema(definitions), self.other.schema(definitions)]}


def properties(keys: Mapping[str, Key], definitions: Definitions) -> Schema:
    """Return the JSON Schemas of a mapping's keys."""
    return {
        name: {**key.shape.schema(definitions), **({"description": key.help} if key.help else {})}
        for name, key in keys.items()
    }


def text_of(node: Node, place: Place) -> str:
    """Return a value as text. Raises ScenarioError for a list or a mapping."""
    value = node.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise place.error(f"{_what(node)} is not a text")


def mapping_of(node: Node, place: Place) -> dict[str, Node]:
    """Return the entries of a mapping. Raises ScenarioError for other values."""
    if not isinstance(node.value, dict):
        raise place.error(f"{_what(node)} is not a mapping", "write KEY: VALUE")
    return node.value


def list_of(node: Node, place: Place) -> list[Node]:
    """Return the items of a list. Raises ScenarioError for other values."""
    if not isinstance(node.value, list):
        raise place.error(f"{_what(node)} is not a list")
    return node.value


def _what(node: Node) -> str:
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, list):
        return "a list"
    return shown(node.value)
