# SPDX-License-Identifier: Apache-2.0
"""Draw the screens of the terminal interface for the documentation.

``python -m scripts.make_screenshots [NAME...]`` writes docs/images/tui-*.svg, all or those of these
names (scripts/screens.py). What they show is real: a containerd with a chain of plugins, as
tests/data/captures has it, and Textual's own picture of the screen.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import time
from pathlib import Path

from scripts.captures import record_capture
from scripts.screens import SCREENS, THEMES, Screen, Shows
from tests.tui.screen import showing
from tests.tui.snapshot import stands_still

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
CAPTURE = "containerd-2.1.9"
NAME = "node-1.nriscope.db"
"""Of the recording, as the screens show it."""
_STILL = 1.0
"""Seconds without a change, until which a screen is not drawn."""


async def main() -> None:
    """Write the pictures."""
    os.environ["TZ"] = "UTC"
    os.environ.pop("NO_COLOR", None)
    time.tzset()
    IMAGES.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[1:]
    for screen in SCREENS:
        if wanted and screen.name not in wanted:
            continue
        for theme in THEMES:
            (IMAGES / screen.file(theme)).write_text(await draw(screen, theme), encoding="utf-8")


async def draw(screen: Screen, theme: str) -> str:
    """One picture, as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        record_capture(CAPTURE, path, ended=False)
        async with showing(path, size=screen.size, theme=theme) as shown:
            await shown.shows("116 events", "1 of ")
            for key in screen.keys:
                if isinstance(key, Shows):
                    await shown.shows(key)
                else:
                    await shown.press(key)
            await stands_still(shown, _STILL)
            svg = shown.app.export_screenshot(title="nri-scope tui", simplify=True)
    # Rich would have the reader's browser fetch a font from elsewhere.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    # Without this some viewers leave out spaces in which nothing but a column begins.
    return svg.replace("<svg ", '<svg xml:space="preserve" ', 1)


if __name__ == "__main__":
    asyncio.run(main())
