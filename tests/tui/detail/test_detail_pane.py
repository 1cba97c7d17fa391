# SPDX-License-Identifier: Apache-2.0
"""The detail pane follows the selection, reads in a thread, and adapts to its size."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from textual.app import App, ComposeResult
from textual.containers import Container as Box
from textual.pilot import Pilot

from nri_scope.errors import RecordingError
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.detail import detail_pane
from nri_scope.tui.detail.detail_pane import DetailPane
from nri_scope.tui.detail.tab_lines import Tab
from nri_scope.tui.store.rows import ListRow
from nri_scope.tui.store.store import Store
from nri_scope.tui.widgets.lines import LinesView
from tests.recording.traffic import NOW, a_start, an_item
from tests.replay.recordings import RECORDING
from tests.sample_names import CHECKOUT_API
from tests.tui.hostile import assert_harmless, hostile_recording
from tests.tui.keyboard import press, wait_until_handled
from tests.tui.screen import settle
from tests.tui.widgets.drawn import text_on

T = TypeVar("T")


class _OtherView(LinesView):
    """Placeholder for the view beside the pane."""


class _App(App[None]):
    def __init__(self, store: Store, *, hidden: bool = False) -> None:
        super().__init__()
        self.pane = DetailPane(store, hidden=hidden)
        self.pane.left = self._left
        self.left_count = 0

    def compose(self) -> ComposeResult:
        with Box():
            yield _OtherView(empty="the list")
            yield self.pane

    def _left(self) -> None:
        self.left_count += 1


class _CountingStore:
    """Store that counts requests and can delay or fail them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.requests = 0
        self.release = threading.Event()
        self.release.set()
        self.error: Exception | None = None
        self.analysis = store.analysis

    async def run(self, work: Callable[[Recording], T]) -> T:
        self.requests += 1
        if self.error is not None:
            raise self.error

        def work_when_released(recording: Recording) -> T:
            assert self.release.wait(10)
            return work(recording)

        return await self._store.run(work_when_released)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    found = await Store.open(RECORDING)
    yield found
    await found.close()


async def _rows(store: Store) -> list[ListRow]:
    rows = await store.rows(store.all, 0, 40)
    return [row for row in rows if row.event is not None]


async def _wait_for(pilot: Pilot[None], text: str) -> str:
    """Wait until the pane shows ``text``; return the pane's text."""
    pane = pilot.app.query_one(DetailPane)
    for _ in range(3_000):
        if text in (found := text_on(pane)):
            return found
        await wait_until_handled(pilot)
    raise AssertionError(f"no {text!r} in:\n{text_on(pane)}")


async def test_shows_the_selected_row_and_keeps_the_tab(store: Store) -> None:
    rows = await _rows(store)
    app = _App(store)
    async with app.run_test(size=(140, 40)) as pilot:
        app.pane.show(rows[4])
        text = await _wait_for(pilot, "before")
        assert "[Summary] Container  Changes  Blame  Raw" in text
        assert f"#5 CreateContainer {CHECKOUT_API}" in text
        app.pane.action_previous_tab()
        await _wait_for(pilot, "request:")
        assert app.pane.tab is Tab.RAW
        app.pane.show(rows[5])
        text = await _wait_for(pilot, "POST_CREATE_CONTAINER")
        assert "[Raw]" in text


async def test_click_selects_a_tab(store: Store) -> None:
    rows = await _rows(store)
    app = _App(store)
    async with app.run_test(size=(100, 40)) as pilot:
        app.pane.show(rows[4])
        await _wait_for(pilot, "before")
        await pilot.click("TabLine", offset=(13, 0))
        assert app.pane.tab is Tab.CONTAINER
        await _wait_for(pilot, "pod_sandbox_id:")


