# SPDX-License-Identifier: Apache-2.0
"""The private parts of Textual that are used still exist and work."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from nri_scope.tui.textual_workarounds import SizedView, do_bound
from nri_scope.tui.widgets.filter_bar import TextLine
from tests.tui.widgets.drawn import text_on


class _Focused(Widget, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "note")]
    DEFAULT_CSS = "_Focused { height: 1; }"

    def action_note(self) -> None:
        assert isinstance(self.app, _App)
        self.app.done.append("of the widget")


class _App(App[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "note")]

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def compose(self) -> ComposeResult:
        yield TextLine(lambda: None, value="a\x1b[31mb\u202ec")
        yield _Focused()

    def action_note(self) -> None:
        self.done.append("of the app")


async def test_do_bound_runs_the_action_before_it_returns() -> None:
    app = _App()
    async with app.run_test():
        app.screen.set_focus(app.query_one(_Focused))
        assert await do_bound(app, "x")
        assert app.done == ["of the widget"]
        assert await do_bound(app, "y")
        assert app.done == ["of the widget", "of the app"]
        assert not await do_bound(app, "z")


async def test_text_line_displays_its_value_escaped() -> None:
    app = _App()
    async with app.run_test():
        line = app.query_one(TextLine)
        assert line.value == "a\x1b[31mb\u202ec"
        assert "a·[31mb·c" in text_on(line)


class _Rows(SizedView):
    DEFAULT_CSS = "_Rows { height: 1fr; scrollbar-size: 1 1; }"

    def resized(self) -> None:
        self.resize_content(Size(1, 300))

    def render_line(self, y: int) -> Strip:
        return Strip.blank(self.size.width, self.rich_style)


class _Scrolling(App[None]):
    def compose(self) -> ComposeResult:
        yield _Rows()


class _Content(_Rows):
    DEFAULT_CSS = "_Content { height: 1fr; scrollbar-size: 1 1; }"

    def resized(self) -> None:
        pass


class _Two(App[None]):
    def compose(self) -> ComposeResult:
        yield _Content()
        yield _Content()


@pytest.mark.parametrize("height", [3, 24])
@pytest.mark.parametrize("position", [0, 1, 37, 150, 262, 299])
@pytest.mark.parametrize("is_pointed_at", [False, True])
async def test_the_scroll_bar_looks_like_that_of_textual(
    height: int, position: int, is_pointed_at: bool
) -> None:
    app = _Scrolling()
    async with app.run_test(size=(20, height)) as pilot:
        await pilot.pause()
        bar = app.query_one(_Rows).vertical_scrollbar
        bar.position = position
        bar.mouse_over = is_pointed_at
        await pilot.pause()
        assert bar.size.height == height
        expected = Widget.render_lines(bar, bar.size.region)
        assert [list(strip) for strip in bar.render_lines(bar.size.region)] == [
            list(strip) for strip in expected
        ]
        assert [list(strip) for strip in bar.render_lines(Region(0, 1, 1, 2))] == [
            list(strip) for strip in expected[1:3]
        ]


async def test_the_style_of_a_draw_is_that_of_the_widget() -> None:
    app = _Scrolling()
    async with app.run_test() as pilot:
        for theme in ("textual-dark", "textual-light"):
            app.theme = theme
            await pilot.pause()
            rows = app.query_one(_Rows)
            [line] = rows.render_lines(Region(0, 0, 5, 1))
            style = ScrollView.rich_style.fget(rows)  # type: ignore[attr-defined]
            assert {segment.style for segment in line} == {style}


def _bars(rows: _Rows) -> list[tuple[float, ...] | None]:
    bars = rows.vertical_scrollbar, rows.horizontal_scrollbar
    are_shown = rows.show_vertical_scrollbar, rows.show_horizontal_scrollbar
    return [
        (bar.window_virtual_size, bar.window_size) if is_shown else None
        for bar, is_shown in zip(bars, are_shown, strict=True)
    ]


@pytest.mark.exhaustive
async def test_a_change_of_the_content_leaves_the_bars_that_a_layout_would() -> None:
    chance = Random(1)
    app = _Two()
    async with app.run_test(size=(20, 24)) as pilot:
        await pilot.pause()
        quick, laid_out = app.query(_Content)
        seen = set()
        for _ in range(150):
            size = Size(chance.choice([0, 5, 18, 19, 20, 21, 40]), chance.randrange(30))
            quick.resize_content(size)
            laid_out.virtual_size = size
            await pilot.pause()
            assert _bars(quick) == _bars(laid_out), size
            seen.add(tuple(each is not None for each in _bars(quick)))
        assert len(seen) == 4
