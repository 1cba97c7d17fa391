# SPDX-License-Identifier: Apache-2.0
"""One change as a line for people: glyph, path, before and after, who."""

from __future__ import annotations

from collections.abc import Sequence

from nri_scope.oci import Change

from .layout import CYAN, GREEN, RED, YELLOW, Layout, Part
from .values import clipped_pair, place, sides
from .wording import GLYPHS, WHOLE

DEEPER = 4
"""Columns by which what belongs to a line and did not fit into it is indented."""

_COLOURS = {"added": GREEN, "removed": RED, "changed": YELLOW, "moved": CYAN}
_VALUE_MAX = 400
"""Characters of one value in a terminal: five lines of it. JSON has all of it."""
_VALUE_MAX_IN_FILES = 4_000
"""The same where lines are not broken."""


def change_lines(layout: Layout, change: Change, by: str = "", indent: int = 2) -> list[str]:
    """The change, with who made it; in several lines where one is too short."""
    path = Part(f"{GLYPHS[change.kind]} {change.path or WHOLE}", _COLOURS[change.kind])
    parts = [path, *_values(layout, change)]
    if change.kind == "added" and change.at is not None:
        parts.append(Part(f"as the {place(change.at)}"))
    parts.append(Part(by))
    return layout.parts(parts, indent, indent + DEEPER)


def _values(layout: Layout, change: Change) -> Sequence[Part]:
    width = layout.width
    most = _VALUE_MAX if width is not None else _VALUE_MAX_IN_FILES
    before, after = clipped_pair(*sides(change), most)
    match change.kind:
        case "added":
            return [Part(after)]
        case "removed":
            return [Part(f"was {before}")]
        case "moved":
            if before == after:
                # Others came or went, and it is still behind as many.
                return [Part(f"moved among the others, still the {after}")]
            return [Part(f"moved from {before} to {after} place")]
    together = f"{before} → {after}"
    if width is None or len(together) <= width - 2 * DEEPER:
        return [Part(together)]
    return [Part(before), Part(f"→ {after}")]
