# SPDX-License-Identifier: Apache-2.0
"""Measured values and their limits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A measured value and its limit, if it has one."""

    name: str
    value: float
    unit: str = ""
    limit: float | None = None
    sense: Literal["at most", "at least"] = "at most"
    detail: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the value is within its limit; None without a limit."""
        if self.limit is None:
            return None
        return self.value <= self.limit if self.sense == "at most" else self.value >= self.limit

    @property
    def verdict(self) -> str:
        """Text for the last column of the table."""
        return {None: "", True: "reached", False: "NOT REACHED"}[self.reached]

    def as_json(self) -> dict[str, object]:
        """Return the finding as plain data."""
        return {**asdict(self), "reached": self.reached}


def number(value: float) -> str:
    """Format a number with three significant digits and without an exponent."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(rows: list[tuple[str, ...]]) -> str:
    """Format rows as columns of text: the first left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def findings_table(findings: list[Finding]) -> str:
    """Format all findings with their limits and verdicts."""
    rows: list[tuple[str, ...]] = [("", "measured", "limit", "")]
    for finding in findings:
        limit = ""
        if finding.limit is not None:
            sign = "≤" if finding.sense == "at most" else "≥"
            limit = f"{sign} {number(finding.limit)} {finding.unit}".rstrip()
        measured = f"{number(finding.value)} {finding.unit}".rstrip()
        rows.append((finding.name, measured, limit, finding.verdict))
    return table(rows)
