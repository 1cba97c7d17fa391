# SPDX-License-Identifier: Apache-2.0
"""Select the lines of a view, and fold the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from ..attribution.owner import Owner
from .owned_lines import OwnedLine

View: TypeAlias = Literal["usual", "full", "changed"]


class Fold(NamedTuple):
    """A row in place of consecutive hidden lines of one owner."""

    owner: Owner
    hidden: int
    """Number of hidden lines."""
    indent: int


Row: TypeAlias = "OwnedLine | Fold"


def view(lines: Sequence[OwnedLine], kind: View) -> list[Row]:
    """Return the rows of a view.

    "full": all lines; "changed": lines that differ from the runtime's spec without plugins,
    and their parents; "usual": the same, with a fold in place of the lines between them.
    """
    if kind == "full":
        return list(lines)
    shown = _shown(lines)
    rows: list[Row] = []
    for is_shown, run in groupby(enumerate(lines), lambda item: item[0] in shown):
        some = [line for _, line in run]
        if is_shown:
            rows += some
        elif kind == "usual":
            rows += some if len(some) == 1 else _folds(some)
    return rows


def _shown(lines: Sequence[OwnedLine]) -> set[int]:
    parents: dict[str, int] = {}
    for index, line in enumerate(lines):
        if line.heading:
            parents.setdefault(line.path, index)
        if line.dash and not line.member:
            # A member has no line of its own; its first line represents it.
            parents.setdefault(line.path.rpartition("/")[0], index)
    shown: set[int] = set()
    for index, line in enumerate(lines):
        if not line.changed:
            continue
        shown.add(index)
        path = line.path
        while path := path.rpartition("/")[0]:
            if path in parents:
                shown.add(parents[path])
    return shown


def _folds(lines: Sequence[OwnedLine]) -> Iterator[Fold]:
    counts: dict[Owner, int] = {}
    for line in lines:
        if line.exists and line.owner is not None and not line.heading:
            counts[line.owner] = counts.get(line.owner, 0) + 1
    indent = min(line.indent for line in lines)
    return (Fold(owner, count, indent) for owner, count in counts.items())
