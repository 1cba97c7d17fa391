# SPDX-License-Identifier: Apache-2.0
"""The values of a spec as a tree of nodes, with removed values among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nri_scope.specs import Json, Spec, pointer, split
from nri_scope.specs.json_spec import KEYED, key_of, members

MAX_DEPTH = 16
"""Number of levels with one line per value; deeper values share a line. Real specs have seven."""

_ENV = "/process/env"


@dataclass(slots=True)
class SpecNode:
    """A value of a spec, with the nodes of its parts."""

    path: str
    label: str
    """The key, or the label of an array's member in paths."""
    member: bool
    """Whether the value is a member of an array."""
    value: Json
    """The value as in changes: ``bar`` of an environment variable."""
    written: Json
    """The value as in a spec: ``FOO=bar``."""
    exists: bool = True
    """Whether the value exists; False for removed values, and for requested ones not applied."""
    below: list[SpecNode] = field(default_factory=list)

    @property
    def is_leaf(self) -> bool:
        """Whether the value takes a single line; only removed values can be below it."""
        return not any(node.exists for node in self.below)


def tree(spec: Spec) -> dict[str, SpecNode]:
    """Return all nodes by their paths, in document order; the first is the spec itself, at ""."""
    root = SpecNode("", "", False, spec, spec)
    nodes: dict[str, SpecNode] = {}
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        nodes[node.path] = node
        if depth <= MAX_DEPTH:
            node.below = _below(node)
            waiting += ((below, depth + 1) for below in reversed(node.below))
    return nodes


def _below(node: SpecNode) -> list[SpecNode]:
    """Return the nodes of a value's parts: fields of an object, or members of a keyed array."""
    value = node.written
    if isinstance(value, dict):
        return [
            SpecNode(pointer(node.path, name), name, False, each, each)
            for name, each in value.items()
        ]
    keyed = KEYED.get(node.path)
    if keyed is None or not isinstance(value, list):
        return []
    by_label = members(value, keyed)
    if by_label is None:
        return []
    below = [
        SpecNode(pointer(node.path, label), label, True, each, written)
        for (label, each), written in zip(by_label.items(), value, strict=True)
    ]
    for member in below:
        _key_first(member)
    return below


def put_back(nodes: dict[str, SpecNode], gone: Iterable[tuple[str, Json]]) -> None:
    """Add nodes for values that are not in the spec, after their siblings in the spec."""
    for path, value in gone:
        node = nodes.get(path) or _missing(nodes, path)
        if not node.exists:
            node.value = value
            node.written = _written(path, node.label, value)


def _missing(nodes: dict[str, SpecNode], path: str) -> SpecNode:
    """Add and return a node at a path that is not in the spec, with its missing parents."""
    missing: list[str] = []
    while path not in nodes:
        missing.append(path)
        path = path.rpartition("/")[0]
    node = nodes[path]
    for path in reversed(missing):
        label = split(path)[-1]
        new = SpecNode(path, label, node.path in KEYED, None, None, exists=False)
        node.below.append(new)
        nodes[path] = node = new
    return node


def _written(path: str, label: str, value: Json) -> Json:
    if path.rpartition("/")[0] != _ENV:
        return value
    name = key_of(label)
    return name if value is None else f"{name}={value}"


def _key_first(member: SpecNode) -> None:
    """Move the field that identifies a member to the front: "destination" of a mount."""
    if isinstance(member.written, dict):
        name = key_of(member.label)
        fields = sorted(member.written.items(), key=lambda field: field[1] != name)
        member.value = member.written = dict(fields)
