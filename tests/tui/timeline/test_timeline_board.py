# SPDX-License-Identifier: Apache-2.0
"""The timeline on a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.events import Container
from nri_scope.tui.containers.census import Census
from nri_scope.tui.containers.census_board import SubjectFilter
from nri_scope.tui.store.context import Context
from nri_scope.tui.text.styled_line import text_of
from nri_scope.tui.timeline.lane_drawing import LINES, SIGNS, TICK, UNOBSERVED
from nri_scope.tui.timeline.lanes import CURSOR, RULER, TimelineLanes, legend
from nri_scope.tui.timeline.timeline_board import TimelineBoard
from nri_scope.tui.widgets.board import GUTTER
from nri_scope.tui.widgets.messages import OpenEvent, RowChosen, StatusText
from tests.replay.recordings import RECORDING, recording
from tests.sample_names import API, CHECKOUT_API, EXPORTER, PROXY, REPORT, UPLOAD
from tests.tui.boards import Shown, growing, showing
from tests.tui.hostile import assert_harmless, hostile_recording
from tests.tui.screen import RECORDINGS
from tests.tui.screen import showing as showing_app

FOOT = TimelineBoard.FOOT_LINES


def lanes(shown: Shown) -> list[str]:
    """Return the lanes without their names."""
    board = shown.board
    assert isinstance(board, TimelineBoard)
    return [line[GUTTER + board.margin :] for line in shown.screen[1:-FOOT] if line.strip()]


def names(shown: Shown) -> list[str]:
    board = shown.board
    assert isinstance(board, TimelineBoard)
    return [
        line[GUTTER : GUTTER + board.margin].strip()
        for line in shown.screen[1:-FOOT]
        if line.strip()
    ]


SHORT_CHECKOUT = "…/checkout-ap…x2x9z"


def timeline(shown: Shown) -> TimelineBoard:
    assert isinstance(shown.board, TimelineBoard)
    return shown.board


async def test_shows_lives_to_scale() -> None:
    async with showing(RECORDING, TimelineBoard, size=(120, 30)) as shown:
        assert names(shown) == [
            "monitoring/node-exporte…4kq7w",
            EXPORTER,
            "…/checkout-api-7d9f8c6b…x2x9z",
            API,
            PROXY,
            "reporting/nightly-repor…k6m4z",
            REPORT,
            UPLOAD,
        ]
        app = lanes(shown)[3].strip("╎ ")
        assert app[0] == "+" and app[-1] == "×"
        assert app.index("►") < app.index("•") < app.index("■")
        # Created for 46 ms, then running for 533 ms.
        assert app.count("━") > 5 * app.count("─") > 0
        assert "11:52:26" in shown.screen[0]


async def test_lanes_are_rebuilt_only_if_the_recording_grew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane_counts: list[int] = []
    build = TimelineLanes.of

    def counted(census: Census, chosen: SubjectFilter) -> TimelineLanes:
        lanes = build(census, chosen)
        lane_counts.append(len(lanes))
        return lanes

    monkeypatch.setattr(TimelineLanes, "of", counted)
    with growing(tmp_path / "r.nriscope.db") as recorder:
        async with showing(recorder.path, TimelineBoard) as shown:
            await shown.update()
            await shown.update()
            assert lane_counts == [2]
            recorder.grow()
            await shown.update()
            assert lane_counts == [2, 4]


async def test_the_cursor_names_the_nearest_event_and_enter_opens_it() -> None:
    async with showing(RECORDING, TimelineBoard) as shown:
        await shown.press("down", "down", "down")
        assert "CreateContainer  event 5" in shown.screen[-FOOT]
        assert f"{CHECKOUT_API}  creating 3.14ms, crea…" in shown.screen[1 - FOOT]
        assert "■stopped" in shown.screen[-2]
        await shown.press("enter")
        assert shown.last(OpenEvent).event_id == 5
        chosen = shown.last(RowChosen).row
        assert chosen is not None and chosen.event_id == 5
        selected = timeline(shown).selected
        assert isinstance(selected, Container) and selected.name == API


async def test_every_lane_has_details() -> None:
    async with showing(RECORDING, TimelineBoard, size=(120, 30)) as shown:
        for _ in names(shown):
            row = shown.last(RowChosen).row
            assert row is not None and row.subject == shown.board.selected is not None
            await shown.press("down")


async def test_o_moves_between_events_of_a_lane() -> None:
    async with showing(RECORDING, TimelineBoard) as shown:
        await shown.press("down", "down", "down", "o")
        assert shown.board.selected_event_id == 6
        await shown.press("o", "o", "o")
        assert shown.board.selected_event_id == 13
        await shown.press("O", "O", "O", "O", "O")
        assert shown.board.selected_event_id == 5
        assert shown.last(StatusText).text == "no earlier event of this container"


async def test_zooms_around_the_cursor_and_omits_empty_lanes() -> None:
    async with showing(RECORDING, TimelineBoard) as shown:
        board = timeline(shown)
        whole = board.window
        await shown.press("down", "down", "down", "o", "+", "+", "+", "+")
        assert board.window.span == whole.span // 16
        assert board.window.shows(board.at_ns)
        assert names(shown) == [
            *("…/node-export…4kq7w", EXPORTER, SHORT_CHECKOUT, API, "…/nightly-rep…k6m4z")
        ]
        assert board.selected_event_id == 6
        await shown.press("-")
        assert board.window.span in (whole.span // 8, whole.span // 8 + 1, whole.span // 16 * 2)
        await shown.press("0")
        assert board.window == whole and len(names(shown)) == 8
        assert board.selected_event_id == 6


async def test_window_pans_and_follows_the_cursor() -> None:
    async with showing(RECORDING, TimelineBoard) as shown:
        board = timeline(shown)
        await shown.press("+", "+", "+")
        before = board.window
        await shown.press(">")
        assert board.window.from_ns == before.from_ns + before.span // 2
        await shown.press("<", "<", "<", "<")
        assert board.window.from_ns == board.whole.from_ns
        board.body.on_column(board.margin + board.width - 1)
        await shown.press("right", "right")
        assert board.window.from_ns > board.whole.from_ns and board.window.shows(board.at_ns)
        await shown.press("left")
        assert board.window.shows(board.at_ns)


async def test_shows_only_lanes_of_the_context() -> None:
    context = Context()
    async with showing(RECORDING, TimelineBoard, context=context) as shown:
        await shown.press("down", "down", "down")
        selected = timeline(shown).selected
        assert selected is not None
        context.narrow(selected)
        await shown.update()
        assert names(shown) == [SHORT_CHECKOUT, API]
        # The window now covers only the time of these lanes.
        assert timeline(shown).window.span < 1_300_000_000
        context.filter_by("event:UpdateContainer")
        await shown.update()
        assert lanes(shown)[-1].count("•") == 1 and "►" not in lanes(shown)[-1]
        context.filter_by("pod:nothing")
        await shown.update()
        await shown.press("enter", "o", "+", "right", ">", "0")
        assert shown.board.selected_event_id is None


async def test_lanes_stay_visible_if_the_filter_matches_none_of_their_events() -> None:
    context = Context()
    async with showing(RECORDING, TimelineBoard, context=context) as shown:
        before = names(shown)
        axis = shown.screen[0]
        for text in ("pod:nothing", "event:Configure", "time:..2020-01-01"):
            context.filter_by(text)
            await shown.update()
            assert names(shown) == before and shown.screen[0] == axis
            # States without events.
            assert "━" in lanes(shown)[3] and "►" not in "".join(lanes(shown))
            words = "no event of a pod or container matches the filter; x shows all events"
            assert shown.screen[-FOOT].rstrip() == words
        context.filter_by("")
        await shown.update()
        assert "►" in lanes(shown)[3] and "filter" not in shown.screen[-FOOT]


async def test_lanes_stay_visible_in_a_window_in_which_nothing_existed() -> None:
    context = Context()
    async with showing(RECORDING, TimelineBoard, context=context) as shown:
        await shown.press("down", "down", "down")
        selected = timeline(shown).selected
        assert selected is not None
        context.narrow(selected)
        await shown.update()
        await shown.press(*"++++++++", *"<<<<<<<<")
        assert names(shown) == [SHORT_CHECKOUT, API]
        assert "".join(lanes(shown)).strip("╎ ") == ""
        words = "no pod or container in this window; 0 shows the whole time range"
        assert shown.screen[-FOOT].rstrip() == words
        await shown.press("0")
        assert "RunPodSandbox" in shown.screen[-FOOT]


async def test_home_and_end_go_to_the_first_and_last_time_in_the_lane() -> None:
    async with showing(RECORDING, TimelineBoard) as shown:
        board = timeline(shown)
        await shown.press("down", "down", "down", "end")
        assert board.body.cursor == 3 and board.selected_event_id == 26
        last_ns = board.at_ns
        assert last_ns >= board.store.facts.last_ns
        await shown.press("home")
        assert board.body.cursor == 3 and board.at_ns < last_ns
        first_ns = board.at_ns
        # Also if the time is outside the window.
        await shown.press("+", "+", "+", "end")
        assert board.at_ns == last_ns and board.window.shows(last_ns)
        assert not board.window.shows(first_ns)
        await shown.press("home")
        assert board.at_ns == first_ns and board.window.shows(first_ns)
        await shown.press("G")
        assert board.body.cursor == len(names(shown)) - 1 and board.at_ns == first_ns
        await shown.press("g")
        assert board.body.cursor == 0 and board.at_ns == first_ns
        words = "no event of this pod in this window; 0 shows the whole time range"
        assert shown.screen[-FOOT].rstrip() == words


async def test_search_finds_lanes_by_name() -> None:
    async with showing(RECORDING, TimelineBoard) as shown:
        assert await shown.board.find("istio") and shown.board.body.cursor == 4
        assert not await shown.board.find("nobody")


async def test_empty_recording_shows_a_hint(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.nriscope.db", [])
    async with showing(path, TimelineBoard) as shown:
        assert shown.screen[1].startswith("this recording has no events of pods or containers")
        # The time axis is empty, too.
        assert not shown.screen[0].strip()


async def test_cursor_stays_in_its_lane_when_lanes_are_added(tmp_path: Path) -> None:
    with growing(tmp_path / "r.nriscope.db") as recorder:
        async with showing(recorder.path, TimelineBoard) as shown:
            await shown.press("down")
            recorder.grow()
            await shown.update()
            while len(names(shown)) == 2:
                # Lanes are rebuilt only at intervals.
                await shown.settle()
            assert names(shown) == ["shop/web", "app", "shop/later", "new"]
            assert "shop/web/app" in shown.screen[1 - FOOT]


async def test_hostile_recording_is_escaped(tmp_path: Path) -> None:
    path = hostile_recording(tmp_path / "r.nriscope.db", huge=False)
    async with showing(path, TimelineBoard, size=(120, 50)) as shown:
        assert_harmless("\n".join(shown.screen))
        await shown.press("down", "o", "pagedown", "o")
        assert_harmless("\n".join(shown.screen))


@pytest.mark.parametrize("size", [(20, 6), (160, 50)])
async def test_fits_any_screen(size: tuple[int, int]) -> None:
    async with showing(RECORDING, TimelineBoard, size=size) as shown:
        assert len(shown.screen) == size[1]
        assert all(len(line) <= size[0] for line in shown.screen)


@pytest.mark.parametrize(
    "path",
    [
        RECORDING,
        RECORDINGS / "demo.nriscope.db",
        RECORDINGS / "containerd-2.1-restart.nriscope.zip",
    ],
)
async def test_the_legend_names_every_drawn_sign(path: Path) -> None:
    async with showing(path, TimelineBoard) as shown:
        drawn = set[str]()
        for keys in ((), ("+",), ("+", "+"), ("end",), ("down", "0")):
            await shown.press(*keys)
            drawn |= set("".join((shown.screen[0], *lanes(shown))))
        signs = {each for each in drawn if not each.isascii() or each in "+!~"}
        assert {"▼", "╵", "─", "━"} <= signs
        assert signs <= set("".join(shown.screen[-2:]))
        assert " shown " in shown.screen[0]


async def test_the_help_has_the_legend_that_a_narrow_screen_cuts() -> None:
    async with showing_app(RECORDING, (40, 12)) as screen:
        await screen.press("3")
        await screen.shows("events: +created")
        await screen.press("?", "end")
        await screen.shows("events: +created", "•other", "┈stopped", "╵time")
        await screen.press("escape", "1", "?", "end")
        await screen.shows("deadline set by")
        assert "╵" not in screen.text()


def test_the_legend_fits_and_names_all_signs_of_the_drawing() -> None:
    lines = [text_of(each) for each in legend()]
    assert all(len(each) <= 78 for each in lines)
    for sign, _ in (*SIGNS.values(), *LINES.values(), UNOBSERVED, RULER, CURSOR, TICK):
        assert sign in "".join(lines)
