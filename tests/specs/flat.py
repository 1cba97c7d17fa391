# SPDX-License-Identifier: Apache-2.0
"""Flattened specs for comparison: leaf values by path, and the order of array members."""

from __future__ import annotations

from dataclasses import dataclass, field

from nri_scope.specs import Json, Spec, pointer, same
from nri_scope.specs.json_spec import KEYED, members


@dataclass
class Flat:
    """Flattened spec; leaves include empty objects and arrays, and arrays without keys."""

    leaves: dict[str, Json] = field(default_factory=dict)
    arrays: dict[str, list[str]] = field(default_factory=dict)
    """Labels of the members of each non-empty keyed array."""

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
