# SPDX-License-Identifier: Apache-2.0
"""Types of a spec, and functions that edit copies of its parts."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeAlias

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
"""A JSON value; the order of an object's keys is preserved."""

Spec: TypeAlias = "dict[str, Json]"
"""An OCI runtime spec (``config.json``), a part of one, or an object in it. Never modified in
place, except copies that are being edited.
"""


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = 0


ABSENT: Final = Absent.ABSENT
"""A missing value; None is a JSON null."""


def copy_object(parent: Spec, name: str) -> Spec:
    """Replace the object `name` of `parent` by a copy, {} if it is missing; return the copy."""
    old = parent.get(name)
    new: Spec = dict(old) if isinstance(old, dict) else {}
    parent[name] = new
    return new


def copy_array(parent: Spec, name: str) -> list[Json]:
    """Replace the array `name` of `parent` by a copy, [] if it is missing; return the copy."""
    old = parent.get(name)
    new: list[Json] = list(old) if isinstance(old, list) else []
    parent[name] = new
    return new


def text_at(name: str) -> Callable[[Json], str | None]:
    """Return a function that returns the text under `name` in an object, or None."""

    def key_of(item: Json) -> str | None:
        value = item.get(name) if isinstance(item, dict) else None
        return value if isinstance(value, str) else None

    return key_of


def set_or_remove(parent: Spec, name: str, value: Json) -> None:
    """Set `name`, or remove it if `value` is None. `parent` must be a copy."""
    if value is None:
        parent.pop(name, None)
    else:
        parent[name] = value


def drop_empty(parent: Spec, name: str) -> None:
    """Remove `name` if it is an empty object or array."""
    if parent.get(name) in ({}, []):
        del parent[name]


def restore_if_unchanged(parent: Spec, name: str, before: Spec) -> None:
    """Restore the original object `name` if the copy from `copy_object` is equal to it.

    `before` is the original of `parent`. A copy that became empty is removed.
    """
    old = before.get(name)
    if parent[name] != (old if isinstance(old, dict) else {}):
        drop_empty(parent, name)
    elif name in before:
        parent[name] = old
    else:
        del parent[name]
