# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the screens, on a small, a medium and a large terminal.

`tests.tui.snapshot` explains how to rewrite them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from textual.widgets import Input

from tests.replay.recordings import of_capture
from tests.tui.live_recording import FixedStatus, LiveRecording
from tests.tui.screen import RECORDING, RECORDINGS, showing
from tests.tui.snapshot import assert_snapshot, each_size

NAME = "node.nriscope.db"
pytestmark = pytest.mark.usefixtures("fixed_environment")


@pytest.fixture(scope="module", name="chain")
def _chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a real containerd with a chain of plugins, two of which change containers."""
    path = tmp_path_factory.mktemp("chain") / NAME
    of_capture("containerd-2.1.9", path)
    return path


@each_size
async def test_views_of_a_passive_recording(size: tuple[int, int]) -> None:
    async with showing(RECORDING, size=size) as screen:
        await assert_snapshot(screen, "events")
        await screen.go_to(5)
        await screen.press("enter")
        await assert_snapshot(screen, "details")
        await screen.press("escape", "p", "2", "down", "down", "down", "right")
        await assert_snapshot(screen, "containers")
        await screen.press("3", "down", "down", "down")
        await assert_snapshot(screen, "timeline")
        await screen.press("5")
        await assert_snapshot(screen, "sessions")


@each_size
async def test_views_of_a_plugin_chain(size: tuple[int, int], tmp_path: Path, chain: Path) -> None:
    # Work on a copy, because marks are written.
    path = Path(shutil.copy(chain, tmp_path / NAME))
    async with showing(path, size=size) as screen:
        await screen.press("c")
        await assert_snapshot(screen, "only-changes")
        await screen.press("v")
        await screen.until(lambda: screen.app.views.events.view.groups is None)
        await screen.go_to(20)
        await screen.press("enter", "]", "]")
        await assert_snapshot(screen, "changes")
        await screen.press("]")
        await assert_snapshot(screen, "blame")
        await screen.press("escape", "m")
        await screen.shows("event 20 is marked")
        await screen.go_to(35)
        await screen.press("d")
        await assert_snapshot(screen, "compare")
        await screen.press("escape", "p", "4", "down", "down", "down")
        await assert_snapshot(screen, "plugins")


@each_size
async def test_findings_of_a_conflict(size: tuple[int, int], tmp_path: Path) -> None:
    # Findings are stored beside the recording.
    path = shutil.copy(RECORDINGS / "containerd-2.1-conflict.nriscope.zip", tmp_path)
    async with showing(Path(path), size=size, surveyed=True) as screen:
        await screen.shows("1 problem")
        await screen.press("6")
        await assert_snapshot(screen, "findings")
        await screen.press("enter")
        await assert_snapshot(screen, "finding-event")


@each_size
async def test_filter_error_no_match_and_help(size: tuple[int, int]) -> None:
    async with showing(RECORDING, size=size) as screen:
        await screen.press("f")
        screen.app.query_one(Input).cursor_blink = False
        await screen.type("spod:checkout")
        await assert_snapshot(screen, "filter-wrong")
        await screen.press("escape", "e")
        await assert_snapshot(screen, "no-match")
        await screen.press("e", "question_mark")
        await assert_snapshot(screen, "help")


async def test_views_of_a_live_recording(tmp_path: Path) -> None:
    recording = LiveRecording(tmp_path / NAME)
    try:
        status = FixedStatus("waiting for a runtime: /var/run/nri/nri.sock: there is no such file")
        async with showing(recording.path, live=True, recorder=status) as screen:
            await assert_snapshot(screen, "live-no-event")
            recording.record(30)
            await assert_snapshot(screen, "live-following")
            await screen.press("up")
            recording.record(12)
            await assert_snapshot(screen, "live-scrolled")
            session = recording.session
            assert session is not None
            recording.recorder.end_session(session, "closed by the runtime", recording.at_ns)
            await screen.press("F")
            await assert_snapshot(screen, "live-runtime-gone")
    finally:
        recording.recorder.close()
