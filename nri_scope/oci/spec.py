# SPDX-License-Identifier: Apache-2.0
"""The types of a spec: JSON values, and small copies instead of changes in place."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeAlias

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
"""A JSON value; an object's keys keep their order."""

Spec: TypeAlias = "dict[str, Json]"
"""A part of an OCI runtime spec (``config.json``), or one object in it. Never changed in place."""


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = 0


ABSENT: Final = Absent.ABSENT
"""Stands for a missing value, as None is a JSON null."""


def section(parent: Spec, name: str) -> Spec:
    """Copy the object `name` into `parent` and return the copy; {} if there is none."""
    old = parent.get(name)
    new: Spec = dict(old) if isinstance(old, dict) else {}
    parent[name] = new
    return new


def entries(parent: Spec, name: str) -> list[Json]:
    """Copy the array `name` into `parent` and return the copy; [] if there is none."""
    old = parent.get(name)
    new: list[Json] = list(old) if isinstance(old, list) else []
    parent[name] = new
    return new


def text_at(name: str) -> Callable[[Json], str | None]:
    """Return a function for the text under `name` in a member of an array; None if
    there is none.
    """

    def key_of(item: Json) -> str | None:
        value = item.get(name) if isinstance(item, dict) else None
        return value if isinstance(value, str) else None

    return key_of


def place(parent: Spec, name: str, value: Json) -> None:
    """Set `name`, or remove it if `value` is None; `parent` is a copy already."""
    if value is None:
        parent.pop(name, None)
    else:
        parent[name] = value


def drop_empty(parent: Spec, name: str) -> None:
    """Remove `name` if it is an empty object or array."""
    if parent.get(name) in ({}, []):
        del parent[name]


def settle(parent: Spec, name: str, before: Spec) -> None:
    """Finish editing the `section` `name`: restore the original from `before` if it is unchanged.

    `before` is the original of `parent`. A section that became empty is removed.
    """
    old = before.get(name)
    if parent[name] != (old if isinstance(old, dict) else {}):
        drop_empty(parent, name)
    elif name in before:
        parent[name] = old
    else:
        del parent[name]
