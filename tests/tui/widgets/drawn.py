# SPDX-License-Identifier: Apache-2.0
"""Drawn content of a widget or an app, as text."""

from __future__ import annotations

from textual.app import App
from textual.strip import Strip
from textual.widget import Widget


def strips_of(app: App[None]) -> list[Strip]:
    """Return the rows of the screen, with styles.

    Textual has no public access to its drawing; another version may only break this function.
    """
    return app.screen._compositor.render_strips()


def text_on(what: App[None] | Widget) -> str:
    """Return the rows of the screen or of a widget, without trailing blanks."""
    app = what if isinstance(what, App) else what.app
    rows = [strip.text for strip in strips_of(app)]
    if isinstance(what, Widget):
        x, y, width, height = what.region
        rows = [row[x : x + width] for row in rows[y : y + height]]
    return "\n".join(row.rstrip() for row in rows).rstrip("\n")
