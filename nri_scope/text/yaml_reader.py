# SPDX-License-Identifier: Apache-2.0
"""Parse YAML from untrusted input: bounded, with line numbers.

`TreeBuilder` makes trees of the parser's events. `parse_yaml` reads scenarios and goldens, without
aliases. There, most implicit types of YAML 1.1 are not applied: only ``true``, ``false`` and
integers are typed, other scalars are text (``no``, ``2026-11-21``, ``0755``, ``1.10``). The caller
decides what tags mean.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

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
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
"""Scalars without quotes that mean no value."""
_T = TypeVar("_T")
_Scalar = TypeVar("_Scalar")
_TEXT_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
_PLAIN_TAGS = _TEXT_TAGS | {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


ParseTag = Callable[[str, str], Tagged]
"""Return the value of a tag with its argument; raise UsageError for an unknown tag."""


class MalformedYaml(UsageError):
    """Syntax error at ``line``, from 1; 0 if it concerns the whole file."""

    def __init__(self, line: int, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.args = (line, problem, hint)
        self.line = line


# Not frozen: with slots, calls of an alias such as `Node` would fail.
@dataclass(slots=True)
class YamlNode(Generic[_Scalar]):
    """Value of a document, with the line of its key or else its own, from 1."""

    line: int
    value: _Scalar | list[YamlNode[_Scalar]] | dict[str, YamlNode[_Scalar]]
    text: str = field(default="", compare=False, repr=False)
    """A scalar as written."""

    def tree(self) -> Any:
        """Return the value without line numbers."""
        if isinstance(self.value, dict):
            return {key: node.tree() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.tree() for node in self.value]
        return self.value


Node: TypeAlias = YamlNode[bool | int | str | Tagged]
"""Value of a scenario or a golden; see the module for its types."""


def parse_yaml(text: str, parse_tag: ParseTag | None = None) -> Node:
    """Parse the only document in ``text``. Raises only MalformedYaml.

    Without ``parse_tag``, tags other than those of text, lists and mappings are refused.
    """
    return build_from_events(text, lambda events: _SingleDocument(events, parse_tag).document())


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
        raise MalformedYaml(mark.line + 1 if mark else 0, _reason(error.problem), hint) from None
    except yaml.reader.ReaderError as error:
        invalid = yaml.reader.Reader.NON_PRINTABLE.search(text)
        line = text.count("\n", 0, invalid.start()) + 1 if invalid else 0
        raise MalformedYaml(line, _reason(error.reason)) from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # Includes errors of int() for numbers in directives.
        raise MalformedYaml(0, _reason(error)) from None


def _reason(problem: object) -> str:
    return f"not YAML: {' '.join(str(problem).split())[:200]}"


@dataclass(frozen=True, slots=True)
class _Anchored(Generic[_Scalar]):
    """A value with an anchor; each alias counts as a copy of its values and their depth."""

    node: YamlNode[_Scalar]
    values: int
    height: int


class TreeBuilder(ABC, Generic[_Scalar]):
    """Build trees from the parser's events, within limits; subclasses decide what scalars mean."""

    max_depth = MAX_DEPTH
    has_aliases = False
    """Whether anchors and aliases are supported."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self._anchors: dict[str, _Anchored[_Scalar]] = {}
        self._values = 0
        self._deepest = 0

    @abstractmethod
    def scalar(self, event: yaml.ScalarEvent, text: str, line: int) -> _Scalar:
        """Return the value of a scalar."""

    @abstractmethod
    def check_key(self, event: yaml.ScalarEvent, line: int) -> None:
        """Raise MalformedYaml for a scalar that is no key."""

    def check_tag(self, tag: str | None, line: int) -> None:
        """Raise MalformedYaml for an unknown tag of a list or a mapping."""

    def documents(self) -> Iterator[tuple[int, YamlNode[_Scalar]]]:
        """Yield the documents, with the lines where they start."""
        import yaml

        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()
                yield _line(event), self._node(next(self._events), 0)

    def _node(self, event: yaml.Event, depth: int) -> YamlNode[_Scalar]:
        import yaml

        line = _line(event)
        anchor: str | None = getattr(event, "anchor", None)
        if anchor and not self.has_aliases:
            raise MalformedYaml(
                line, "anchors and aliases are not supported", "write the value out"
            )
        if isinstance(event, yaml.AliasEvent):
            anchored = self._anchors.get(anchor or "")
            if anchored is None:
                raise MalformedYaml(line, f"{str(anchor)[:80]!r} is no earlier anchor")
            self._count(anchored.values, depth + anchored.height, line)
            return anchored.node
        self._count(1, depth, line)
        if not anchor:
            return self._new(event, depth, line)
        before, deepest = self._values, self._deepest
        self._deepest = depth
        node = self._new(event, depth, line)
        values, height = self._values - before + 1, self._deepest - depth
        self._anchors[anchor] = _Anchored(node, values, height)
        self._deepest = max(deepest, self._deepest)
        return node

    def _count(self, values: int, depth: int, line: int) -> None:
        self._values += values
        self._deepest = max(self._deepest, depth)
        if self._values > MAX_VALUES:
            raise MalformedYaml(line, f"more than {MAX_VALUES:,} values")
        if depth > self.max_depth:
            raise MalformedYaml(line, f"nested deeper than {self.max_depth} levels")

    def _new(self, event: yaml.Event, depth: int, line: int) -> YamlNode[_Scalar]:
        import yaml

        match event:
            case yaml.ScalarEvent():
                text = _checked(event.value, line)
                return YamlNode(line, self.scalar(event, text, line), text)
            case yaml.SequenceStartEvent():
                self.check_tag(event.tag, line)
                return YamlNode(line, self._sequence(depth + 1))
            case yaml.MappingStartEvent():
                self.check_tag(event.tag, line)
                return YamlNode(line, self._mapping(depth + 1))
        raise MalformedYaml(line, "a value is missing")

    def _sequence(self, depth: int) -> list[YamlNode[_Scalar]]:
        import yaml

        items: list[YamlNode[_Scalar]] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth))
        return items

    def _mapping(self, depth: int) -> dict[str, YamlNode[_Scalar]]:
        import yaml

        entries: dict[str, YamlNode[_Scalar]] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = _line(event)
            if not isinstance(event, yaml.ScalarEvent) or event.anchor:
                raise MalformedYaml(line, "a key is not plain text")
            key = _checked(event.value, line)
            self.check_key(event, line)
            if key in entries:
                raise MalformedYaml(line, f"the key {key[:80]!r} is listed twice")
            node = self._node(next(self._events), depth)
            # Report the line of the key, not that of its value.
            entries[key] = YamlNode(line, node.value, node.text)
        return entries


def _checked(text: str, line: int) -> str:
    """Return a text, but refuse halves of characters, which some parsers pass on."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise MalformedYaml(line, "not YAML: half of a character")
    return text


