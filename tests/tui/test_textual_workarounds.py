# SPDX-License-Identifier: Apache-2.0
"""The private parts of Textual that are used still exist and work."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from nri_scope.tui.textual_workarounds import do_bound
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
