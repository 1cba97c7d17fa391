# SPDX-License-Identifier: Apache-2.0
"""Times in the interface: going to one, filtering by one, and by what the timeline shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.errors import FilterError
from nri_scope.filter import parse
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.timeline.timeline_board import TimelineBoard
from tests.amount import sampled
from tests.recording.timed_events import DAY, SECOND, SPREAD, START, write
from tests.sample_names import NAMESPACE
from tests.tui.screen import RECORDING, Shown, showing

WEB_CREATED = 5
"""Event at 11:52:26.573, of the container checkout-api."""


async def go_to(shown: Shown, text: str) -> None:
    await shown.press(":")
    await shown.type(text)
    await shown.press("enter")


async def timeline(shown: Shown) -> TimelineBoard:
    """Show the timeline, and wait until it has read the events of its lanes."""
    await shown.press("3")
    await shown.until(lambda: shown.app.views.mode == "timeline")
    board = shown.app.views.current
    assert isinstance(board, TimelineBoard)
    await shown.until(lambda: board.line_count and not board.is_missing_data())
    return board


async def filtered(shown: Shown, text: str, events: int) -> None:
    """Wait until a filter has finished."""
    app = shown.app
    await shown.until(lambda: app.context.where_text == text and app.views.events.view.complete)
    await shown.until(lambda: app.views.events.view.events == events)


@pytest.mark.parametrize("key", sampled(["1", "2", "3", "4", "5", "6"], 2))
async def test_an_event_number_is_gone_to_from_every_view(key: str) -> None:
    async with showing() as shown:
        await (timeline(shown) if key == "3" else shown.press(key))
        await go_to(shown, "5")
        await shown.until(lambda: shown.app.views.current.selected_event_id == WEB_CREATED)
        if key != "3":
            await shown.shows("> 11:52:26.573 CreateContainer")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("1", "11:52:26.57"),
        ("2", "+0.185s"),
        ("4", "2026-12-01T12:52:26.56+01:00"),
        ("5", "-0.7s"),
        ("6", "11:52:26.56"),
    ],
)
async def test_a_time_is_gone_to_from_every_view(key: str, text: str) -> None:
    async with showing() as shown:
        await shown.press(key)
        await go_to(shown, text)
        await shown.until(lambda: shown.selected == WEB_CREATED)
        assert shown.app.views.mode == "events"


@pytest.mark.exhaustive
async def test_the_cursor_of_the_timeline_goes_to_a_time() -> None:
    async with showing() as shown:
        board = await timeline(shown)
        await shown.press("+", "+", "+")
        await go_to(shown, "11:52:26.6")
        await shown.until(lambda: board.at_ns == 1_796_125_946_600_000_000)
        assert board.window.shows(board.at_ns)
        await go_to(shown, "+1h")
        await shown.shows("+1h is outside the timeline")


@pytest.mark.exhaustive
async def test_events_that_are_not_shown_are_reported() -> None:
    async with showing(where=parse("container:checkout-api")) as shown:
        await shown.shows("1 of 8")
        await go_to(shown, "4")
        await shown.shows("event 4 is not in this list; event 5 is the next one")
        assert shown.selected == WEB_CREATED
        await go_to(shown, "99")
        await shown.shows("there is no event 99; the recording has events 1 to 32")
        await go_to(shown, "0")
        await shown.shows("there is no event 0; the recording has events 1 to 32")
        for text in ("3000-01-01", "9999-12-31"):
            await go_to(shown, text)
            await shown.shows(f"there is no event at {text} or later; the recording has events fro")
        assert shown.selected == WEB_CREATED
        await go_to(shown, "32")
        await shown.shows("this list has no event from event 32 on")
        await go_to(shown, "+5s")
        await shown.shows("there is no event at +5s or later")
        assert shown.selected == WEB_CREATED
        await go_to(shown, "")
        await shown.hides("go to")
        assert shown.selected == WEB_CREATED


@pytest.mark.exhaustive
async def test_what_is_typed_is_checked() -> None:
    async with showing() as shown:
        await shown.press(":")
        await shown.shows("a number, a time or a view: 17, 14:05, -10m, plugins")
        await shown.type("soon")
        await shown.press("enter")
        await shown.shows('error: "soon" is neither the number of an event nor a time; write 17,')
        await shown.press("escape")
        await shown.hides("go to")


async def test_times_of_a_filter_are_those_of_the_recording(tmp_path: Path) -> None:
    path = write(tmp_path / "x.nriscope.db", *(START + at for at in SPREAD))
    async with showing(path, where=parse("time:8:00:30..8:10")) as shown:
        await filtered(shown, "time:8:00:30..8:10", 3)
        where = shown.app.context.where()
        assert str(where) == "time:2026-06-01T08:00:30Z..2026-06-01T08:10:00Z"
        await shown.press("f", *["backspace"] * 20)
        await shown.type("time:>+10m")
        await shown.press("enter")
        await filtered(shown, "time:>+10m", 1)
        await shown.press("f")
        await shown.type("x")
        await shown.shows('"+10mx" is not a time')
        await shown.press("backspace", *["backspace"] * 5)
        await shown.type("2h")
        await shown.press("enter")
        await shown.shows("0 matches", "The recording has events from 2026-06-01 08:00:00.000 to ")


@pytest.mark.exhaustive
async def test_an_ambiguous_time_is_an_error_while_typing_and_at_the_start(tmp_path: Path) -> None:
    path = write(tmp_path / "x.nriscope.db", *(START + day * DAY for day in range(3)))
    async with showing(path) as shown:
        for key in ("f", ":"):
            await shown.press(key)
            await shown.type("time:8:30" if key == "f" else "8:30")
            await shown.shows("8:30 occurs on several days of this recording; write the date")
            await shown.press("escape")
    async with showing(path, where=parse("time:8:30")) as shown:
        assert isinstance(shown.app.failure, FilterError)


@pytest.mark.exhaustive
@pytest.mark.parametrize("zooms", [0, 1, 3, 6])
async def test_the_timeline_filters_by_what_it_shows(zooms: int) -> None:
    with Recording.open(RECORDING) as recording:
        events = list(recording.events())
    async with showing(size=(120, 40), where=parse("ns:payments-prod")) as shown:
        board = await timeline(shown)
        await shown.press("down")
        await go_to(shown, "11:52:26.573")
        await shown.until(lambda: board.selected_event_id == WEB_CREATED)
        await shown.press(*["+"] * zooms)
        await shown.press("=")
        await shown.until(lambda: shown.app.context.where_text != "ns:payments-prod")
        # As typed by people: local times without a date.
        assert shown.app.context.where_text.startswith("ns:payments-prod time:11:52:2")
        window = board.window
        expected = [
            event.id
            for event in events
            if event.namespace == NAMESPACE and window.shows(event.at_ns)
        ]
        assert (len(expected) == 17) == (zooms == 0)
        await filtered(shown, shown.app.context.where_text, len(expected))
        view = shown.app.views.events.view
        assert [view.entry(at) for at in range(view.length)] == expected
        await shown.press("backspace")
        await filtered(shown, "ns:payments-prod", 17)


@pytest.mark.exhaustive
async def test_the_timeline_stays_when_it_becomes_the_filter() -> None:
    async with showing(size=(120, 40)) as shown:
        board = await timeline(shown)
        await shown.press("+", "+")
        before = board.window
        await shown.press("=")
        await shown.until(lambda: board.chosen.where is not None and board.line_count == 3)
        # Only rounded.
        assert abs(board.window.from_ns - before.from_ns) <= before.span // 100
        assert abs(board.window.span - before.span) <= before.span // 100
        await shown.press("backspace")
        await shown.until(lambda: board.chosen.where is None and board.window == board.whole)


async def test_a_filter_of_the_timeline_has_a_date_if_it_is_needed(tmp_path: Path) -> None:
    path = write(tmp_path / "x.nriscope.db", *(START + day * DAY + SECOND for day in range(3)))
    async with showing(path) as shown:
        await timeline(shown)
        await shown.press("=")
        await shown.until(lambda: shown.app.context.where_text.startswith("time:2026-0"))
        assert "T" in shown.app.context.where_text


@pytest.mark.exhaustive
async def test_the_delta_is_that_of_the_shown_list() -> None:
    async with showing(size=(120, 40)) as shown:
        await shown.until(lambda: "+19.1ms" in shown.line(" 5 11:52:26.573"))
        # From event 3, the one before of the same namespace.
        await shown.press("f")
        await shown.type("ns:payments-prod")
        await shown.press("enter")
        await shown.until(lambda: "+104ms" in shown.line(" 5 11:52:26.573"))
        assert "+" not in shown.line(" 3 11:52:26.468")
        await shown.press("backspace")
        await shown.until(lambda: "+19.1ms" in shown.line(" 5 11:52:26.573"))
        await shown.until(lambda: "+90.9ms" in shown.line(" 3 11:52:26.468"))


@pytest.mark.parametrize(("size", "titles"), [(80, 0), (120, 1), (160, 1)])
async def test_the_delta_has_a_column_if_there_is_room(size: int, titles: int) -> None:
    async with showing(size=(size, 24)) as shown:
        assert shown.line("Pod/container").count(" Delta ") == titles
