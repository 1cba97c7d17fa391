# SPDX-License-Identifier: Apache-2.0
"""The themes: dark, light, and one of the terminal's own colours.

Colour never carries information alone: a word or sign always does, too.
"""

from __future__ import annotations

from dataclasses import replace

from textual.theme import BUILTIN_THEMES, Theme

DEFAULT = "dark"

THEMES: tuple[Theme, ...] = (
    Theme(
        name=DEFAULT,
        primary="#6cb6ff",
        secondary="#8ddb8c",
        warning="#e3b341",
        error="#ff7b72",
        success="#7ee787",
        accent="#d2a8ff",
        foreground="#d7dde4",
        background="#0d1117",
        surface="#161b22",
        panel="#1f2630",
        variables={
            "block-cursor-background": "#2d4f7c",
            "block-cursor-foreground": "#ffffff",
            "block-cursor-text-style": "none",
            "block-cursor-blurred-background": "#263240",
            "block-cursor-blurred-foreground": "#d7dde4",
        },
    ),
    Theme(
        name="light",
        primary="#0550ae",
        secondary="#116329",
        warning="#8a5a00",
        error="#b3202a",
        success="#116329",
        accent="#6639ba",
        foreground="#1f2328",
        background="#ffffff",
        surface="#f4f6f8",
        panel="#e6eaef",
        dark=False,
        variables={
            "block-cursor-background": "#0550ae",
            "block-cursor-foreground": "#ffffff",
            "block-cursor-text-style": "none",
            "block-cursor-blurred-background": "#d3dce6",
            "block-cursor-blurred-foreground": "#1f2328",
        },
    ),
    # The terminal's sixteen colours, on its own background.
    replace(
        BUILTIN_THEMES["ansi-dark"],
        name="ansi",
        variables={
            **BUILTIN_THEMES["ansi-dark"].variables,
            "block-cursor-blurred-background": "ansi_bright_black",
            "block-cursor-blurred-foreground": "ansi_white",
        },
    ),
)

NAMES = tuple(theme.name for theme in THEMES)


def next_theme(name: str) -> str:
    """Return the theme after ``name``, cyclically."""
    at = NAMES.index(name) if name in NAMES else -1
    return NAMES[(at + 1) % len(NAMES)]
