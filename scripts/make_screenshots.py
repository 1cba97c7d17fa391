# SPDX-License-Identifier: Apache-2.0
"""Draw screenshots of the terminal interface for the documentation.

``python -m scripts.make_screenshots [NAME...]`` writes docs/images/tui-*.svg and the README's
picture: all screens of scripts/screens.py, or those with the given names. They show real traffic,
recordings/demo.nriscope.db, exported as SVG by Textual.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from scripts.screens import FIRST, SCREENS, THEMES, Screen, Shows
from tests.tui.screen import showing
from tests.tui.snapshot import wait_until_still

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
DEMO = ROOT / "recordings" / "demo.nriscope.db"
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
    for screen in (FIRST, *SCREENS):
        if selected and screen.name not in selected:
            continue
        for theme in THEMES:
            (IMAGES / screen.file(theme)).write_text(await draw(screen, theme), encoding="utf-8")


async def draw(screen: Screen, theme: str) -> str:
    """Return a screenshot as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        shutil.copy(DEMO, path)
        async with showing(path, size=screen.size, theme=theme, surveyed=True) as shown:
            await shown.shows("3 problems", "1 of ")
            for key in screen.keys:
                if isinstance(key, Shows):
                    await shown.shows(key)
                else:
                    await shown.press(key)
            await wait_until_still(shown, _QUIET_S)
            svg = shown.app.export_screenshot(title="nri-scope tui", simplify=True)
    # Rich's font declaration would make browsers load a font from another site.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    if screen.pointed_at:
        svg = _pointing_at(svg, screen.pointed_at)
    # Without this, some viewers collapse the spaces that align columns.
    return svg.replace("<svg ", '<svg xml:space="preserve" ', 1)


def _pointing_at(svg: str, words: str) -> str:
    """Repeat the owner of the line with these words, its first word, after the line."""
    element = r'<text class="([^"]*)" x="([^"]*)" (y="[^"]*") textLength="([^"]*)" ([^>]*)>'
    line = rf"{element}([^<&]+)&#160;[^<]*{re.escape(words)}[^<]*</text>\s*{element}[^<]*</text>"
    found = re.search(line, svg)
    if found is None:
        raise SystemExit(f"the screen shows no changed line with {words}")
    style, owner, y = found[1], found[6], found[3]
    x = float(found[8]) + float(found[10])
    arrow = f'<text class="{style}" x="{x:g}" {y} {found[5]}>&#160;&#160;←&#160;{owner}</text>'
    return svg[: found.end()] + arrow + svg[found.end() :]


if __name__ == "__main__":
    asyncio.run(main())
