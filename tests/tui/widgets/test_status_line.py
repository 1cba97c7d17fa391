# SPDX-License-Identifier: Apache-2.0
"""The status line grows with its message, up to three lines."""

from __future__ import annotations

from textual.app import App, ComposeResult

from nri_scope.tui.widgets.bars import StatusLine
from tests.tui.keyboard import wait_until_handled
from tests.tui.widgets.drawn import text_on


class _App(App[None]):
    def compose(self) -> ComposeResult:
        yield StatusLine()


async def test_height_follows_the_length_of_the_message() -> None:
    app = _App()
    async with app.run_test(size=(40, 10)) as pilot:
        status = app.query_one(StatusLine)
        status.words = "x" * 200
        await wait_until_handled(pilot)
        assert status.size.height == 1
        assert text_on(status).rstrip().endswith("…")
        status.say("a very long problem with a file somewhere; the way out of it", problem=True)
        await wait_until_handled(pilot)
        assert status.size.height == 2
        assert "the way out of it" in " ".join(text_on(status).split())
        status.say("word " * 100)
        await wait_until_handled(pilot)
        assert status.size.height == 3
        assert text_on(status).rstrip().endswith("…")
        status.clear_message()
        await wait_until_handled(pilot)
        assert status.size.height == 1