class _SingleDocument(TreeBuilder[bool | int | str | Tagged]):
    """Builder of scenarios and goldens."""

    def __init__(self, events: Iterator[yaml.Event], parse_tag: ParseTag | None) -> None:
        super().__init__(events)
        self._parse_tag = parse_tag
        self._tags = 0

    def document(self) -> Node:
        """Return the only document."""
        root: Node | None = None
        for line, node in self.documents():
            if root is not None:
                raise MalformedYaml(line, "there is a second document")
            root = node
        if root is None:
            raise MalformedYaml(0, "the file is empty")
        return root

    def check_tag(self, tag: str | None, line: int) -> None:
        """Refuse tags but those of lists and mappings."""
        if tag is not None and tag not in _PLAIN_TAGS:
            raise MalformedYaml(
                line,
                f"{tag[:80]!r} precedes a key, a list or a mapping",
                "a tag replaces the whole value",
            )

    def check_key(self, event: yaml.ScalarEvent, line: int) -> None:
        """Refuse tags but that of text."""
        self.check_tag(event.tag, line)

    def scalar(self, event: yaml.ScalarEvent, text: str, line: int) -> bool | int | str | Tagged:
        """Return the value of a scalar."""
        tag: str | None = event.tag
        if tag in _TEXT_TAGS or (tag is None and event.style):
            return text
        if tag is not None:
            self._tags += 1
            if self._tags > MAX_TAGS:
                raise MalformedYaml(line, f"more than {MAX_TAGS} tags")
            if self._parse_tag is None:
                raise MalformedYaml(line, f"the tag {tag[:80]!r} is not supported", "remove it")
            try:
                return self._parse_tag(tag, text)
            except UsageError as error:
                raise MalformedYaml(line, error.problem, error.hint) from None
        if text in NULLS:
            raise MalformedYaml(
                line, "a value is missing", "remove the line, or write '' for an empty text"
            )
        if text in _TRUTHS:
            return _TRUTHS[text]
        return int(text) if _INTEGER.fullmatch(text) else text


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return mark.line + 1 if mark else 0
