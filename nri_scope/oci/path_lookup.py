# SPDX-License-Identifier: Apache-2.0
"""Look-ups by the paths of a spec."""

from __future__ import annotations

from .lists import KEYED, key_of, members
from .paths import pointer, split
from .spec import ABSENT, Absent, Json, Spec


def value_at(spec: Spec, path: str) -> Json | Absent:
    """Return the value that a `Change` at `path` would have; ABSENT if the path does not exist.

    A member of a keyed array is found by its label (``/process/env/FOO``, which gives the value
    after the "="; ``/mounts/~1data``; ``KEY#2``), one of any other array by its position from 0. ""
    is the whole spec. Accepts any text and any JSON.
    """
    return Lookup(spec).at(path)


class Lookup:
    """Looks up many paths of one spec, which must not change meanwhile."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        # By identity of the array.
        self._labelled: dict[int, dict[str, Json] | None] = {}

    def at(self, path: str) -> Json | Absent:
        """Return the value at a path; see `value_at`."""
        if path and not path.startswith("/"):
            return ABSENT
        value: Json = self._spec
        # None once no keyed array can follow: they are all a few steps from the root.
        place: str | None = ""
        for key in split(path):
            below = value if isinstance(value, dict) else self._members(place, value)
            if below is None or key not in below:
                return ABSENT
            value = below[key]
            place = step(place, key)
        return value

    def _members(self, place: str | None, value: Json) -> dict[str, Json] | None:
        if not isinstance(value, list):
            return None
        if id(value) not in self._labelled:
            self._labelled[id(value)] = labelled(place, value)
        return self._labelled[id(value)]


def namesakes(spec: Spec, path: str) -> list[Json]:
    """Return the values at `path` and, in a keyed array, under the same key: ``KEY``, ``KEY#2`` and
    so on.

    [] if there are none. Their labels depend on each other, so the same value may have another
    label in another spec.
    """
    parent, _, last = path.rpartition("/")
    members_there = labelled(parent, value_at(spec, parent))
    if members_there is None or parent not in KEYED:
        value = value_at(spec, path)
        return [] if isinstance(value, Absent) else [value]
    (label,) = split(f"/{last}")
    return [value for each, value in members_there.items() if key_of(each) == key_of(label)]


def labels_at(spec: Spec, path: str) -> list[str]:
    """Return the labels of the array at `path`, in order; [] for other values."""
    return [*(labelled(path, value_at(spec, path)) or ())]


def labelled(place: str | None, value: Json | Absent) -> dict[str, Json] | None:
    """Return the members of an array by their labels in a path; None for other values.

    `place` is the array's own path, None if it is too long for a keyed array.
    """
    if not isinstance(value, list):
        return None
    keyed = None if place is None else KEYED.get(place)
    found = members(value, keyed) if keyed else None
    return numbered(value) if found is None else found


def numbered(items: list[Json]) -> dict[str, Json]:
    """Return the members of an array that is not keyed, by their positions."""
    return {str(position): item for position, item in enumerate(items)}


def step(place: str | None, key: str) -> str | None:
    """Return the path of the member under `key`; None once it is longer than any with a meaning.

    Keeps the work on a spec of any depth proportional to its size.
    """
    if place is None or len(place) + len(key) >= _LONGEST:
        return None
    return pointer(place, key)


_LONGEST = max(map(len, KEYED)) + 1
