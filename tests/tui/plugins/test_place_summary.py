# SPDX-License-Identifier: Apache-2.0
"""The details of a plugin in the detail pane."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.events import Event
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.plugins.plugin_board import PluginBoard
from nri_scope.tui.store.recording_overview import Analysis
from nri_scope.tui.text.styled_line import text_of
from tests.replay.recordings import of_capture
from tests.tui.boards import showing as showing_board
from tests.tui.hostile import assert_harmless, hostile_recording
from tests.tui.screen import RECORDINGS, Shown, showing

SLOW = RECORDINGS / "containerd-2.1-slow-plugin.nriscope.zip"
NORMAL = RECORDINGS / "containerd-2.1-normal-life.nriscope.zip"
TAPPED = RECORDINGS / "containerd-2.4.nriscope.zip"
TALL = (120, 60)


def pane(screen: Shown) -> list[str]:
    """Return the lines of the detail pane."""
    source = screen.app.views.detail.body.source
    return [text_of(source[at] or ()) for at in range(len(source))]


def times_between(path: Path, after: str, before: str) -> list[tuple[int, Event]]:
    """Return the times between two connections in ns, with the later event; the longest first."""
    found = []
    with Recording.open(path) as recording:
        last = None
        for event in recording.events():
            if event.event == "Configure" or event.event == "Synchronize":
                continue
            if event.plugin == before and last is not None and last.event == event.event:
                found.append((event.mono_ns - last.mono_ns - last.took_ns, event))
            last = event if event.plugin == after else None
    return sorted(found, key=lambda each: -each[0])


async def test_plugins_between_two_probes_have_slowest_calls_and_a_plot() -> None:
    expected = times_between(SLOW, "30-nri-scope", "50-nri-scope")
    async with showing(SLOW, TALL) as screen:
        await screen.press("4", "down", "down", "down")
        await screen.shows("31–49: between 30-nri-scope and 50-nri-scope")
        await screen.shows("slowest  ")
        lines = pane(screen)
        calls = [re.search(r"#(\d+) (\w+)  (.*)", each) for each in lines]
        shown = [(int(call[1]), call[2], call[3]) for call in calls if call]
        assert shown == [
            (event.id, event.event, f"{event.namespace}/{event.pod}/{event.container}")
            for _, event in expected[:5]
        ]
        assert any("2.00s  100.1 % of 2.00s  #15 CreateContainer" in each for each in lines)
        # Each of the 15 times is in one range, and the range with the deadline is marked.
        ranges = [re.search(r"(\S+)–(\S+) +(\d+) (.*)", each) for each in lines]
        plot = [one.groups() for one in ranges if one and "#" not in one[0] and one[3].isdigit()]
        plot = [one for one in plot if one[1][-1:] == "s"]
        assert sum(int(one[2]) for one in plot) == len(expected) == 15
        assert [one[0] for one in plot if "deadline 2.00s" in one[3]] == ["1s"]
        assert all(("█" in one[3] or "▌" in one[3]) == (one[2] != "0") for one in plot)


@pytest.mark.exhaustive
async def test_figures_are_those_of_stats(capsys: pytest.CaptureFixture[str]) -> None:
    run(["report", str(SLOW), "--format", "json"])
    between = json.loads(capsys.readouterr().out)["chain"]
    async with showing(SLOW, TALL) as screen:
        await screen.press("4", "down")
        for one in between:
            await screen.shows(f": between {one['after']} and {one['before']}; times", "slowest  ")
            await screen.until(partial(_has, screen, f"and {one['before']};"))
            text = next(each for each in pane(screen) if "p99" in each)
            assert f"max {_duration(one['took_us']['max'])} of {one['count']} events" in text
            assert f"p50 {_duration(one['took_us']['p50'])}" in text
            await screen.press("down", "down")


def _has(screen: Shown, words: str) -> bool:
    return words in "\n".join(pane(screen))


def _duration(us: int) -> str:
    from nri_scope.text.quantities import duration

    return duration(us * 1000)


@pytest.mark.exhaustive
async def test_enter_goes_to_the_slowest_event_from_the_pane_and_from_a_sorted_row() -> None:
    async with showing(SLOW, TALL) as screen:
        await screen.press("4", "down", "down", "down")
        await screen.shows("#15 CreateContainer")
        await screen.press("tab", "enter")
        await screen.until(lambda: screen.selected == 13)
        assert screen.app.views.mode == "events"
        await screen.press("4")
        # Enter waits for the lines of a row that is being read.
        await screen.shows("Raw  31–49")
        await screen.press("tab", "enter")
        await screen.shows("[1 Events]")
        assert screen.selected == 13
        await screen.press("4", "tab")
        await screen.shows("> slowest")
        await screen.press("down", "enter")
        second = times_between(SLOW, "30-nri-scope", "50-nri-scope")[1][1].id
        await screen.until(lambda: second in screen.app.views.events.selected_events)


@pytest.mark.exhaustive
async def test_every_between_row_opens_its_slowest_event() -> None:
    async with showing_board(SLOW, PluginBoard, size=(120, 40)) as shown:
        from nri_scope.tui.widgets.messages import OpenEvent

        board = shown.board
        assert isinstance(board, PluginBoard)
        for at, entry in enumerate(board.entries):
            if entry.ends[0]:
                board.body.go_to(at)
                await shown.press("enter")
                slowest = times_between(SLOW, *entry.ends)[0][1].id
                assert shown.last(OpenEvent).event_id == slowest


@pytest.mark.exhaustive
async def test_changes_of_plugins_are_listed_when_the_recording_was_analysed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(["diff", str(NORMAL), "--format", "json"])
    changes = json.loads(capsys.readouterr().out)["changes"]
    of_first = {one["path"]: one["event"] for one in changes if one["owner"] == "one of 01–29"}
    async with showing(NORMAL, TALL, surveyed=True) as screen:
        await screen.press("4", "down")
        await screen.shows("env FOO")
        lines = pane(screen)
        at = next(at for at, each in enumerate(lines) if each.startswith("changes"))
        assert len(lines) - at == len(of_first) == 3
        assert f"1×  env FOO  newest #{of_first['/process/env/FOO']}" in "\n".join(lines[at:])
        await screen.hides("one of 01–29")
        # Enter opens the newest event of a path.
        await screen.press("tab", "end", "enter")
        shown = screen.app.views.events
        await screen.until(lambda: not {*of_first.values()}.isdisjoint(shown.selected_events))
        await screen.press("4", *["down"] * 4)
        await screen.shows("none, besides those of plugins with a row of their own")


@pytest.mark.exhaustive
async def test_changes_of_a_tapped_plugin_are_counted() -> None:
    async with showing(TAPPED, TALL, surveyed=True) as screen:
        await screen.press("4", *["down"] * 4)
        await screen.shows("4×  env FOO  newest #90")
        await screen.shows("p50 105µs, p99 263µs, max 263µs of 4 events; deadline 2.00s")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("analysis", "words"),
    [
        (Analysis(), "not known: the recording is not analysed"),
        (Analysis(share=0.5), "the recording is being analysed: more changes may follow"),
        (Analysis(share=1.0, problem="it is cut"), "not all events were analysed: it is cut"),
    ],
)
async def test_incomplete_changes_are_named(analysis: Analysis, words: str) -> None:
    async with showing(NORMAL, TALL) as screen:
        screen.app.store.analysis = analysis
        await screen.press("4", "down")
        await screen.shows(words)
        # A passive connection has no changes.
        await screen.press("up")
        await screen.shows("00-nri-scope: passive connection")
        await screen.hides(words)


async def test_times_of_an_owner_of_changes_are_not_known(tmp_path: Path) -> None:
    path = of_capture("containerd-2.4-beta", tmp_path / "r.nriscope.db")
    async with showing(path, TALL) as screen:
        await screen.press("4")
        await screen.shows("20-device-injector")
        board = screen.app.views.boards["plugins"]
        assert isinstance(board, PluginBoard)
        names = [entry.name for entry in board.entries]
        await screen.press(*["down"] * names.index("20-device-injector"))
        await screen.shows("not known: its requests and replies were not recorded")


async def test_details_keep_the_cursor_when_only_numbers_change() -> None:
    async with showing(SLOW, TALL) as screen:
        await screen.press("4", "down", "down", "down", "tab", "down", "down")
        body = screen.app.views.detail.body
        await screen.until(lambda: body.cursor > 3)
        at = body.cursor
        board = screen.app.views.boards["plugins"]
        assert isinstance(board, PluginBoard)
        one, *others = board.entries
        screen.app.views.focus_view()
        board.show_entries((*others, replace(one, calls=18)), "")
        await screen.shows("18")
        assert body.cursor == at


@pytest.mark.exhaustive
async def test_hostile_recording_is_escaped(tmp_path: Path) -> None:
    path = hostile_recording(tmp_path / "r.nriscope.db", huge=False)
    async with showing(path, TALL, surveyed=True) as screen:
        await screen.press("4")
        await screen.shows("calls")
        for _ in range(5):
            await screen.press("down")
            await screen.pilot.pause(0.1)
            assert_harmless(screen.text())
