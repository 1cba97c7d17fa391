# SPDX-License-Identifier: Apache-2.0
"""The list of events redraws as little as possible, for slow terminals."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from textual import events
from textual.scrollbar import ScrollTo
from textual.strip import Strip

from nri_scope.tui.list.event_list import EventList
from nri_scope.tui.store.rows import ListRow
from nri_scope.tui.store.store import Store
from nri_scope.tui.store.view import View
from tests.tui.screen import RECORDINGS, Shown, showing
from tests.tui.snapshot import wait_until_still
from tests.tui.widgets.drawn import strips_of


@pytest.fixture(name="drawn")
def _drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the redrawn lines."""
    drawn: list[int] = []
    render_line = EventList.render_line

    def record_line(self: EventList, y: int) -> Strip:
        drawn.append(y)
        return render_line(self, y)

    monkeypatch.setattr(EventList, "render_line", record_line)
    return drawn


async def _wait_until_read(screen: Shown) -> None:
    await screen.shows("1 of 32", "RunPodSandbox")
    await wait_until_still(screen, 0.3)


async def test_moving_the_cursor_redraws_only_the_old_and_new_row(drawn: list[int]) -> None:
    async with showing(size=(100, 24)) as screen:
        await _wait_until_read(screen)
        drawn.clear()
        await screen.press("down")
        await screen.shows("2 of 32")
        await screen.press("down")
        await screen.shows("3 of 32", ">   4 ")
        assert set(drawn) == {0, 1, 2}


async def test_scrolling_redraws_all_rows(drawn: list[int]) -> None:
    async with showing(size=(100, 24)) as screen:
        await _wait_until_read(screen)
        height = screen.app.views.events.listing.height
        screen.app.views.events.go_to(height - 1)
        await wait_until_still(screen, 0.3)
        drawn.clear()
        await screen.press("down")
        await screen.shows(f"{height + 1} of 32", f">  {height + 2} ")
        assert len(set(drawn)) == height


async def test_an_operation_expanded_while_its_row_is_read_is_drawn_expanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, release = asyncio.Event(), asyncio.Event()
    rows = Store.rows

    async def slowly(self: Store, view: View, start: int, count: int) -> Sequence[ListRow]:
        found = await rows(self, view, start, count)
        held.set()
        await release.wait()
        return found

    conflict = RECORDINGS / "containerd-2.1-conflict.nriscope.zip"
    async with showing(conflict, size=(150, 40)) as screen:
        await screen.go_to(13)
        await screen.shows("▸ CreateContainer")
        monkeypatch.setattr(Store, "rows", slowly)
        screen.app.views.events.grow(events=True)
        await screen.until(held.is_set)
        await screen.press("enter")
        release.set()
        await screen.shows("▾ CreateContainer")


async def test_keys_without_effect_on_a_session_show_the_reason() -> None:
    async with showing() as screen:
        await _wait_until_read(screen)
        await screen.press("end", "=")
        await screen.shows("! this row is a session, not an event; type session:1 as a filter")
        await screen.press("!")
        await screen.shows("! this row is a session, not an event; type session:1 as a filter")
        assert screen.app.context.where_text == ""


async def test_equals_on_the_duration_filters_by_it() -> None:
    async with showing() as screen:
        await _wait_until_read(screen)
        screen.app.views.events.go_to_event(3)
        await screen.until(lambda: screen.app.views.events.selected_row)
        await screen.press("right", "right", "=")
        await screen.until(lambda: screen.app.context.where_text == "took:>=180us")


@pytest.mark.parametrize(("kind", "top"), [(events.MouseScrollDown, 5), (events.MouseScrollUp, 0)])
async def test_mouse_wheel_scrolls_the_list(kind: type[events.MouseEvent], top: int) -> None:
    async with showing() as screen:
        await _wait_until_read(screen)
        listing = screen.app.views.events.listing
        listing.scroll(2)
        wheel = kind(screen.app.views.events, 5, 5, 0, 0, 0, shift=False, meta=False, ctrl=False)
        screen.app.views.events.post_message(wheel)
        await screen.until(lambda: listing.top == top)
        assert screen.app.views.events.scroll_y == top


async def test_scroll_bar_scrolls_the_list() -> None:
    async with showing() as screen:
        await _wait_until_read(screen)
        screen.app.views.events.post_message(ScrollTo(y=7))
        await screen.until(lambda: screen.app.views.events.listing.top == 7)
        assert screen.app.views.events.scroll_y == 7


async def test_no_color_leaves_only_default_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with showing() as screen:
        await _wait_until_read(screen)
        segments = [segment for strip in strips_of(screen.app) for segment in strip]
        styles = [segment.style for segment in segments if segment.style]
        colors = [color for style in styles for color in (style.color, style.bgcolor) if color]
        assert all(color.is_default for color in colors)
        assert any(style.reverse for style in styles)


async def test_a_match_is_not_highlighted_across_two_columns() -> None:
    async with showing(size=(100, 24)) as screen:
        await _wait_until_read(screen)
        # A number, and the start of a time.
        assert "2 11:" in screen.text()
        events = screen.app.views.events
        for text, expected in (("11:", {"11:"}), ("2 11:", set[str]())):
            events.search_text = text
            await wait_until_still(screen, 0.3)
            highlighted = {
                segment.text
                for strip in strips_of(screen.app)
                for segment in strip
                if segment.style is not None and segment.style.reverse
            }
            assert {each for each in highlighted if each.isascii() and each.strip()} == expected
