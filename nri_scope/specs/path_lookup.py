# SPDX-License-Identifier: Apache-2.0
"""Look up values by their paths in a spec."""

from __future__ import annotations

from functools import lru_cache

from .json_spec import ABSENT, Absent, Json, Spec
from .lists import KEYED, key_of, members
from .paths import pointer, split


def value_at(spec: Spec, path: str) -> Json | Absent:
    """Return the value at the `path` of a `Change`; ABSENT if the path does not exist.

    A member of a keyed array is found by its label (``/process/env/FOO``, with the text after the
    "=" as its value; ``/mounts/~1data``; ``KEY#2``), a member of any other array by its position
    from 0. The path "" is the whole spec. Accepts any text and any JSON.
    """
    if path and not path.startswith("/"):
        return ABSENT
    value: Json = spec
    # None if the path is longer than the paths of all keyed arrays.
    place: str | None = ""
    for key in split(path):
        below = value if isinstance(value, dict) else labelled(place, value)
        if below is None or key not in below:
            return ABSENT
        value = below[key]
        place = step(place, key)
    return value


def values_of_key(spec: Spec, path: str) -> list[Json]:
    """Return the value at `path` or, in a keyed array, all values of that key: "KEY", "KEY#2" and
    so on.

    [] if there are none. The count in a label depends on the other members, so a value can have
    different labels in different specs.
    """
    parent, _, last = path.rpartition("/")
    array = value_at(spec, parent)
    if not isinstance(array, list) or parent not in KEYED:
        value = value_at(spec, path)
        return [] if isinstance(value, Absent) else [value]
    (label,) = split(f"/{last}")
    return _by_key(_Array(array), parent).get(key_of(label), [])


def labels_at(spec: Spec, path: str) -> list[str]:
    """Return the labels of the array at `path`, in order; [] for any other value."""
    return [*(labelled(path, value_at(spec, path)) or ())]


def labelled(place: str | None, value: Json | Absent) -> dict[str, Json] | None:
    """Return the members of an array by their labels in a path; None for any other value.

    `place` is the array's path, None if it is too long for a keyed array. The result is cached and
    must not be modified.
    """
    return _labelled(_Array(value), place) if isinstance(value, list) else None


class _Array:
    """A cache key for an array, compared by identity, as specs are never modified in place."""

    def __init__(self, items: list[Json]) -> None:
        self.items = items

    def __hash__(self) -> int:
        return id(self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Array) and self.items is other.items


# Callers look up one difference of a long array after the other, alternating between a few specs.
@lru_cache(maxsize=8)
def _labelled(array: _Array, place: str | None) -> dict[str, Json]:
    keyed = None if place is None else KEYED.get(place)
    by_label = members(array.items, keyed) if keyed else None
    return numbered(array.items) if by_label is None else by_label


@lru_cache(maxsize=8)
def _by_key(array: _Array, place: str) -> dict[str, list[Json]]:
    by_key: dict[str, list[Json]] = {}
    for label, value in _labelled(array, place).items():
        by_key.setdefault(key_of(label), []).append(value)
    return by_key


def numbered(items: list[Json]) -> dict[str, Json]:
    """Return the members of an array by position, for an array without keys."""
    return {str(position): item for position, item in enumerate(items)}


def step(place: str | None, key: str) -> str | None:
    """Return the path of the member `key` of `place`; None if it is too long for a keyed array.

    The limit keeps the work for a spec of any depth proportional to its size.
    """
    if place is None or len(place) + len(key) >= _LONGEST:
        return None
    return pointer(place, key)


_LONGEST = max(map(len, KEYED)) + 1
