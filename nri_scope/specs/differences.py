# SPDX-License-Identifier: Apache-2.0
"""Differences between two specs, path by path."""

from __future__ import annotations

from bisect import bisect_left
from math import isnan
from typing import Literal, NamedTuple, TypeAlias

from .json_spec import ABSENT, KEYED, SET_BY_FIELD, Absent, Json, Keyed, Spec, members, pointer
from .path_labels import value_at

ChangeKind: TypeAlias = Literal["added", "removed", "changed", "moved"]


class Change(NamedTuple):
    """A difference at one path."""

    path: str
    """A pointer; see `nri_scope.specs.json_spec`."""
    before: Json
    """The old value; None if added (or a JSON null). The old position if moved."""
    after: Json
    """The new value; None if removed (or a JSON null). The new position if moved."""
    kind: ChangeKind
    position: int | None = None
    """Position from 0 in the new array, for an added or moved member if the order matters."""


_Value: TypeAlias = "Json | Absent"
_Pair: TypeAlias = "tuple[str, _Value, _Value]"
_Work: TypeAlias = "list[_Pair | Change]"


def changes(before: Spec, after: Spec) -> tuple[Change, ...]:
    """Return all differences in the order of `before`, followed by new members.

    Accepts any JSON of any depth, and never raises. `apply` can make `after` from `before` with the
    changes, except for orders without meaning (of an object's keys, environment variables, devices
    and similar members).

    An added or removed value is reported by its fields (`SET_BY_FIELD` objects:
    ``/linux/resources/cpu/shares``), by its members (`KEYED` arrays) or as a whole (other values).
    A new order is reported as the smallest number of moves; other changes of moved members are
    separate. The removal of the last member implies the removal of the object or array, unless an
    empty one is reported as added.
    """
    changed: list[Change] = []
    # A work list instead of recursion: a hostile spec may be deeper than Python's stack.
    work: _Work = [("", before, after)]
    while work:
        item = work.pop()
        if isinstance(item, Change):
            changed.append(item)
            continue
        path, old, new = item
        # Only for large values, so that a nested value is not compared again at each depth.
        if old is new or ((path in SET_BY_FIELD or path in KEYED) and _are_equal(old, new)):
            continue
        parts = _members(path, old, new)
        if parts is None:
            parts = _fields(path, old, new)
        if parts is not None:
            work.extend(reversed(parts))
        elif not same(old, new):
            changed.append(whole_change(path, old, new))
    return tuple(changed)


def differences(before: Spec, after: Spec) -> tuple[Change, ...]:
    """Return `changes` for readers: without objects and arrays that are empty only because their
    members were removed. `apply` needs these.
    """
    return tuple(change for change in changes(before, after) if not _is_emptied(change, before))


def _is_emptied(change: Change, before: Spec) -> bool:
    is_empty = change.kind == "added" and change.after in ({}, [])
    return is_empty and value_at(before, change.path) is not ABSENT


def same(left: _Value, right: _Value) -> bool:
    """Return whether two JSON values are equal; True is not equal to 1, but NaN is to NaN."""
    pairs: list[tuple[_Value, _Value]] = [(left, right)]
    while pairs:
        this, other = pairs.pop()
        if isinstance(this, dict) and isinstance(other, dict):
            if this.keys() != other.keys():
                return False
            # Specs share most of their parts.
            pairs += [(each, other[key]) for key, each in this.items() if each is not other[key]]
        elif isinstance(this, list) and isinstance(other, list):
            if len(this) != len(other):
                return False
            pairs += [pair for pair in zip(this, other, strict=True) if pair[0] is not pair[1]]
        elif type(this) is not type(other) or not (this == other or _both_nan(this, other)):
            return False
    return True


def _are_plainly_equal(left: _Value, right: _Value) -> bool:
    """Return whether a shallow comparison shows the equality of two objects."""
    if type(left) is list:
        return bool(left) and all(type(item) is str for item in left) and left == right
    return type(left) is str and left == right


def _are_equal(left: _Value, right: _Value) -> bool:
    """Return whether two values are equal; False if they are nested too deeply to tell."""
    try:
        return left == right and same(left, right)
    except RecursionError:
        # Python's own comparison is recursive.
        return False


def _both_nan(left: _Value, right: _Value) -> bool:
    return isinstance(left, float) and isinstance(right, float) and isnan(left) and isnan(right)


