# SPDX-License-Identifier: Apache-2.0
"""What a widget or an app draws, as text."""

from __future__ import annotations

from textual.app import App
from textual.widget import Widget


def text_on(what: App[None] | Widget) -> str:
    """The rows of the screen, or of a widget on it, without trailing blanks."""
    app = what if isinstance(what, App) else what.app
    strips = app.screen._compositor.render_strips()
    rows = ["".join(segment.text for segment in strip) for strip in strips]
    if isinstance(what, Widget):
        x, y, width, height = what.region
        rows = [row[x : x + width] for row in rows[y : y + height]]
    return "\n".join(row.rstrip() for row in rows).rstrip("\n")
