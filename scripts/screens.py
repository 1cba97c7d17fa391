# SPDX-License-Identifier: Apache-2.0
"""The screens that documentation shows: what is in each, and the keys that lead there."""

from __future__ import annotations

from dataclasses import dataclass

THEMES = ("dark", "light")


class Shows(str):
    """Words to wait for."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Screen:
    """One picture, in each of the themes."""

    name: str
    caption: str
    """A sentence for readers who cannot see it, too."""
    keys: tuple[str, ...]
    """By Textual's names, and what has to be on the screen before the next one."""
    size: tuple[int, int] = (110, 30)
    """Columns and lines."""

    def file(self, theme: str) -> str:
        """Return the name of the picture."""
        return f"tui-{self.name}-{theme}.svg"

    def html(self, folder: str) -> str:
        """For Markdown: the picture in the theme of its reader."""
        dark, light = (f"{folder}/{self.file(theme)}" for theme in THEMES)
        return (
            "<picture>\n"
            f'  <source media="(prefers-color-scheme: light)" srcset="{light}">\n'
            f'  <img alt="{self.caption}" src="{dark}">\n'
            "</picture>"
        )


_SECOND = ("down",)
"""From the first line of what changed something to the second change of the container `app`."""

CHANGES = Screen(
    "changes",
    "The events that changed something, and what the plugins did to a container that is created",
    (
        "c",
        Shows("matches: changed"),
        *_SECOND,
        "enter",
        "]",
        "]",
        Shows("by 60-cpu-policy"),
        "escape",
    ),
)
SCREENS = (
    CHANGES,
    Screen(
        "blame",
        "A container line by line: which plugin put each line there, and what was there before",
        ("c", Shows("matches: changed"), *_SECOND, "enter", "]", "]", "]", "z", Shows("was bar")),
    ),
    Screen(
        "containers",
        "Pods, their containers and what happened to them, with states and who changed them",
        ("2", Shows("30-env-injector"), *("down",) * 5, "right", Shows("PostStart")),
        (110, 26),
    ),
    Screen(
        "timeline",
        "Lanes of pods and containers to scale: created, started, changed, stopped, removed",
        ("3", Shows("◆"), *("down",) * 5, "o", "+", "+", "greater_than_sign"),
        (110, 18),
    ),
    Screen(
        "plugins",
        "The chain of plugins in its order, with calls, latencies against the deadline, changes",
        ("4", Shows("cpu-policy"), "down", "down", "down"),
        (110, 20),
    ),
    Screen(
        "compare",
        "Two events of two containers side by side: only what differs",
        (
            "c",
            Shows("matches: changed"),
            *_SECOND,
            "m",
            Shows("is marked"),
            "down",
            "down",
            "d",
            Shows("differences"),
        ),
        (110, 26),
    ),
)
