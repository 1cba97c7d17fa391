# SPDX-License-Identifier: Apache-2.0
"""Read the known differences from the tables of docs/manifest-fidelity.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .fidelity import Comparison, Deviation

PAGE = Path(__file__).parent.parent.parent / "docs" / "manifest-fidelity.md"
_WORDS = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    """A row of the table of differences: patterns of each column."""

    columns: tuple[tuple[str, ...], ...]
    reason: str

    def covers(self, deviation: Deviation) -> bool:
        """Return whether this row lists a difference."""
        values = (
            deviation.profile,
            deviation.source,
            deviation.place,
            deviation.difference.path,
        )
        return all(
            any(_matches(pattern, value) for pattern in patterns)
            for patterns, value in zip(self.columns, values, strict=True)
        )

    def concerns(self, profile: str) -> bool:
        """Return whether this row is about a runtime."""
        return any(_matches(pattern, profile) for pattern in self.columns[0])


def problems(comparison: Comparison, profile: str) -> list[str]:
    """Describe unlisted differences, and rows and assigned values that do not occur."""
    rows = [row for row in difference_rows() if row.concerns(profile)]
    used: set[Row] = set()
    found = []
    for deviation in comparison.deviations:
        covering = [row for row in rows if row.covers(deviation)]
        used.update(covering)
        if not covering:
            one = deviation.difference
            found.append(
                f"{deviation.source}: {deviation.place}: {one.path}: "
                f"{str(one.expected)[:300]!r} instead of {str(one.actual)[:300]!r}"
            )
    found += [f"never occurs: {row.columns}" for row in rows if row not in used]
    return found


def assigned_values() -> set[str]:
    """Return the names in the table of assigned values."""
    return {cells[0] for cells in _table("Values that a cluster assigns")}


def difference_rows() -> list[Row]:
    """Return the rows of the table of differences."""
    return [
        Row(tuple(tuple(_WORDS.findall(cell)) for cell in cells[:-1]), cells[-1])
        for cells in _table("Differences")
    ]


def _table(heading: str) -> Iterator[Sequence[str]]:
    section = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    for row in rows[2:]:
        yield [cell.strip() for cell in row.strip("|").split("|")]


def _matches(pattern: str, value: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), value, re.DOTALL) is not None
