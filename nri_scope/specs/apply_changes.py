# SPDX-License-Identifier: Apache-2.0
"""Apply changes to a spec: the reverse of `changes`.

`patch_of` stores one JSON object as its differences from another (RFC 7396). Unlike the paths of
`changes`, such a patch keeps the structure of the objects, by which redaction finds what is secret.
A null is the same as a missing member, as in OCI specs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .differences import Change, same
from .json_spec import ABSENT, KEYED, SET_BY_FIELD, Absent, Json, Keyed, Spec, items, members, split
from .path_labels import numbered, step


def patch_of(before: Spec, after: Spec) -> Spec:
    """Return the patch that turns ``before`` into ``after``; {} if they are the same."""
    patch: Spec = {
        name: None for name, old in before.items() if old is not None and after.get(name) is None
    }
    for name, value in after.items():
        old = before.get(name, ABSENT)
        if isinstance(value, dict):
            inner = patch_of(old if isinstance(old, dict) else {}, value)
            if inner or not isinstance(old, dict):
                patch[name] = inner
        elif value is not None and (old is ABSENT or not same(old, value)):
            patch[name] = value
    return patch


def patched(before: Spec, patch: Spec) -> Spec:
    """Return ``before`` with a patch applied, as a new object."""
    result = dict(before)
    for name, value in patch.items():
        old = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = patched(old if isinstance(old, dict) else {}, value)
        else:
            result[name] = value
    return result


def apply(before: Spec, changes: Iterable[Change]) -> Spec:
    """Return `before` with `changes` applied, as a new spec that shares unchanged parts.

    ``apply(x, changes(x, y))`` is y except for orders without meaning, which `changes` ignores.
    The changes may also be incomplete or from another spec: a removal or move of a missing value is
    skipped; setting a value creates the missing objects and arrays of its path, and replaces values
    of other types there.
    """
    root = _EditableNode(dict(before), "")
    edits = list(changes)
    emptied: list[_EditableNode] = []
    for change in edits:
        if change.kind == "removed":
            _remove(root, change.path, emptied)
    placed: dict[int, tuple[_EditableNode, list[tuple[int, str]]]] = {}
    for change in edits:
        if change.kind in ("added", "changed"):
            _set(root, change.path, change.after)
        if change.position is not None and change.kind in ("added", "moved"):
            array, label = _parent(root, change.path)
            if array is not None and label in array.members:
                placed.setdefault(id(array), (array, []))[1].append((change.position, label))
    for array, labels in placed.values():
        array.members = _in_place(array.members, labels)
    _drop_emptied(emptied)
    _close(root)
    return root.members


@dataclass(slots=True, eq=False)
class _EditableNode:
    """A copy of an object or array for editing."""

    members: dict[str, Json]
    """Members by key; those of an array by label."""
    place: str | None
    """Path of the object or array; None if it is longer than all paths in `KEYED`."""
    parent: _EditableNode | None = None
    key: str = ""
    is_array: bool = False
    keyed: Keyed | None = None
    """Rules for an array whose labels are keys; None if labels are positions."""
    nodes: dict[str, _EditableNode] = field(default_factory=dict)
    """Members that are being edited, too; their values in `members` are outdated."""

    def node(self, key: str) -> _EditableNode | None:
        """Return the member under `key`; None if it is missing or has no members itself."""
        if key in self.nodes:
            return self.nodes[key]
        value = self.members.get(key)
        path = step(self.place, key)
        if isinstance(value, dict):
            new = _EditableNode(dict(value), path, self, key)
        elif isinstance(value, list):
            keyed = None if path is None else KEYED.get(path)
            entries = members(value, keyed) if keyed else None
            if entries is None:
                entries, keyed = numbered(value), None
            new = _EditableNode(entries, path, self, key, is_array=True, keyed=keyed)
        else:
            return None
        self.nodes[key] = new
        return new

    def make(self, key: str) -> _EditableNode:
        """Replace the member under `key` by an empty object or keyed array, and return it."""
        path = step(self.place, key)
        keyed = None if path is None else KEYED.get(path)
        new = _EditableNode({}, path, self, key, is_array=keyed is not None, keyed=keyed)
        self.nodes[key] = new
        self.members[key] = None
        return new

    def put(self, key: str, value: Json | Absent) -> None:
        """Set or remove the member under `key`."""
        self.nodes.pop(key, None)
        if isinstance(value, Absent):
            self.members.pop(key, None)
        else:
            self.members[key] = value

    def value(self) -> Json:
        """Return the result as JSON."""
        if not self.is_array:
            return self.members
        return items(self.members, self.keyed) if self.keyed else [*self.members.values()]


def _parent(root: _EditableNode, path: str) -> tuple[_EditableNode | None, str]:
    """Return the object or array that contains `path` (None if missing), and the last label."""
    *names, label = split(path) or ("",)
    node: _EditableNode | None = root if path.startswith("/") else None
    for name in names:
        if node is None:
            break
        node = node.node(name)
    return node, label


def _remove(root: _EditableNode, path: str, emptied: list[_EditableNode]) -> None:
    parent, label = _parent(root, path)
    if parent is not None and label in parent.members:
        parent.put(label, ABSENT)
        emptied.append(parent)


def _set(root: _EditableNode, path: str, value: Json) -> None:
    if not path.startswith("/"):
        return
    *names, label = split(path)
    node = root
    for name in names:
        node = node.node(name) or node.make(name)
    node.put(label, value)


def _drop_emptied(emptied: list[_EditableNode]) -> None:
    """Remove objects in `SET_BY_FIELD` and keyed arrays whose last member was removed."""
    for node in emptied:
        while (
            (parent := node.parent) is not None
            and not node.members
            # Unless an empty value was set explicitly.
            and parent.nodes.get(node.key) is node
            and node.place in (KEYED if node.is_array else SET_BY_FIELD)
        ):
            parent.put(node.key, ABSENT)
            node = parent


def _in_place(members: dict[str, Json], placed: list[tuple[int, str]]) -> dict[str, Json]:
    """Return `members` with the `placed` ones at their positions and the others around them."""
    moving = {label for _, label in placed}
    staying = [label for label in members if label not in moving]
    order: list[str] = []
    start = 0
    for position, label in sorted(placed):
        end = start + max(0, position - len(order))
        order += staying[start:end]
        start = min(end, len(staying))
        order.append(label)
    return {label: members[label] for label in order + staying[start:]}


def _close(root: _EditableNode) -> None:
    """Write the edited members back into their parents in `members`."""
    order = [root]
    for node in order:
        order.extend(node.nodes.values())
    for node in reversed(order):
        if node.parent is not None:
            node.parent.members[node.key] = node.value()
