# SPDX-License-Identifier: Apache-2.0
"""Every view shows a hostile recording without interpreting its content."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tui.hostile import assert_harmless, hostile_recording
from tests.tui.screen import showing


@pytest.mark.exhaustive
async def test_every_view_escapes_a_hostile_recording(tmp_path: Path) -> None:
    path = hostile_recording(tmp_path / "h.nriscope.db", huge=False)
    async with showing(path, size=(160, 50)) as screen:
        await screen.until(lambda: screen.app.views.events.selected_row)
        for key in ("1", "2", "3", "4", "5", "6"):
            await screen.press(key)
            assert_harmless(screen.text())
        await screen.press("1", "end")
        for _ in range(6):
            await screen.until(lambda: screen.app.views.events.selected_row)
            for _ in range(5):
                await screen.press("]")
                assert_harmless(screen.text())
            await screen.press("up")


@pytest.mark.exhaustive
async def test_completing_and_filtering_by_hostile_names_is_harmless(tmp_path: Path) -> None:
    path = hostile_recording(tmp_path / "h.nriscope.db", huge=False)
    async with showing(path) as screen:
        await screen.until(lambda: screen.app.bar.values)
        await screen.press("f")
        await screen.type("pod:")
        for _ in range(8):
            await screen.press("tab")
            assert_harmless(screen.text())
        await screen.press("enter")
        assert_harmless(screen.text())