def whole_change(path: str, old: _Value, new: _Value, position: int | None = None) -> Change:
    """Return the change of the whole value at a path; ABSENT for none before or after it."""
    if isinstance(old, Absent):
        return Change(path, None, None if isinstance(new, Absent) else new, "added", position)
    if isinstance(new, Absent):
        return Change(path, old, None, "removed")
    return Change(path, old, new, "changed")


def _fields(path: str, old: _Value, new: _Value) -> _Work | None:
    """Return the work items to compare two objects by field; None if they are not comparable."""
    if isinstance(old, dict):
        if not (isinstance(new, dict) or (new is ABSENT and path in SET_BY_FIELD)):
            return None
    elif not (old is ABSENT and isinstance(new, dict) and path in SET_BY_FIELD):
        return None
    before = old if isinstance(old, dict) else {}
    after = new if isinstance(new, dict) else {}
    work = _emptied(path, old, new) if path in SET_BY_FIELD else []
    for key, value in before.items():
        other = after.get(key, ABSENT)
        if value is not other and not _are_plainly_equal(value, other):
            work.append((pointer(path, key), value, other))
    if len(after) > len(before) or after.keys() - before.keys():
        work += [(pointer(path, k), ABSENT, value) for k, value in after.items() if k not in before]
    return work


def _members(path: str, old: _Value, new: _Value) -> _Work | None:
    """Return the work items to compare two arrays by key; None if they are not comparable."""
    keyed = KEYED.get(path)
    if keyed is None:
        return None
    before, after = _keyed(old, keyed), _keyed(new, keyed)
    if before is None or after is None:
        return None
    moves = _moves(path, before, after) if keyed.ordered else {}
    work: _Work = _emptied(path, old, new)
    for label, value in before.items():
        if label in after:
            if label in moves:
                work.append(moves[label])
            other = after[label]
            if value is not other and not _are_plainly_equal(value, other):
                work.append((pointer(path, label), value, other))
        else:
            work.append(whole_change(pointer(path, label), value, ABSENT))
    for position, (label, value) in enumerate(after.items()):
        if label not in before:
            new_position = position if keyed.ordered else None
            work.append(whole_change(pointer(path, label), ABSENT, value, new_position))
    return work


def _keyed(value: _Value, keyed: Keyed) -> dict[str, Json] | None:
    if value is ABSENT:
        return {}
    return members(value, keyed) if isinstance(value, list) else None


def _emptied(path: str, old: _Value, new: _Value) -> _Work:
    if new in ({}, []) and (old is ABSENT or old) and path:
        return [whole_change(path, ABSENT, new)]
    if old in ({}, []) and new is ABSENT:
        return [whole_change(path, old, ABSENT)]
    return []


def _moves(path: str, before: dict[str, Json], after: dict[str, Json]) -> dict[str, Change]:
    """Return the smallest set of moves, by label, for the new order of common members."""
    if before.keys() == after.keys() and [*before] == [*after]:
        return {}
    old_positions = {label: position for position, label in enumerate(before)}
    common = [
        (label, old_positions[label], position)
        for position, label in enumerate(after)
        if label in old_positions
    ]
    positions = [old for _, old, _ in common]
    if positions == sorted(positions):
        return {}
    stay = _longest_increasing(positions)
    return {
        label: Change(pointer(path, label), old, new, "moved", new)
        for index, (label, old, new) in enumerate(common)
        if index not in stay
    }


def _longest_increasing(numbers: list[int]) -> set[int]:
    """Return the indices of a longest increasing subsequence of distinct `numbers`.

    The algorithm is patience sorting.
    """
    tops: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for index, number in enumerate(numbers):
        pile = bisect_left(tops, number)
        previous.append(ends[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(number)
            ends.append(index)
        else:
            tops[pile] = number
            ends[pile] = index
    increasing: set[int] = set()
    index = ends[-1] if ends else -1
    while index >= 0:
        increasing.add(index)
        index = previous[index]
    return increasing


def inverse(change: Change) -> Change:
    """Return the change back."""
    kinds: dict[ChangeKind, ChangeKind] = {"added": "removed", "removed": "added"}
    return Change(
        change.path, change.after, change.before, kinds.get(change.kind, change.kind), None
    )
