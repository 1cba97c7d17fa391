# SPDX-License-Identifier: Apache-2.0
"""Parse YAML from untrusted input: bounded, without aliases, with line numbers.

The tree is built from the parser's events, with limited depth. Most implicit types of YAML 1.1 are
not applied: only ``true``, ``false`` and integers are typed, other scalars are text (``no``,
``2026-11-21``, ``0755``, ``1.10``). The caller decides what tags mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from nri_scope.errors import UsageError

from .yaml_text import Tagged

if TYPE_CHECKING:
    import yaml

MAX_BYTES = 16 << 20
"""Maximum size of a document in bytes; callers check it before they decode the text. A golden of
10,000 events with an adjustment each has a quarter of it."""
MAX_DEPTH = 100
"""Maximum depth. The deepest reply of the API needs 15; unknown groups may add levels."""
MAX_VALUES = 1_000_000
MAX_TAGS = 100_000

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,19}", re.ASCII)
_TRUTHS = {"true": True, "false": False}
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_T = TypeVar("_T")
_TEXT_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
_PLAIN_TAGS = _TEXT_TAGS | {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


ParseTag = Callable[[str, str], Tagged]
"""Return the value of a tag with its argument; raise UsageError for an unknown tag."""
YamlTree: TypeAlias = "bool | int | str | Tagged | list[YamlTree] | dict[str, YamlTree]"
"""A document without line numbers."""


class MalformedYaml(UsageError):
    """Syntax error at ``line``, from 1; 0 if it concerns the whole file."""

    def __init__(self, line: int, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.args = (line, problem, hint)
        self.line = line


@dataclass(frozen=True, slots=True)
class Node:
    """Value of the document, with the line of its key or else its own."""

    line: int
    value: bool | int | str | Tagged | list[Node] | dict[str, Node]

    def tree(self) -> YamlTree:
        """Return the value without line numbers."""
        if isinstance(self.value, dict):
            return {key: node.tree() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.tree() for node in self.value]
        return self.value


def parse_yaml(text: str, parse_tag: ParseTag | None = None) -> Node:
    """Parse the only document in ``text``. Raises only MalformedYaml.

    Without ``parse_tag``, tags other than those of text, lists and mappings are refused.
    """
    return build_from_events(text, lambda events: _TreeBuilder(events, parse_tag).document())


def build_from_events(text: str, build: Callable[[Iterator[yaml.Event]], _T]) -> _T:
    """Return what ``build`` makes of the parser's events; errors are MalformedYaml."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return build(yaml.parse(text, Loader=loader))
    except MalformedYaml:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        hint = "put a space after a tag" if "a tag" in str(error.context) else ""
        raise MalformedYaml(mark.line + 1 if mark else 0, _words(error.problem), hint) from None
    except yaml.reader.ReaderError as error:
        invalid = yaml.reader.Reader.NON_PRINTABLE.search(text)
        line = text.count("\n", 0, invalid.start()) + 1 if invalid else 0
        raise MalformedYaml(line, _words(error.reason)) from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # Includes errors of int() for numbers in directives.
        raise MalformedYaml(0, _words(error)) from None


def _words(problem: object) -> str:
    return f"not YAML: {' '.join(str(problem).split())[:200]}"


class _TreeBuilder:
    def __init__(self, events: Iterator[yaml.Event], parse_tag: ParseTag | None) -> None:
        self._events = events
        self._parse_tag = parse_tag
        self._values = 0
        self._tags = 0

    def document(self) -> Node:
        import yaml

        root: Node | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise MalformedYaml(_line(event), "there is a second document")
                root = self._node(next(self._events), 0)
        if root is None:
            raise MalformedYaml(0, "the file is empty")
        return root

    def _node(self, event: yaml.Event, depth: int) -> Node:
        import yaml

        line = _line(event)
        self._values += 1
        if self._values > MAX_VALUES:
            raise MalformedYaml(line, f"more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise MalformedYaml(line, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise MalformedYaml(
                line, "anchors and aliases are not supported", "write the value out"
            )
        match event:
            case yaml.ScalarEvent():
                return Node(line, self._scalar(event, line))
            case yaml.SequenceStartEvent():
                _check_untagged(event.tag, line)
                return Node(line, self._sequence(depth + 1))
            case yaml.MappingStartEvent():
                _check_untagged(event.tag, line)
                return Node(line, self._mapping(depth + 1))
        raise MalformedYaml(line, "a value is missing")

    def _sequence(self, depth: int) -> list[Node]:
        import yaml

        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth))
        return items

    def _mapping(self, depth: int) -> dict[str, Node]:
        import yaml

        entries: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = _line(event)
            if not isinstance(event, yaml.ScalarEvent) or event.anchor:
                raise MalformedYaml(line, "a key is not plain text")
            _check_untagged(event.tag, line)
            key: str = event.value
            if key in entries:
                raise MalformedYaml(line, f"the key {key[:80]!r} is listed twice")
            # Report the line of the key, not that of its value.
            entries[key] = replace(self._node(next(self._events), depth), line=line)
        return entries

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> bool | int | str | Tagged:
        value: str = event.value
        tag: str | None = event.tag
        if tag in _TEXT_TAGS or (tag is None and event.style):
            return value
        if tag is not None:
            self._tags += 1
            if self._tags > MAX_TAGS:
                raise MalformedYaml(line, f"more than {MAX_TAGS} tags")
            if self._parse_tag is None:
                raise MalformedYaml(line, f"the tag {tag[:80]!r} is not supported", "remove it")
            try:
                return self._parse_tag(tag, value)
            except UsageError as error:
                raise MalformedYaml(line, error.problem, error.hint) from None
        if value in _NOTHING:
            raise MalformedYaml(
                line, "a value is missing", "remove the line, or write '' for an empty text"
            )
        if value in _TRUTHS:
            return _TRUTHS[value]
        return int(value) if _INTEGER.fullmatch(value) else value


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return mark.line + 1 if mark else 0


def _check_untagged(tag: str | None, line: int) -> None:
    if tag is not None and tag not in _PLAIN_TAGS:
        raise MalformedYaml(
            line,
            f"{tag[:80]!r} precedes a key, a list or a mapping",
            "a tag replaces the whole value",
        )
