# SPDX-License-Identifier: Apache-2.0
"""Snapshots of screens as text: their lines, and the highlighted parts.

``NRI_SCOPE_SNAPSHOTS=write pytest -m '' tests/tui/test_snapshots.py`` rewrites them; `git diff`
then shows the changes.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from rich.style import Style

from tests.amount import sampled
from tests.tui.screen import Screen
from tests.tui.widgets.drawn import strips_of

FOLDER = Path(__file__).parent / "snapshots"
WRITES = os.environ.get("NRI_SCOPE_SNAPSHOTS") == "write"

_STILL_BEFORE_WRITE_S = 0.8
"""Seconds without changes before a screen is written."""
_STILL_BEFORE_FAILURE_S = 4.0
"""Seconds without changes before a screen is reported to differ from its snapshot."""
_MAX_COUNTED_S = 0.25
"""Maximum seconds counted per check: if the machine stalls, so does the app."""
_TEXT = ("accent", "error", "primary", "secondary", "success", "warning")
"""Text colours with a meaning."""
_BACKGROUNDS = {
    "cursor": "block-cursor-background",
    "cursor without focus": "block-cursor-blurred-background",
}
_NO_BAR = str.maketrans(dict.fromkeys("▁▂▃▄▅▆▇█▉▊▋▌▍▎▏", " "))
"""Characters of scroll bars, which depend on the exact number of lines."""
_ATTRIBUTES = ("bold", "italic", "reverse", "strike", "underline")

each_size = pytest.mark.parametrize(
    "size", sampled([((120, 40),), ((80, 24),), ((200, 60),)]), ids="{0[0]}x{0[1]}".format
)
"""The sizes of the terminal in which snapshots are taken."""


async def wait_until_still(shown: Screen[Any], seconds: float) -> str:
    """Wait until the screen has not changed for ``seconds``; return its picture."""
    picture, still = picture_of(shown), 0.0
    while still < seconds:
        still += await _wait(shown)
        if (now := picture_of(shown)) != picture:
            picture, still = now, 0.0
    return picture


async def assert_snapshot(shown: Screen[Any], name: str, folder: Path = FOLDER) -> None:
    """Wait until the screen equals the snapshot, or write the snapshot if requested."""
    size = shown.app.size
    path = folder / f"{name}-{size.width}x{size.height}.txt"
    if WRITES:
        path.write_text(await wait_until_still(shown, _STILL_BEFORE_WRITE_S), encoding="utf-8")
        return
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    picture, still = picture_of(shown), 0.0
    while picture != expected:
        if still > _STILL_BEFORE_FAILURE_S:
            difference = difflib.unified_diff(
                expected.splitlines(), picture.splitlines(), path.name, "screen", n=1
            )
            raise AssertionError("\n".join([*difference, "", picture]))
        still += await _wait(shown)
        if (now := picture_of(shown)) != picture:
            picture, still = now, 0.0


async def _wait(shown: Screen[Any]) -> float:
    began = monotonic()
    await shown.pilot.pause(0.01)
    return min(monotonic() - began, _MAX_COUNTED_S)


def picture_of(shown: Screen[Any]) -> str:
    """Return the lines of the screen, followed by the highlighted parts of each.

    Colours are named by their meaning. Colours without a meaning are omitted, so that the picture
    depends neither on the theme nor on Textual's blending.
    """
    names = _names(shown.app.theme_variables)
    lines: list[str] = []
    notes: list[str] = []
    for number, strip in enumerate(strips_of(shown.app), 1):
        lines.append(strip.text.translate(_NO_BAR).rstrip())
        highlighted: dict[str, list[str]] = {}
        for note, run in groupby(strip, lambda segment: _note(segment.style, names)):
            text = "".join(segment.text for segment in run).translate(_NO_BAR).strip()
            if note and text:
                highlighted.setdefault(note, []).append(text)
        notes += [
            f"{number:>2}  {note}: {' | '.join(texts)}" for note, texts in highlighted.items()
        ]
    return "\n".join([*lines, "", "-- what stands out, by line", *notes, ""])


def _names(variables: Mapping[str, str]) -> dict[str, str]:
    names = {variables[f"text-{name}"].lower(): name for name in _TEXT}
    return names | {variables[each].lower(): name for name, each in _BACKGROUNDS.items()}


def _note(style: Style | None, names: dict[str, str]) -> str:
    if style is None:
        return ""
    words = [name for name in _ATTRIBUTES if getattr(style, name)]
    for color in (style.color, style.bgcolor):
        if color is not None and (name := names.get(color.name.lower())):
            words.append(name)
    return ", ".join(words)
