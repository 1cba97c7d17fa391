# SPDX-License-Identifier: Apache-2.0
"""The themes: dark, light, and one of the terminal's own colours; with palettes of few colours.

Colour never carries information alone: a word or sign always does, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rich.console import Console
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

_OF_256 = (
    # Exact values of the palette. Textual would map the three backgrounds above to black.
    replace(
        THEMES[0],
        primary="#5fafff",
        secondary="#87d787",
        warning="#d7af5f",
        error="#ff875f",
        success="#87d787",
        accent="#d7afff",
        foreground="#dadada",
        background="#121212",
        surface="#1c1c1c",
        panel="#262626",
        variables={
            **THEMES[0].variables,
            # Textual's own mixture would be nearly the foreground's colour.
            "text-accent": "#d787ff",
            "block-cursor-background": "#005f87",
            "block-cursor-blurred-background": "#3a3a3a",
            "block-cursor-blurred-foreground": "#dadada",
        },
    ),
    replace(
        THEMES[1],
        primary="#005faf",
        secondary="#005f00",
        warning="#875f00",
        error="#af0000",
        success="#005f00",
        accent="#5f5faf",
        foreground="#262626",
        background="#ffffff",
        surface="#eeeeee",
        panel="#e4e4e4",
        variables={
            **THEMES[1].variables,
            "text-accent": "#5f00af",
            "block-cursor-background": "#005faf",
            "block-cursor-blurred-background": "#dadada",
            "block-cursor-blurred-foreground": "#262626",
        },
    ),
    THEMES[2],
)
_OF_8 = (
    # On black: blue and red, the darkest two of eight, are backgrounds or bright.
    replace(
        BUILTIN_THEMES["ansi-dark"],
        name=DEFAULT,
        primary="ansi_cyan",
        secondary="ansi_green",
        warning="ansi_yellow",
        error="ansi_bright_red",
        success="ansi_green",
        accent="ansi_bright_magenta",
        foreground="ansi_white",
        background="ansi_black",
        surface="ansi_black",
        panel="ansi_black",
        boost="ansi_black",
        variables={
            **BUILTIN_THEMES["ansi-dark"].variables,
            "block-cursor-blurred-background": "ansi_blue",
            "block-cursor-blurred-foreground": "ansi_white",
            "text-muted": "ansi_white",
            "scrollbar": "ansi_cyan",
            "scrollbar-background": "ansi_black",
        },
    ),
    THEMES[2],
)
NAMES = tuple(theme.name for theme in THEMES)


def color_system() -> str:
    """Return ``truecolor``, ``256`` or ``standard``: what Textual uses, by TERM and COLORTERM."""
    console = Console(force_terminal=True)
    # Without colours, there is no palette to choose.
    return "truecolor" if console.no_color else console.color_system or "standard"


def themes_of(colors: str) -> dict[str, Theme]:
    """Return the themes for a colour system, by name. With eight colours, there is no light one."""
    of_colors = {"256": _OF_256, "standard": _OF_8}.get(colors, THEMES)
    return {theme.name: theme for theme in of_colors}


def next_theme(name: str, themes: Iterable[str] = NAMES) -> str:
    """Return the theme after ``name``, cyclically."""
    names = list(themes)
    return names[(names.index(name) + 1) % len(names)]
