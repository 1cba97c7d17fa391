# SPDX-License-Identifier: Apache-2.0
"""Another form of a spec, that changes can be applied to: leaves by path, members by order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nri_scope.oci import Change, Json, Spec, pointer, same
from nri_scope.oci.lists import KEYED, OPEN, members


@dataclass
class Flat:
    """Empty objects and arrays, and arrays without keyed members, are leaves too."""

    leaves: dict[str, Json] = field(default_factory=dict)
    arrays: dict[str, list[str]] = field(default_factory=dict)
    """Labels of the members of each keyed array that has any."""

    def put(self, path: str, value: Json) -> None:
        keyed = KEYED.get(path)
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                self.put(pointer(path, key), inner)
        elif keyed and isinstance(value, list) and value and (found := members(value, keyed)):
            self.arrays[path] = list(found)
            for label, member in found.items():
                self.put(pointer(path, label), member)
        else:
            self.leaves[path] = value

    def drop(self, path: str) -> None:
        for kept in (self.leaves, self.arrays):
            for each in [p for p in kept if p == path or p.startswith(f"{path}/")]:
                del kept[each]

    def holds(self, path: str) -> bool:
        return any(p == path or p.startswith(f"{path}/") for p in self.leaves)

    def equals(self, other: Flat) -> bool:
        if self.leaves.keys() != other.leaves.keys() or self.arrays.keys() != other.arrays.keys():
            return False
        for path, labels in self.arrays.items():
            theirs = other.arrays[path]
            if (KEYED[path].ordered and labels != theirs) or sorted(labels) != sorted(theirs):
                return False
        return all(same(value, other.leaves[path]) for path, value in self.leaves.items())


def flatten(spec: Spec) -> Flat:
    flat = Flat()
    if spec:
        flat.put("", spec)
    return flat


def apply(before: Spec, changes: Iterable[Change]) -> Flat:
    """What `changes` make of `before`, by what their documentation says of them alone."""
    flat = flatten(before)
    changes = list(changes)
    for change in changes:
        if change.kind == "removed":
            _remove(flat, change)
    placed: dict[str, list[tuple[int, str]]] = {}
    for change in changes:
        parent, _, escaped = change.path.rpartition("/")
        label = escaped.replace("~1", "/").replace("~0", "~")
        if change.kind == "changed":
            flat.drop(change.path)
            flat.put(change.path, change.after)
        elif change.kind == "added":
            _make_room(flat, change.path, parent, label)
            flat.put(change.path, change.after)
        if change.at is not None:
            placed.setdefault(parent, []).append((change.at, label))
    for parent, moved in placed.items():
        labels = [each for each in flat.arrays[parent] if each not in {label for _, label in moved}]
        for position, label in sorted(moved):
            labels.insert(position, label)
        flat.arrays[parent] = labels
    return flat


def _remove(flat: Flat, change: Change) -> None:
    path = change.path
    flat.drop(path)
    while path:
        path, _, escaped = path.rpartition("/")
        label = escaped.replace("~1", "/").replace("~0", "~")
        is_array = label in flat.arrays.get(path, ())
        if is_array:
            flat.arrays[path].remove(label)
        if flat.holds(path):
            return
        flat.drop(path)
        # An object that is told by its fields, and an array, is gone with the last of them.
        if not is_array and path not in OPEN:
            flat.leaves[path] = {}
            return


def _make_room(flat: Flat, path: str, parent: str, label: str) -> None:
    flat.drop(path)
    was_object = parent in flat.leaves and flat.leaves[parent] == {}
    fresh = not flat.holds(parent) or flat.leaves.get(parent) == []
    if parent in KEYED and (parent in flat.arrays or (fresh and not was_object)):
        flat.arrays.setdefault(parent, []).append(label)
    while parent:
        flat.leaves.pop(parent, None)
        parent = parent.rpartition("/")[0]
