# SPDX-License-Identifier: Apache-2.0
"""The comparison on a screen: read in a thread, laid out for the width, closed by Escape."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from textual.app import App
from textual.pilot import Pilot

from nri_scope.errors import RecordingError
from nri_scope.events import Event
from nri_scope.tui.detail.comparison import CompareScreen, of_events
from nri_scope.tui.store.store import Store
from tests.replay.recordings import RECORDING
from tests.tui.keyboard import press, wait_until_handled
from tests.tui.widgets.drawn import text_on


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    opened = await Store.open(RECORDING)
    yield opened
    await opened.close()


async def _events(store: Store) -> list[Event]:
    rows = await store.rows(store.all, 0, 40)
    created = (row.event for row in rows if row.event is not None)
    return [event for event in created if event.event == "CreateContainer"]


async def _wait_for(pilot: Pilot[None], text: str) -> str:
    for _ in range(3_000):
        if text in (found := text_on(pilot.app)):
            return found
        await wait_until_handled(pilot)
    raise AssertionError(f"no {text!r} in:\n{text_on(pilot.app)}")


async def test_differences_fit_the_width_and_escape_closes_them(store: Store) -> None:
    one, other, *_ = await _events(store)
    app: App[None] = App()
    async with app.run_test(size=(140, 40)) as pilot:
        await app.push_screen(CompareScreen(of_events(store, one, other)))
        await _wait_for(pilot, "annotations[io.kubernetes.cri.container-name]  ")
        await pilot.resize_terminal(80, 40)
        await _wait_for(pilot, "annotations[io…name]  ")
        await press(pilot, "escape")
        assert not isinstance(app.screen, CompareScreen)


async def test_read_error_is_shown(store: Store) -> None:
    class Damaged:
        async def run(self, _work: object) -> None:
            raise RecordingError("x.db", "it is damaged at event 5")

    one, other, *_ = await _events(store)
    app: App[None] = App()
    async with app.run_test(size=(140, 40)) as pilot:
        damaged = of_events(Damaged(), one, other)  # type: ignore[arg-type]
        await app.push_screen(CompareScreen(damaged))
        await _wait_for(pilot, "x.db: it is damaged at event 5")


async def test_help_lists_the_keys(store: Store) -> None:
    one, other, *_ = await _events(store)
    app: App[None] = App()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(CompareScreen(of_events(store, one, other)))
        await press(pilot, "?")
        await _wait_for(pilot, "keys of the comparison")
        await _wait_for(pilot, "show whole values, and their history")
        await press(pilot, "escape")
        assert isinstance(app.screen, CompareScreen)


async def test_enter_shows_all_of_a_difference_and_escape_returns_to_the_rows(
    store: Store,
) -> None:
    one, other, *_ = await _events(store)
    app: App[None] = App()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(CompareScreen(of_events(store, one, other)))
        await _wait_for(pilot, "7 differences")
        while not _line(app, "env DB_HOST").startswith("│ >"):
            await press(pilot, "down")
        await press(pilot, "enter")
        text = await _wait_for(pilot, "B: blame")
        assert 'A: "ledger-db.acme.internal"  Pod spec/CRI' in text
        await press(pilot, "escape")
        assert isinstance(app.screen, CompareScreen)
        assert _line(app, "env DB_HOST").startswith("│ >")


def _line(app: App[None], words: str) -> str:
    return next(line for line in text_on(app).splitlines() if words in line)
