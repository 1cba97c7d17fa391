# SPDX-License-Identifier: Apache-2.0
"""Render one change as text: glyph, path, values before and after, owner."""

from __future__ import annotations

from collections.abc import Sequence

from nri_scope.specs import Change, label
from nri_scope.text.layout import Layout, LayoutPart
from nri_scope.text.styled_text import Style, StyledText

from .values import clipped_pair, move, place, sides
from .wording import GLYPHS

CONTINUATION_INDENT = 4
"""Indentation of continuation lines, in columns."""

_STYLES = {"added": Style.GOOD, "removed": Style.BAD, "changed": Style.WARN, "moved": Style.NOTE}
VALUE_MAX = 400
"""Maximum length of a value on a terminal, in characters: five lines. Files have all of it."""


def change_lines(
    layout: Layout, change: Change, owner: str = "", indent: int = 2
) -> list[StyledText]:
    """Return the change and its owner, wrapped to the layout's width."""
    path = LayoutPart(f"{GLYPHS[change.kind]} {label(change.path)}", _STYLES[change.kind])
    parts = [path, *_values(layout, change)]
    if change.kind == "added" and change.at is not None:
        parts.append(LayoutPart(f"as the {place(change.at)}"))
    parts.append(LayoutPart(owner))
    return layout.parts(parts, indent, indent + CONTINUATION_INDENT)


def _values(layout: Layout, change: Change) -> Sequence[LayoutPart]:
    width = layout.width
    before, after = sides(change)
    if width is not None:
        before, after = clipped_pair(before, after, VALUE_MAX)
    match change.kind:
        case "added":
            return [LayoutPart(after)]
        case "removed":
            return [LayoutPart(f"was {before}")]
        case "moved":
            return [LayoutPart(move(change))]
    one_line = f"{before} → {after}"
    if width is None or len(one_line) <= width - 2 * CONTINUATION_INDENT:
        return [LayoutPart(one_line)]
    return [LayoutPart(before), LayoutPart(f"→ {after}")]