async def test_rows_that_are_only_passed_over_are_not_read(store: Store) -> None:
    rows = await _rows(store)
    counting = _CountingStore(store)
    app = _App(counting)  # type: ignore[arg-type]
    async with app.run_test(size=(100, 40)) as pilot:
        for row in rows[:20]:
            app.pane.show(row)
        await _wait_for(pilot, f"number      {rows[19].event_id},")
        assert counting.requests == 1


async def test_slow_row_shows_a_placeholder(store: Store) -> None:
    rows = await _rows(store)
    counting = _CountingStore(store)
    app = _App(counting)  # type: ignore[arg-type]
    async with app.run_test(size=(140, 40)) as pilot:
        app.pane.show(rows[4])
        await _wait_for(pilot, "before")
        counting.release.clear()
        app.pane.show(rows[5])
        text = await _wait_for(pilot, "…")
        assert "#6" in text and "before" not in text
        counting.release.set()
        await _wait_for(pilot, "number      6,")


async def test_late_placeholder_does_not_replace_content(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = await _rows(store)
    app = _App(store)
    async with app.run_test(size=(100, 40)) as pilot:
        placeholders: list[Callable[[], object]] = []
        set_timer = app.pane.set_timer

        def record_timer(delay: float, callback: Callable[[], object]) -> object:
            if delay == detail_pane._PLACEHOLDER_DELAY_S:
                placeholders.append(callback)
            return set_timer(delay, callback)

        monkeypatch.setattr(app.pane, "set_timer", record_timer)
        app.pane.show(rows[4])
        await _wait_for(pilot, "number      5,")
        for callback in placeholders:
            callback()
        await wait_until_handled(pilot)
        assert placeholders
        assert "number      5," in text_on(app.pane)


async def test_content_stays_while_it_is_reread(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detail_pane, "_REREAD_S", 0.001)
    rows = await _rows(store)
    counting = _CountingStore(store)
    app = _App(counting)  # type: ignore[arg-type]
    async with app.run_test(size=(100, 40)) as pilot:
        app.pane.show(rows[4])
        await _wait_for(pilot, "before")
        monkeypatch.setattr(detail_pane, "_PLACEHOLDER_DELAY_S", 0.001)
        counting.release.clear()
        app.pane.recording_grown()
        while counting.requests < 2:
            await wait_until_handled(pilot)
        later = asyncio.Event()
        app.pane.set_timer(0.05, later.set)
        await later.wait()
        assert "before" in text_on(app.pane)
        counting.release.set()


async def test_outdated_results_are_not_shown(store: Store) -> None:
    rows = await _rows(store)
    counting = _CountingStore(store)
    app = _App(counting)  # type: ignore[arg-type]
    async with app.run_test(size=(100, 40)) as pilot:
        counting.release.clear()
        app.pane.show(rows[4])
        await _wait_for(pilot, "…")
        app.pane.show(rows[5])
        app.pane.show_tab(Tab.RAW)
        counting.release.set()
        await _wait_for(pilot, "POST_CREATE_CONTAINER")
        assert counting.requests <= 3


async def test_hidden_pane_reads_nothing(store: Store) -> None:
    rows = await _rows(store)
    counting = _CountingStore(store)
    app = _App(counting, hidden=True)  # type: ignore[arg-type]
    async with app.run_test(size=(100, 40)) as pilot:
        app.pane.show(rows[4])
        app.pane.show_tab(Tab.RAW)
        await wait_until_handled(pilot)
        assert counting.requests == 0
        app.pane.action_toggle_detail()
        await _wait_for(pilot, "request:")
        app.pane.action_toggle_detail()
        await wait_until_handled(pilot)
        assert app.left_count == 1
        assert "request:" not in text_on(app)


async def test_pane_is_beside_the_list_on_a_wide_screen_or_when_moved(
    store: Store,
) -> None:
    app = _App(store)
    async with app.run_test(size=(220, 50)) as pilot:
        await wait_until_handled(pilot)
        assert app.pane.region.x == 110
        app.pane.action_move_detail()
        await wait_until_handled(pilot)
        assert (app.pane.region.x, app.pane.region.y) == (0, 25)
        await pilot.resize_terminal(80, 24)
        await wait_until_handled(pilot)
        assert (app.pane.region.x, app.pane.region.y) == (0, 12)
        app.pane.action_move_detail()
        await wait_until_handled(pilot)
        assert app.pane.region.x == 40
    other = _App(store)
    async with other.run_test(size=(80, 24)) as pilot:
        await wait_until_handled(pilot)
        assert other.pane.region.y == 12


async def test_maximised_pane_has_the_focus(store: Store) -> None:
    app = _App(store)
    async with app.run_test(size=(80, 24)) as pilot:
        app.pane.action_maximise_detail()
        await wait_until_handled(pilot)
        assert app.pane.region.size == (80, 24)
        assert app.focused is app.pane.body
        app.pane.action_maximise_detail()
        await wait_until_handled(pilot)
        assert app.left_count == 1
        assert app.pane.region.height == 12


async def test_enter_shows_all_lines_of_blame(store: Store) -> None:
    rows = await _rows(store)
    app = _App(store)
    async with app.run_test(size=(100, 60)) as pilot:
        app.pane.show_tab(Tab.BLAME)
        app.pane.show(rows[4])
        text = await _wait_for(pilot, "Enter in this pane shows all lines")
        assert "PATH=/bin" not in text
        app.pane.body.focus()
        await press(pilot, "enter")
        await _wait_for(pilot, "PATH=/bin")


async def test_repeated_search_continues_from_the_last_match(store: Store) -> None:
    rows = await _rows(store)
    app = _App(store)
    async with app.run_test(size=(100, 40)) as pilot:
        app.pane.show_tab(Tab.RAW)
        app.pane.show(rows[4])
        await _wait_for(pilot, "request:")
        assert await app.pane.find("destination")
        first = app.pane.body.found
        assert await app.pane.find("destination")
        assert app.pane.body.found > first
        assert await app.pane.find("destination", forwards=False)
        assert app.pane.body.found == first
        assert not await app.pane.find("no such text")


async def test_read_error_is_shown(store: Store) -> None:
    rows = await _rows(store)
    counting = _CountingStore(store)
    counting.error = RecordingError("x.db", "it is damaged at event 5")
    app = _App(counting)  # type: ignore[arg-type]
    async with app.run_test(size=(100, 40)) as pilot:
        app.pane.show(rows[4])
        await _wait_for(pilot, "x.db: it is damaged at event 5")


@pytest.mark.exhaustive
async def test_a_hostile_recording_is_harmless_in_every_tab(tmp_path: Path) -> None:
    store = await Store.open(hostile_recording(tmp_path / "r.nriscope.db"))
    try:
        rows = await _rows(store)
        app = _App(store)
        async with app.run_test(size=(120, 60)) as pilot:
            for row in rows[3:7]:
                app.pane.show(row)
                for tab in Tab:
                    app.pane.show_tab(tab)
                    await settle(app, pilot)
                    assert_harmless(text_on(app).replace("▁", ""))
    finally:
        await store.close()


async def test_summary_is_updated_while_the_recording_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detail_pane, "_REREAD_S", 0.01)
    path = tmp_path / "r.nriscope.db"
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    recorder.capture(session, an_item(wall_ns=NOW))
    store = await Store.open(path)

    async def until(events: int) -> None:
        while store.all.events < events:
            await store.refresh()
            await asyncio.sleep(0.01)

    try:
        app = _App(store)
        async with app.run_test(size=(100, 40)) as pilot:
            await until(1)
            app.pane.show((await _rows(store))[0])
            await _wait_for(pilot, "after       no event")
            recorder.capture(session, an_item("Configure", wall_ns=NOW + 10**9))
            await until(2)
            app.pane.recording_grown()
            await _wait_for(pilot, "after       1.00s: 2 Configure")
    finally:
        await store.close()
        recorder.close()
