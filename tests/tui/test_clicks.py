# SPDX-License-Identifier: Apache-2.0
"""Clicks on keys of the footer and on column heads; names of views as places to go to."""

from __future__ import annotations

import pytest

from nri_scope.tui.list.row_painter import EventHeader
from nri_scope.tui.widgets.bars import KeyLine
from tests.tui.screen import Shown, showing

WIDE = (120, 40)


async def click(screen: Shown, kind: type[KeyLine | EventHeader], words: str) -> None:
    """Click at the beginning of some words of a widget."""
    widget = screen.app.query_one(kind)
    line = screen.text().splitlines()[widget.region.y]
    await screen.pilot.click(widget, offset=(line.index(words) - widget.region.x, 0))


async def test_a_click_on_a_key_of_the_footer_presses_it() -> None:
    async with showing(size=WIDE) as screen:
        await screen.shows("Enter connections")
        await click(screen, KeyLine, "filter")
        await screen.shows("Enter accept")
        await click(screen, KeyLine, "Esc")
        await screen.until(lambda: "Enter accept" not in screen.text())
        await click(screen, KeyLine, "?")
        await screen.shows("/ finds an action, Esc closes")


async def test_a_click_on_a_column_head_selects_the_column() -> None:
    async with showing(size=WIDE) as screen:
        await screen.press("g", "down")
        await click(screen, EventHeader, "Event ")
        await screen.press("=")
        await screen.shows("event:RunPodSandbox")


@pytest.mark.parametrize(
    ("typed", "shown"),
    [("plugins", "[4 Plugins]"), ("SES", "[5 Sessions]"), ("f", "[6 Findings]")],
)
async def test_the_name_of_a_view_is_a_place_to_go_to(typed: str, shown: str) -> None:
    async with showing(size=WIDE) as screen:
        await screen.press(":")
        await screen.type(typed)
        await screen.press("enter")
        await screen.shows(shown)


async def test_other_names_are_refused_and_quit_ends_the_interface() -> None:
    async with showing(size=WIDE) as screen:
        await screen.press(":")
        await screen.type("nowhere")
        await screen.press("enter")
        await screen.shows('"nowhere" is neither')
        await screen.press("escape", ":", "q", "enter")
        await screen.until(lambda: not screen.app.is_running)


async def test_the_help_leads_to_a_search_of_all_actions() -> None:
    async with showing(size=WIDE) as screen:
        await screen.press("?")
        await screen.shows("/ finds an action")
        await screen.press("/")
        await screen.type("timeline")
        await screen.shows("show the timeline   (3)")


async def test_the_palette_begins_with_the_keys_of_the_footer() -> None:
    async with showing(size=WIDE) as screen:
        await screen.press("down")
        await screen.shows("Enter details")
        await screen.press("ctrl+p")
        await screen.shows("next failed or slow event")
        lines = [line for line in screen.text().splitlines() if "   (" in line]
        assert [line.split()[-1] for line in lines[:2]] == ["(m)", "(f)"]
        assert not any("(q" in line for line in lines)
