# SPDX-License-Identifier: Apache-2.0
"""^Z returns to the shell, and fg continues on a screen of any other size."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tests.tui.screen import RECORDING
from tests.tui.terminal import needs_tmux, terminal


@needs_tmux
async def test_suspended_terminal_interface_continues_at_another_size(tmp_path: Path) -> None:
    program = shlex.join((sys.executable, "-m", "nri_scope", "tui", str(RECORDING)))
    async with terminal(tmp_path, "--version; env -u COLUMNS -u LINES bash --norc -i") as window:
        await window.shows("bash")
        await window.press("sh -c ", shlex.quote(f"{program}; echo over"), "Enter")
        await window.shows("[1 Events]", "32 events")
        await window.press("C-z")
        # The shell `sh` has stopped, too; otherwise, nothing could be typed.
        await window.shows("Stopped")
        await window.tmux("resize-window", "-x", "90", "-y", "26")
        await window.press("fg", "Enter")
        await window.shows("[1 Events]", "1 of ")
        await window.press("j")
        await window.shows("2 of 34")
        await window.press("q")
        await window.shows("over")


@needs_tmux
async def test_suspend_is_refused_without_a_shell_to_return_to(tmp_path: Path) -> None:
    async with terminal(tmp_path, f"tui {RECORDING}") as window:
        await window.shows("[1 Events]")
        await window.press("C-z")
        await window.shows("cannot suspend")
        await window.press("q")
        await window.shows("ended with 0")
