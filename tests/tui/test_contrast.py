# SPDX-License-Identifier: Apache-2.0
"""All text is readable in each theme with its own colours."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.color import Color as RichColor
from rich.console import COLOR_SYSTEMS
from rich.terminal_theme import TerminalTheme
from textual.color import Color

from nri_scope.tui.widgets.lines import LinesView
from tests.amount import sampled
from tests.replay.recordings import of_capture
from tests.tui.screen import Shown, showing
from tests.tui.widgets.drawn import strips_of

MIN_CONTRAST = 3.0
"""Minimum of WCAG for large text and graphics; most text here has far more."""

_BORDERS = " │─╭╮╰╯▁▂▃▄▅▆▇█▏"
"""Borders and scroll bars."""

_CONSOLE = TerminalTheme(
    (0, 0, 0),
    (170, 170, 170),
    [
        *((0, 0, 0), (170, 0, 0), (0, 170, 0), (170, 85, 0)),
        *((0, 0, 170), (170, 0, 170), (0, 170, 170), (170, 170, 170)),
    ],
    [
        *((85, 85, 85), (255, 85, 85), (85, 255, 85), (255, 255, 85)),
        *((85, 85, 255), (255, 85, 255), (85, 255, 255), (255, 255, 255)),
    ],
)
"""The colours of the Linux console."""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("colors", "theme"),
    sampled(
        [
            ("truecolor", "dark"),
            ("truecolor", "light"),
            ("256", "dark"),
            ("256", "light"),
            ("standard", "dark"),
        ]
    ),
)
async def test_all_text_contrasts_with_its_background(
    colors: str, theme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    path = of_capture("containerd-2.1.9", tmp_path / "a.nriscope.db")
    async with showing(path, size=(110, 34), theme=theme, colors=colors) as screen:
        await screen.press("c")
        await screen.shows("6 matches")
        await screen.go_to(20)
        for words in ("slowest", "image", "seen by 00-probe-a", "# was bar", "request:"):
            await screen.shows(words)
            _assert_readable(screen, colors, words)
            await screen.press("]")
        await screen.press("m", "down", "d")
        await screen.shows("9 differences")
        _assert_readable(screen, colors, "compare")
        await screen.press("escape", "p", "x")
        for key, words in {
            "2": "jobs/batch",
            "3": "■stopped",
            "4": "between",
            "5": "00-p",
        }.items():
            await screen.press(key)
            await screen.shows(words)
            _assert_readable(screen, colors, words)
        await screen.press("question_mark")
        await screen.shows("Esc closes")
        _assert_readable(screen, colors, "help")


def _assert_readable(screen: Shown, colors: str, context: str) -> None:
    # Text behind a modal screen is dimmed on purpose.
    top = screen.app.screen
    region = top.query_one(LinesView).region if top.is_modal else top.region
    for strip in strips_of(screen.app)[region.y : region.bottom]:
        for text, style, _ in strip.crop(region.x, region.right):
            if text.strip(_BORDERS) and style and style.color and style.bgcolor:
                ratio = _contrast(*(_shown(one, colors) for one in (style.color, style.bgcolor)))
                assert ratio >= MIN_CONTRAST, (
                    f"{context}: {text!r} is {style}, a contrast of {ratio:.1f}"
                )


def _shown(color: RichColor, colors: str) -> RichColor:
    """Return a colour as a terminal shows it."""
    return RichColor.from_triplet(color.downgrade(COLOR_SYSTEMS[colors]).get_truecolor(_CONSOLE))


def _contrast(color: RichColor, other: RichColor) -> float:
    dark, light = sorted(_luminance(each) for each in (color, other))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: RichColor) -> float:
    """Return the relative luminance defined by WCAG 2."""
    linear = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in Color.from_rich_color(color).normalized
    )
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
