# SPDX-License-Identifier: Apache-2.0
"""Tables sorted by a column."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.tui.plugins.plugin_board import PluginBoard

from .screen import showing

RECORDINGS = Path(__file__).parents[2] / "recordings"
TAPPED = RECORDINGS / "containerd-2.4.nriscope.zip"
RESTART = RECORDINGS / "containerd-2.1-restart.nriscope.zip"
WIDE = (120, 50)


def column(text: str, title: str) -> list[str]:
    """Return the words below a title, of the lines of the table."""
    head, *lines = text.split("\n")[2:]
    end = head.index(title) + len(title)
    words = (line[:end].split(" ")[-1] for line in lines[:12] if line.strip())
    return [each for each in words if each != "?"]


async def test_plugins_are_sorted_by_each_column() -> None:
    async with showing(TAPPED, WIDE) as screen:
        await screen.pilot.press("4")
        await screen.shows("95-probe-c", "60-cpu-policy")
        natural = column(screen.text(), "Calls")
        await screen.pilot.press(">", ">", ">")
        await screen.shows("▼Calls")
        await screen.until(lambda: column(screen.text(), "Calls") != natural)
        calls = [int(each) for each in column(screen.text(), "Calls")]
        assert calls == sorted(calls, reverse=True)
        await screen.pilot.press("~")
        await screen.shows("▲Calls")
        await screen.until(
            lambda: [int(each) for each in column(screen.text(), "Calls")] == sorted(calls)
        )
        await screen.pilot.press("<", "<")
        await screen.shows("▲Plugin")
        await screen.pilot.press("<")
        await screen.hides("▲")
        assert column(screen.text(), "Calls") == natural


@pytest.mark.exhaustive
async def test_the_selected_line_stays_selected() -> None:
    async with showing(TAPPED, WIDE) as screen:
        await screen.pilot.press("4")
        await screen.shows("60-cpu-policy")
        board = screen.app.views.boards["plugins"]
        assert isinstance(board, PluginBoard)
        selected = board.entry
        for _ in range(4):
            await screen.pilot.press(">", "~")
            assert board.entry == selected


async def test_unknown_values_and_headings_come_last() -> None:
    async with showing(RESTART, WIDE) as screen:
        await screen.pilot.press("5")
        await screen.shows("gap")
        await screen.pilot.press(">")
        await screen.shows("▼Session")
        lines = [each.strip(" >") for each in screen.text().split("\n")[3:7]]
        assert [each[:2].strip() for each in lines[:2]] == ["2", "1"]
        assert any("gap" in each for each in lines[2:])
