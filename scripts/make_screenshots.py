# SPDX-License-Identifier: Apache-2.0
"""Draw screenshots of the terminal interface for the documentation.

``python -m scripts.make_screenshots [NAME...]`` writes docs/images/tui-*.svg: all screens of
scripts/screens.py, or those with the given names. They show real traffic, a capture of containerd
with a chain of plugins (tests/data/captures), exported as SVG by Textual.
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
from tests.tui.snapshot import wait_until_still

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
CAPTURE = "containerd-2.1.9"
NAME = "node-1.nriscope.db"
"""File name of the recording, visible on the screens."""
_QUIET_S = 1.0
"""A screenshot is taken after this time without changes on the screen."""


async def main() -> None:
    """Write the pictures."""
    os.environ["TZ"] = "UTC"
    os.environ.pop("NO_COLOR", None)
    time.tzset()
    IMAGES.mkdir(parents=True, exist_ok=True)
    selected = sys.argv[1:]
    for screen in SCREENS:
        if selected and screen.name not in selected:
            continue
        for theme in THEMES:
            (IMAGES / screen.file(theme)).write_text(await draw(screen, theme), encoding="utf-8")


async def draw(screen: Screen, theme: str) -> str:
    """Return a screenshot as SVG."""
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
            await wait_until_still(shown, _QUIET_S)
            svg = shown.app.export_screenshot(title="nri-scope tui", simplify=True)
    # Rich's font declaration would make browsers load a font from another site.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    # Without this, some viewers collapse the spaces that align columns.
    return svg.replace("<svg ", '<svg xml:space="preserve" ', 1)


if __name__ == "__main__":
    asyncio.run(main())
