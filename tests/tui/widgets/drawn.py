# SPDX-License-Identifier: Apache-2.0
"""What a widget or an app draws, as text."""

from __future__ import annotations

from textual.app import App
from textual.strip import Strip
from textual.widget import Widget


def strips_of(app: App[None]) -> list[Strip]:
    """The rows of the screen with their styles.

    Textual tells nobody else what it draws: whatever another version calls it is needed here only.
    """
    return app.screen._compositor.render_strips()


def text_on(what: App[None] | Widget) -> str:
    """The rows of the screen, or of a widget on it, without trailing blanks."""
    app = what if isinstance(what, App) else what.app
    rows = [strip.text for strip in strips_of(app)]
    if isinstance(what, Widget):
        x, y, width, height = what.region
        rows = [row[x : x + width] for row in rows[y : y + height]]
    return "\n".join(row.rstrip() for row in rows).rstrip("\n")
