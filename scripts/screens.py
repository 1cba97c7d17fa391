# SPDX-License-Identifier: Apache-2.0
"""Screens of the TUI in the documentation, with their captions and the keys that open them."""

from __future__ import annotations

from dataclasses import dataclass

THEMES = ("dark", "light")


class Shows(str):
    """Text to wait for."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Screen:
    """A screenshot in each theme."""

    name: str
    caption: str
    """Caption, also the alternative text of the picture."""
    keys: tuple[str, ...]
    """Keys by Textual's names, and texts to wait for before the next key."""
    size: tuple[int, int] = (110, 30)
    """Columns and lines of the terminal."""
    pointed_at: str = ""
    """Words of a changed line in Blame: the picture repeats the line's owner after the line."""

    def file(self, theme: str) -> str:
        """Return the file name of the picture."""
        return f"{self.name if self is FIRST else f'tui-{self.name}'}-{theme}.svg"

    def html(self, folder: str) -> str:
        """Return HTML for Markdown that shows the picture in the reader's colour scheme."""
        dark, light = (f"{folder}/{self.file(theme)}" for theme in THEMES)
        return (
            "<picture>\n"
            f'  <source media="(prefers-color-scheme: light)" srcset="{light}">\n'
            f'  <img alt="{self.caption}" src="{dark}">\n'
            "</picture>"
        )


FIRST = Screen(
    "who-set-foo",
    "The spec of a new container, line by line, with the plugin that set each line: "
    "FOO=overridden  # was bar  ← 30-env-injector",
    (
        "c",
        Shows("matches: changed"),
        "b",
        "z",
        Shows("was bar"),
    ),
    (92, 18),
    "FOO=",
)
"""The picture at the top of the README, of recordings/demo.nriscope.db."""

CHANGES = Screen(
    "changes",
    "Events with changes, and the changes that plugins made to a new container",
    (
        "c",
        Shows("matches: changed"),
        "]",
        "]",
        Shows("by 60-cpu-policy"),
    ),
)
SCREENS = (
    CHANGES,
    Screen(
        "blame",
        "A container's spec line by line, with each line's plugin and previous value",
        ("c", Shows("matches: changed"), "b", "z", Shows("was bar")),
    ),
    Screen(
        "containers",
        "Pods and their containers with states, events and the plugins that changed them",
        ("2", Shows("30 60"), *("down",) * 8, "right", Shows("PostStart")),
        (110, 28),
    ),
    Screen(
        "timeline",
        "A timeline of pods and containers: created, started, changed, stopped, removed",
        ("3", Shows("◆"), *("down",) * 8, "o", "+"),
        (110, 18),
    ),
    Screen(
        "plugins",
        "The plugin chain in order, with calls, latencies relative to the deadline, and changes",
        ("4", Shows("cpu-policy"), "down", "down", "down"),
        (110, 20),
    ),
    Screen(
        "compare",
        "Two containers side by side: only the differences",
        (
            "2",
            Shows("30 60"),
            *("down",) * 3,
            "m",
            Shows("is marked"),
            *("down",) * 5,
            "d",
            Shows("differences"),
        ),
        (110, 26),
    ),
)
