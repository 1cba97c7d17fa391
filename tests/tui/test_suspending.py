# SPDX-License-Identifier: Apache-2.0
"""^Z returns to the shell, and fg continues on a screen of any other size."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.terminal import children
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
        await window.shows("2 of 32")
        await window.press("q")
        await window.shows("over")


@needs_tmux
@pytest.mark.exhaustive
async def test_recorder_of_a_suspended_live_view_is_not_stopped(tmp_path: Path) -> None:
    socket = tmp_path / "nri.sock"
    command = f"tui --live --wait --socket {socket} -o live.nriscope.db"
    program = f"{sys.executable} -m nri_scope {command}"
    async with terminal(tmp_path, "--version; env -u COLUMNS -u LINES bash --norc -i") as window:
        await window.shows("bash")
        await window.press(program, "Enter")
        await window.shows("waiting for a runtime")
        await window.press("C-z")
        await window.shows("Stopped")
        (viewer,) = [pid for pid in _processes() if str(socket) in _command(pid)]
        assert _state(viewer) == "T"
        helpers = list(children(viewer))
        assert any("recorder_process" in _command(pid) for pid in helpers)
        assert "T" not in map(_state, helpers)
        await window.press("fg", "Enter")
        await window.shows("No events yet")
        await window.press("q")
        await window.shows("nothing recorded")


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@needs_tmux
@pytest.mark.exhaustive
async def test_suspend_is_refused_without_a_shell_to_return_to(tmp_path: Path) -> None:
    async with terminal(tmp_path, f"tui {RECORDING}") as window:
        await window.shows("[1 Events]")
        await window.press("C-z")
        await window.shows("cannot suspend")
        await window.press("q")
        await window.shows("ended with 0")
