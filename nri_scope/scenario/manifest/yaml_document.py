# SPDX-License-Identifier: Apache-2.0
"""Read YAML and JSON as ``kubectl`` does, with the line of each value and with limits.

Types are those of kubectl's parser (sigs.k8s.io/yaml, YAML 1.1): ``yes`` is a truth value, ``0644``
an octal number, ``1.10`` a number. Anchors may be used; each use counts as a copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from nri_scope.text.yaml_reader import MalformedYaml, build_from_events

if TYPE_CHECKING:
    import yaml

MAX_CHARACTERS = 16 << 20
"""Maximum size: ten times that of 500 pods as written by ``kubectl get -o yaml``."""
MAX_DEPTH = 60
MAX_VALUES = 1_000_000

Scalar: TypeAlias = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class ManifestValue:
    """Value with its line, from 1. ``text`` is a scalar as written."""

    line: int
    value: Scalar | list[ManifestValue] | dict[str, ManifestValue]
    text: str = ""


def parse_documents(text: str) -> list[ManifestValue]:
    """Return the documents in ``text`` but the empty ones. Raises only MalformedYaml."""
    if len(text) > MAX_CHARACTERS:
        raise MalformedYaml(0, f"longer than {MAX_CHARACTERS >> 20} MiB")
    if text.lstrip().startswith("{"):
        text = _json_as_yaml(text)
    return build_from_events(text, lambda events: list(_TreeBuilder(events).documents()))


_TWO_ESCAPES = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)


def _json_as_yaml(text: str) -> str:
    """Return JSON without what YAML forbids: tabs between tokens, characters as two escapes."""
    return _TWO_ESCAPES.sub(
        lambda found: f"{found[1]}\\U{_code_point(found[2], found[3]):08x}",
        # Strings of JSON contain no tabs.
        text.replace("\t", " "),
    )


def _code_point(high: str, low: str) -> int:
    return 0x10000 + (int(high, 16) - 0xD800 << 10) + int(low, 16) - 0xDC00


@dataclass(frozen=True, slots=True)
class _Tree:
    """A finished value, its number of values and its height."""

    node: ManifestValue
    size: int
    height: int


class _TreeBuilder:
    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self._anchors: dict[str, _Tree] = {}
        self._values = 0

    def documents(self) -> Iterator[ManifestValue]:
        import yaml

        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()
                node = self._tree(next(self._events), 0).node
                if node.value is not None:
                    yield node

    def _tree(self, event: yaml.Event, depth: int) -> _Tree:
        import yaml

        line = _line(event)
        anchor: str | None = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            tree = self._anchors.get(anchor or "")
            if tree is None:
                raise MalformedYaml(line, f"{str(anchor)[:80]!r} is no earlier anchor")
            self._count(tree.size, depth + tree.height, line)
            return tree
        self._count(1, depth, line)
        before = self._values
        height = 0
        value: Scalar | list[ManifestValue] | dict[str, ManifestValue]
        text = ""
        match event:
            case yaml.ScalarEvent():
                text = _checked(event.value, line)
                value = _scalar(event, text, line)
            case yaml.SequenceStartEvent():
                value, height = self._sequence(depth + 1)
            case yaml.MappingStartEvent():
                value, height = self._mapping(depth + 1)
            case _:
                raise MalformedYaml(line, "a value is missing")
        tree = _Tree(ManifestValue(line, value, text), self._values - before + 1, height)
        if anchor:
            self._anchors[anchor] = tree
        return tree

    def _count(self, values: int, depth: int, line: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise MalformedYaml(line, f"more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise MalformedYaml(line, f"nested deeper than {MAX_DEPTH} levels")

    def _sequence(self, depth: int) -> tuple[list[ManifestValue], int]:
        import yaml

        trees: list[_Tree] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            trees.append(self._tree(event, depth))
        return [tree.node for tree in trees], 1 + max((tree.height for tree in trees), default=0)

    def _mapping(self, depth: int) -> tuple[dict[str, ManifestValue], int]:
        import yaml

        entries: dict[str, ManifestValue] = {}
        height = 0
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = _line(event)
            if not isinstance(event, yaml.ScalarEvent) or event.anchor:
                raise MalformedYaml(line, "a key is not plain text")
            key = _checked(event.value, line)
            if key == "<<" and not event.style:
                raise MalformedYaml(line, "merge keys are not supported", "write the values out")
            if key in entries:
                raise MalformedYaml(line, f"the key {key[:80]!r} is listed twice")
            tree = self._tree(next(self._events), depth)
            # Report the line of the key, not that of its value.
            entries[key] = ManifestValue(line, tree.node.value, tree.node.text)
            height = max(height, tree.height)
        return entries, 1 + height


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return mark.line + 1 if mark else 0


def _checked(text: str, line: int) -> str:
    """Return a text, but refuse halves of characters, which some parsers pass on."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise MalformedYaml(line, "not YAML: half of a character")
    return text


_STRING_TAG = "tag:yaml.org,2002:str"
_KNOWN_TAGS = {
    f"tag:yaml.org,2002:{name}": kind
    for name, kind in (("bool", bool), ("int", int), ("float", float), ("null", type(None)))
}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTHS = {
    spelling: truth
    for truth, words in ((True, "y yes true on"), (False, "n no false off"))
    for word in words.split()
    for spelling in (word, word.capitalize(), word.upper())
}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_INTEGER = re.compile(
    r"[-+]?(?:0b[01]+|0o[0-7]+|0x[0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", re.ASCII | re.IGNORECASE
)
_MAX_DIGITS = 64


def _scalar(event: yaml.ScalarEvent, text: str, line: int) -> Scalar:
    tag: str | None = event.tag
    if tag in (_STRING_TAG, "!") or (tag is None and event.style):
        return text
    if tag is not None and tag not in _KNOWN_TAGS:
        raise MalformedYaml(line, f"the tag {tag[:80]!r} is not supported")
    value = _plain(text)
    if tag is not None and not isinstance(value, _KNOWN_TAGS[tag]):
        raise MalformedYaml(line, f"{text[:80]!r} does not fit its tag")
    return value


def _plain(text: str) -> Scalar:
    """Return the value of a scalar without quotes, as goyaml.v2 resolves it."""
    if text in _NULLS:
        return None
    if text in _TRUTHS:
        return _TRUTHS[text]
    digits = text.replace("_", "")
    if len(digits) <= _MAX_DIGITS:
        if _INTEGER.fullmatch(digits):
            return _integer(digits)
        if _FLOAT.fullmatch(digits):
            return float(digits)
    return text


def _integer(digits: str) -> int:
    sign = -1 if digits[0] == "-" else 1
    digits = digits.lstrip("+-").lower()
    base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2])
    if base:
        return sign * int(digits[2:], base)
    return sign * int(digits, 8 if digits[0] == "0" and len(digits) > 1 else 10)
