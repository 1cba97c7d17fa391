# SPDX-License-Identifier: Apache-2.0
"""A spec as the lines that somebody would read, with room for what is not there any more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from nri_scope.oci import Json, Spec, pointer, split
from nri_scope.oci.lists import KEYED, members

MAX_DEPTH = 16
"""Levels that get lines of their own; what is deeper is one value. Real specs have seven."""

_ENV = "/process/env"
_COUNT = re.compile(r"#\d+$")


@dataclass(slots=True)
class Node:
    """One value of a spec, with the values in it that have lines of their own."""

    path: str
    label: str
    """Its key, or what stands for it in a path where it is a member of an array."""
    member: bool
    """Of an array."""
    value: Json
    """As changes tell it: ``bar`` of an environment variable."""
    written: Json
    """As a spec has it: ``FOO=bar``."""
    there: bool = True
    """False for what is gone, or was asked for and never came."""
    below: list[Node] = field(default_factory=list)

    @property
    def is_leaf(self) -> bool:
        """Whether it is one value on one line; what is gone can still be below it."""
        return not any(node.there for node in self.below)


def tree(spec: Spec) -> dict[str, Node]:
    """All nodes by their paths, in document order; the first is the spec itself, at ""."""
    root = Node("", "", False, spec, spec)
    found: dict[str, Node] = {}
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        found[node.path] = node
        if depth <= MAX_DEPTH:
            node.below = _below(node)
            waiting += ((below, depth + 1) for below in reversed(node.below))
    return found


def _below(node: Node) -> list[Node]:
    """What has lines of its own in a value: an object's fields, a keyed array's members."""
    value = node.written
    if isinstance(value, dict):
        return [
            Node(pointer(node.path, name), name, False, each, each) for name, each in value.items()
        ]
    keyed = KEYED.get(node.path)
    if keyed is None or not isinstance(value, list):
        return []
    found = members(value, keyed)
    if found is None:
        return []
    below = [
        Node(pointer(node.path, label), label, True, each, written)
        for (label, each), written in zip(found.items(), value, strict=True)
    ]
    for member in below:
        _key_first(member)
    return below


def put_back(nodes: dict[str, Node], gone: Iterable[tuple[str, Json]]) -> None:
    """Give nodes to values that are not in the spec, behind what is still there beside them."""
    for path, value in gone:
        node = nodes.get(path) or _missing(nodes, path)
        if not node.there:
            node.value = value
            node.written = _written(path, node.label, value)


def _missing(nodes: dict[str, Node], path: str) -> Node:
    """A node at a path that the spec does not have, with all that leads there."""
    missing: list[str] = []
    while path not in nodes:
        missing.append(path)
        path = path.rpartition("/")[0]
    node = nodes[path]
    for path in reversed(missing):
        label = split(path)[-1]
        new = Node(path, label, node.path in KEYED, None, None, there=False)
        node.below.append(new)
        nodes[path] = node = new
    return node


def _written(path: str, label: str, value: Json) -> Json:
    if path.rpartition("/")[0] != _ENV:
        return value
    name = _COUNT.sub("", label)
    return name if value is None else f"{name}={value}"


def _key_first(member: Node) -> None:
    """What a member is known by, in front: ``destination`` of a mount."""
    if isinstance(member.written, dict):
        name = _COUNT.sub("", member.label)
        fields = sorted(member.written.items(), key=lambda field: field[1] != name)
        member.value = member.written = dict(fields)
