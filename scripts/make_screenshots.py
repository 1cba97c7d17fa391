# SPDX-License-Identifier: Apache-2.0
"""Draw the screens of the terminal interface for the documentation.

``python -m scripts.make_screenshots [NAME...]`` writes docs/images/tui-*.svg, all or those of these
names (scripts/screens.py). What they show is real: a containerd with a chain of plugins, as
tests/data/captures has it, and Textual's own picture of the screen.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.negotiation import nri_version_of
from nri_scope.recorder.model import Captured, Role, SessionStart
from nri_scope.recorder.writer import Recorder
from scripts.screens import SCREENS, THEMES, Screen, Shows
from tests.tui.screen import showing
from tests.tui.snapshot import stands_still

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
CAPTURE = ROOT / "tests" / "data" / "captures" / "containerd-2.1.9.jsonl.gz"
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
        write_recording(path)
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


def write_recording(path: Path) -> None:
    """The capture as a recording: a session for each plugin, with the times that it really took."""
    recorder = Recorder.open(path)
    sessions: dict[str, int] = {}
    with gzip.open(CAPTURE, "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            request, reply = (
                base64.b64decode(line[f"{each}_b64"]) for each in ("request", "reply")
            )
            at_ns, method, plugin = line["at_ns"], line["method"], line["plugin"]
            if method == "Configure":
                sessions[plugin] = recorder.begin_session(_start(plugin, request, reply, at_ns))
            recorder.capture(
                sessions[plugin],
                Captured(
                    at_ns, at_ns, method, request, reply, 0, "", line["took_ns"], line["timeout_ns"]
                ),
            )
    recorder.close()


def _start(plugin: str, request: bytes, reply: bytes, at_ns: int) -> SessionStart:
    configure = api.ConfigureRequest.FromString(request)
    version, inferred = nri_version_of(configure)
    index, name = plugin.split("-", 1)
    return SessionStart(
        role=Role.PROBE if "-probe-" in plugin else Role.TAP,
        plugin_name=name,
        plugin_index=index,
        runtime_name=configure.runtime_name,
        runtime_version=configure.runtime_version,
        nri_version=str(version or ""),
        nri_version_inferred=inferred,
        mask=api.ConfigureResponse.FromString(reply).events,
        registration_timeout_ms=configure.registration_timeout,
        request_timeout_ms=configure.request_timeout,
        started_ns=at_ns,
    )


if __name__ == "__main__":
    asyncio.run(main())
