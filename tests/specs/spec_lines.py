# SPDX-License-Identifier: Apache-2.0
"""The lines of a spec in document order, with their paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from nri_scope.specs import Json, Spec, pointer
from nri_scope.specs.path_labels import labelled, step

Form: TypeAlias = Literal["scalar", "object", "array"]


class SpecLine(NamedTuple):
    """Line of a spec: a scalar, or the first line of an object or array."""

    path: str
    """Path as in `changes` and `value_at`. Members of an array without keys are numbered from 0
    (``/process/args/0``); changes show such an array as one value, without the number."""
    depth: int
    """0 for the members of the spec itself, 1 for their members, …"""
    label: str
    """The last part of the path, unescaped: the key in an object, the member's label (``FOO``,
    ``/data``, ``KEY#2``) or number in an array."""
    in_array: bool
    """Whether the line is a member of an array, and so has no key."""
    form: Form
    value: Json
    """Value in the spec: a whole object or array, and ``FOO=bar`` where a change at the same path
    has ``bar``. The lines of an object's or array's members follow."""


def walk(spec: Spec) -> Iterator[SpecLine]:
    """Yield all lines of a spec except the spec itself, in document order. Takes any JSON."""
    # Iterators in place of recursion: a hostile spec may be deeper than Python's stack.
    open_levels = [_below("", "", 0, spec)]
    while open_levels:
        found = next(open_levels[-1], None)
        if found is None:
            open_levels.pop()
            continue
        line, place = found
        yield line
        if line.form != "scalar":
            open_levels.append(_below(line.path, place, line.depth + 1, line.value))


def _below(
    path: str, place: str | None, depth: int, value: Json
) -> Iterator[tuple[SpecLine, str | None]]:
    items: Iterable[tuple[str, Json]] = ()
    in_array = isinstance(value, list)
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = zip(labelled(place, value) or (), value, strict=True)
    for label, item in items:
        line = SpecLine(pointer(path, label), depth, label, in_array, _form(item), item)
        yield line, step(place, label)


def _form(value: Json) -> Form:
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "scalar"
