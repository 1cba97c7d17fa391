# SPDX-License-Identifier: Apache-2.0
"""Few bytes are sent per key on a real terminal, as the connection may be slow."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks.terminal import Terminal
from tests.tui.screen import RECORDINGS

MAX_BYTES = 8_000
MAX_MOVE_BYTES = 2_500
"""Maximum for one line down: two rows and the details."""
_DOWN, _ESCAPE, _PAGE_DOWN, _REDRAW = "\x1b[B", "\x1b", "\x1b[6~", "\x0c"
_MOVES = (_DOWN, _DOWN, "k")
_KEYS = (_PAGE_DOWN, "f", _ESCAPE, "2", "3", "4", "5", "6", "1", "p", "p", "]", "m")


async def _size_sent(shown: Terminal, key: str, quiet: float) -> int:
    """Press a key, and return the number of bytes sent until ``quiet`` seconds without output."""
    before = shown.written
    shown.press(key)
    async with asyncio.timeout(60):
        while shown.written == before:
            await asyncio.sleep(0.02)
    await shown.settled(quiet)
    return shown.written - before


@pytest.mark.exhaustive
async def test_keys_send_few_bytes_and_a_redrawn_screen_is_the_same(tmp_path: Path) -> None:
    path = shutil.copy(RECORDINGS / "containerd-2.1-conflict.nriscope.zip", tmp_path)
    command = (sys.executable, "-m", "nri_scope", "tui", path)
    async with await Terminal.start(*command, size=(120, 40), folder=tmp_path) as shown:
        await shown.shows("1 problem")
        await shown.settled(0.5)
        sent: list[tuple[str, int, int]] = []
        for key in (*_MOVES, *_KEYS):
            # After Escape, Textual waits 0.1 s for the rest of a sequence.
            size = await _size_sent(shown, key, 0.3 if key == _ESCAPE else 0.15)
            sent.append((key, size, MAX_MOVE_BYTES if key in _MOVES else MAX_BYTES))
        assert [one for one in sent if one[1] > one[2]] == []
        for keys in (("?", _ESCAPE), ("2",), ("1",)):
            for key in keys:
                await _size_sent(shown, key, 0.4)
            before = shown.screen.looks()
            assert await _size_sent(shown, _REDRAW, 0.4) > MAX_BYTES / 2
            assert shown.screen.looks() == before
        shown.press("q")
        assert await shown.process.wait() == 0
