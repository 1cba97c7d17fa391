# SPDX-License-Identifier: Apache-2.0
"""The widget that receives the keys is visible."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nri_scope.tui.actions import ACTIONS
from nri_scope.tui.widgets.board import Board
from tests.amount import amount, sampled
from tests.tui.screen import Shown, copy_recording, showing

_UNUSED = {"quit", "suspend", "export"}
"""Actions that end, stop or write something."""
_KEYS = tuple(action.keys[0] for action in ACTIONS if action.name not in _UNUSED)


def _is_visible(shown: Shown) -> bool:
    """Return whether the focused widget is drawn, or is a list with a text in its place."""
    app, views = shown.app, shown.app.views
    focused = app.focused
    if focused is None:
        return False
    if focused is views.events and views.nothing.has_class("-shown"):
        focused = views.nothing
    region = focused.region
    if not region.area:
        return False
    top, _ = app.screen.get_widget_at(*region.offset)
    return focused in top.ancestors_with_self


async def _check_after_each(shown: Shown, keys: list[str]) -> None:
    for number, key in enumerate(keys, 1):
        await shown.press(key)
        try:
            await shown.until(lambda: _is_visible(shown))
        except AssertionError as error:
            raise AssertionError(f"after {keys[max(0, number - 8) : number]}: {error}") from None


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", sampled([((80, 24),), ((40, 12),)]))
async def test_any_keys_leave_the_focus_on_a_visible_widget(
    size: tuple[int, int], tmp_path: Path
) -> None:
    chosen = random.Random(str(size))
    keys = [*_KEYS, "escape", "z", "z", "z", "tab", "tab", "p", *"123456"]
    async with showing(copy_recording(tmp_path), size) as shown:
        await shown.shows("session 1")
        await _check_after_each(shown, chosen.choices(keys, k=amount(80, 80)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("view", "1236")
async def test_keys_from_maximised_details_show_what_they_focus(view: str) -> None:
    async with showing() as shown:
        await shown.shows("session 1")
        for key in ("tab", "escape", "b", "/", "f", "}", ")"):
            await _check_after_each(shown, [view, "z", key, "escape", "escape", view])


async def test_tab_from_maximised_details_restores_the_list() -> None:
    async with showing() as shown:
        await shown.shows("session 1")
        await shown.press("z")
        await shown.press("tab", "down")
        await shown.shows("2 of 32", "> ", "Pod/container")
        assert shown.app.focused is shown.app.views.events


@pytest.mark.exhaustive
async def test_details_below_a_view_leave_its_cursor_visible() -> None:
    async with showing(size=(80, 16)) as shown:
        for view in "23456":
            await shown.press(view, "G")
            board = shown.app.views.current
            assert isinstance(board, Board)
            await shown.until(lambda board=board: board.has_content)  # type: ignore[misc]
            await shown.press("G", "p")
            await shown.until(
                lambda board=board: (
                    not board.line_count  # type: ignore[misc]
                    or board.body.cursor - board.body.top < board.body.size.height > 0
                )
            )
            await shown.press("p")


async def test_only_an_accepted_filter_leaves_the_details() -> None:
    async with showing() as shown:
        await shown.shows("session 1")
        await shown.press("z")
        await shown.press("f", "escape")
        assert shown.app.views.in_detail
        assert shown.app.views.detail.is_alone
        await shown.press("f", *"ns:payments-prod", "enter")
        assert shown.app.focused is shown.app.views.events
        await shown.shows("ns:payments-prod", "CreateContainer")


async def test_a_key_after_the_one_that_hides_the_details_reaches_the_list() -> None:
    async with showing(size=(100, 40)) as shown:
        await shown.shows("session 1", "[Summary]")
        await shown.press("tab", "p", "down")
        await shown.shows("2 of 32")
        await shown.press("z", "z", "down")
        await shown.shows("3 of 32")
