# SPDX-License-Identifier: Apache-2.0
"""One change as a line for people: glyph, path, values before and after, owner."""

from __future__ import annotations

from collections.abc import Sequence

from nri_scope.oci import Change
from nri_scope.text.layout import Layout, LayoutPart
from nri_scope.text.styled_text import Style, StyledText

from .values import clipped_pair, place, sides
from .wording import GLYPHS, WHOLE

DEEPER = 4
"""Columns by which continuations of a line are indented."""

_STYLES = {"added": Style.GOOD, "removed": Style.BAD, "changed": Style.WARN, "moved": Style.NOTE}
_VALUE_MAX = 400
"""Maximum number of characters of one value in a terminal: five lines of it. JSON has all of it."""
_VALUE_MAX_IN_FILES = 4_000
"""The same for output whose lines are not broken."""


def change_lines(layout: Layout, change: Change, by: str = "", indent: int = 2) -> list[StyledText]:
    """Return the change with its owner, in several lines if necessary."""
    path = LayoutPart(f"{GLYPHS[change.kind]} {change.path or WHOLE}", _STYLES[change.kind])
    parts = [path, *_values(layout, change)]
    if change.kind == "added" and change.at is not None:
        parts.append(LayoutPart(f"as the {place(change.at)}"))
    parts.append(LayoutPart(by))
    return layout.parts(parts, indent, indent + DEEPER)


def _values(layout: Layout, change: Change) -> Sequence[LayoutPart]:
    width = layout.width
    most = _VALUE_MAX if width is not None else _VALUE_MAX_IN_FILES
    before, after = clipped_pair(*sides(change), most)
    match change.kind:
        case "added":
            return [LayoutPart(after)]
        case "removed":
            return [LayoutPart(f"was {before}")]
        case "moved":
            if before == after:
                # Others were added or removed, and its position is the same.
                return [LayoutPart(f"moved among the others, still the {after}")]
            return [LayoutPart(f"moved from {before} to {after} place")]
    together = f"{before} → {after}"
    if width is None or len(together) <= width - 2 * DEEPER:
        return [LayoutPart(together)]
    return [LayoutPart(before), LayoutPart(f"→ {after}")]
