# SPDX-License-Identifier: Apache-2.0
"""A spec line by line, as a person would read it, each line with its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from nri_scope.oci import Json, Spec, pointer
from nri_scope.oci.path_lookup import labelled, step

Form: TypeAlias = Literal["scalar", "object", "array"]


class SpecLine(NamedTuple):
    """One value of a spec: a scalar, or the line that begins an object or an array."""

    path: str
    """As `changes` and `value_at` have it. Members of an array that is not keyed are numbered from
    0 (``/process/args/0``): changes show such an array whole, at the path without the number."""
    depth: int
    """0 for the members of the spec itself, 1 for what is in these, …"""
    label: str
    """The last part of the path, unescaped: the key in an object, the member's label (``FOO``,
    ``/data``, ``KEY#2``) or number in an array."""
    in_array: bool
    """Whether it is a member of an array, which shows no key."""
    form: Form
    value: Json
    """As it stands in the spec: all of an object or array, and ``FOO=bar`` where a change at the
    same path has ``bar``. The lines of what is in an object or array follow; an empty one has
    none."""


def walk(spec: Spec) -> Iterator[SpecLine]:
    """Yield all lines of a spec except the spec itself, in document order. Takes any JSON."""
    # Iterators in place of recursion: a hostile spec may be deeper than Python's stack.
    open_ones = [_below("", "", 0, spec)]
    while open_ones:
        found = next(open_ones[-1], None)
        if found is None:
            open_ones.pop()
            continue
        line, place = found
        yield line
        if line.form != "scalar":
            open_ones.append(_below(line.path, place, line.depth + 1, line.value))


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
