# SPDX-License-Identifier: Apache-2.0
"""What the list of events draws, and what it leaves as it is: a terminal may be far away."""

from __future__ import annotations

import pytest
from textual.strip import Strip

from nri_scope.tui.widgets.event_list import EventList
from tests.tui.screen import Shown, showing
from tests.tui.snapshot import stands_still


@pytest.fixture(name="drawn")
def _drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lines that were drawn."""
    drawn: list[int] = []
    render_line = EventList.render_line

    def noted(self: EventList, y: int) -> Strip:
        drawn.append(y)
        return render_line(self, y)

    monkeypatch.setattr(EventList, "render_line", noted)
    return drawn


async def _all_read(screen: Shown) -> None:
    await screen.shows("1 of 34", "RunPodSandbox")
    await stands_still(screen, 0.3)


async def test_a_cursor_that_moves_by_one_row_has_two_of_them_drawn(drawn: list[int]) -> None:
    async with showing(size=(100, 24)) as screen:
        await _all_read(screen)
        drawn.clear()
        await screen.press("down")
        await screen.shows("2 of 34")
        await screen.press("down")
        await screen.shows("3 of 34", ">   2 ")
        assert set(drawn) == {0, 1, 2}


async def test_a_window_that_moves_is_drawn_whole(drawn: list[int]) -> None:
    async with showing(size=(100, 24)) as screen:
        await _all_read(screen)
        height = screen.app.events.listing.height
        screen.app.events.go_to(height - 1)
        await stands_still(screen, 0.3)
        drawn.clear()
        await screen.press("down")
        await screen.shows(f"{height + 1} of 34", f">  {height} ")
        assert len(set(drawn)) == height


async def test_keys_that_do_nothing_on_a_session_say_why() -> None:
    async with showing() as screen:
        await _all_read(screen)
        await screen.press("=")
        await screen.shows("! this row is a session, not an event; type session:1 as a filter")
        await screen.press("o")
        await screen.shows("! this row is a session, not an event, and about no container")
        await screen.press("!")
        await screen.shows("! this row is a session, not an event; type session:1 as a filter")
        assert screen.app.context.where_text == ""


async def test_how_long_an_answer_took_is_filtered_by() -> None:
    async with showing() as screen:
        await _all_read(screen)
        screen.app.events.go_to_event(3)
        await screen.until(lambda: screen.app.events.selected_row)
        await screen.press("right", "right", "=")
        await screen.until(lambda: screen.app.context.where_text == "took:>=406us")
