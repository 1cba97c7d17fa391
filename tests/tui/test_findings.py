# SPDX-License-Identifier: Apache-2.0
"""Findings in the terminal interface, and events that only several connections explain."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import Random

import pytest

from nri_scope.recorder.writer import Recorder
from nri_scope.survey.process import SurveyProcess
from nri_scope.tui import surveyor
from nri_scope.tui.store.recording_overview import Analysis
from tests.recording.recordings import PLUGIN, a_start, captured, heartbeat_beside
from tests.survey.growing import GrowingCopy

from .screen import Shown, showing

RECORDINGS = Path(__file__).parents[2] / "recordings"
SLOW = RECORDINGS / "containerd-2.1-slow-plugin.nriscope.zip"
CONFLICT = RECORDINGS / "containerd-2.1-conflict.nriscope.zip"
CASES = Path(__file__).parents[1] / "data" / "cases"
REGISTERED_LATE = CASES / "c17-registered-in-runpod-tap.nriscope.zip"
WIDE = (120, 30)


@pytest.mark.exhaustive
async def test_an_event_inside_an_operation_is_named_when_its_row_is_reached() -> None:
    async with showing(SLOW, WIDE, surveyed=True) as screen:
        await screen.shows("1 problem")
        await screen.pilot.press("6")
        await screen.shows("until event 15 arrived")
        await screen.pilot.press("enter")
        await screen.shows("event 15 is part of this operation; Enter shows its events")
        assert screen.selected == 13
        await screen.pilot.press("enter", "colon", "1", "5", "enter")
        await screen.until(lambda: screen.selected == 15)


@pytest.mark.exhaustive
async def test_title_counts_findings_and_enter_goes_to_the_event() -> None:
    async with showing(SLOW, WIDE, surveyed=True) as screen:
        await screen.shows("1 problem, 1 warning")
        await screen.pilot.press("6")
        await screen.shows("[6 Findings]", "took longer than one plugin's", "→ Reply first")
        assert screen.line("took longer than").rstrip().endswith("15 11:52:58")
        await screen.shows("first at 2026-12-01 11:52:58 +00:00")
        await screen.pilot.press("down")
        await screen.shows("→ The runtime does not start the plugin again")
        await screen.pilot.press("enter")
        await screen.shows("[1 Events]")
        await screen.until(lambda: screen.selected == 13)
        await screen.shows("finding", "A plugin at 31–49 was probably disconnected")


@pytest.mark.exhaustive
async def test_a_known_bug_of_the_runtime_is_named() -> None:
    async with showing(REGISTERED_LATE, WIDE, surveyed=True) as screen:
        await screen.press("6")
        await screen.shows("this may be nri#63, fixed in", "https://github.com/containerd/nri/")


@pytest.mark.exhaustive
async def test_a_cut_title_is_whole_below_the_table() -> None:
    async with showing(SLOW, surveyed=True) as screen:
        await screen.press("6")
        await screen.shows("Plugins at 31–49 (between 30-nri-scope and 50-nri-…")
        title, advice = screen.app.store.analysis.findings[0].title, "can then delay each"
        words = " ".join(screen.text().split())
        assert title in words and advice in words
        await screen.press("down")
        await screen.shows("> warning  A plugin at 31–49 was probably disconnected")
        await screen.until(lambda: title not in " ".join(screen.text().split()))
        # Details leave less room.
        await screen.press("p")
        await screen.shows("[Summary]", "> warning  A plugin at 31–49 was probably disconnected")


@pytest.mark.exhaustive
async def test_a_recording_without_findings_says_so() -> None:
    path = RECORDINGS / "containerd-2.1-crash-loop.nriscope.zip"
    async with showing(path, WIDE, surveyed=True) as screen:
        await screen.pilot.press("6")
        await screen.shows("no findings in the whole recording")
        assert "problem" not in screen.text().splitlines()[0]


@pytest.mark.exhaustive
async def test_findings_are_of_the_whole_recording_whatever_the_filter() -> None:
    async with showing(SLOW, WIDE, surveyed=True) as screen:
        await screen.shows("1 problem, 1 warning")
        await screen.press("f", *"event:RunPodSandbox", "enter", "6")
        await screen.shows("1 match", "Finding (filters do not apply)")
        await screen.shows("took longer than one plugin's", "was probably disconnected")


@pytest.mark.parametrize("size", [(80, 24), WIDE])
async def test_the_thresholds_of_slow_events_are_shown(size: tuple[int, int]) -> None:
    async with showing(SLOW, size) as screen:
        await screen.press("s")
        await screen.shows("matches: problem:slow OR took:>1ms (slow: >50% of the deadline)")
        await screen.press("f", "ctrl+u", *"took:>1ms", "enter")
        await screen.shows("matches: took:>1ms")
        assert "deadline)" not in screen.text()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("path", "key", "shown"),
    [
        (CONFLICT, "e", ("29", "39", "failed", "2 matches")),
        (SLOW, "s", ("13", "slow", "problem:slow")),
        (CONFLICT, "c", ("29", "39", "2 more", "2 matches")),
    ],
)
async def test_keys_for_problems_and_changes_find_what_the_diagnosis_found(
    path: Path, key: str, shown: tuple[str, ...]
) -> None:
    async with showing(path, WIDE, surveyed=True) as screen:
        await screen.shows("1 problem")
        await screen.pilot.press(key)
        await screen.shows(*shown)


@pytest.mark.exhaustive
async def test_a_filter_applied_before_the_survey_is_applied_again() -> None:
    async with showing(CONFLICT, WIDE, surveyed=True) as screen:
        await screen.pilot.press("e")
        await screen.shows("problem:failed", "2 matches")


@pytest.mark.exhaustive
async def test_next_problem_and_next_change_are_reached_from_every_view() -> None:
    async with showing(CONFLICT, WIDE, surveyed=True) as screen:
        await screen.shows("1 problem")
        for view in ("1", "2", "3", "4", "5"):
            await screen.pilot.press("1", "home", view)
            await screen.pilot.press("}")
            await screen.shows("[1 Events]")
            await screen.until(lambda: screen.selected == 29)
        await screen.pilot.press(")")
        await screen.until(lambda: screen.selected == 39)
        await screen.pilot.press(")")
        await screen.shows("no later event with a change in this list")
        assert screen.selected == 39
        await screen.pilot.press("{")
        await screen.until(lambda: screen.selected == 29)
        await screen.pilot.press("v", ")")
        await screen.until(lambda: screen.selected == 30)
        await screen.pilot.press(")")
        await screen.until(lambda: screen.selected == 40)
        await screen.pilot.press("(")
        await screen.until(lambda: screen.selected == 30)


async def test_enter_on_the_time_between_connections_goes_to_the_slowest_event() -> None:
    async with showing(SLOW, WIDE) as screen:
        await screen.pilot.press("4")
        await screen.shows("↕ 31–49")
        board = screen.app.views.boards["plugins"]
        lines = [str(board.line_at(number)) for number in range(board.line_count)]
        board.body.go_to(next(at for at, each in enumerate(lines) if "↕ 31–49" in each))
        await screen.pilot.press("enter")
        await screen.until(lambda: screen.selected == 13)


@pytest.mark.exhaustive
async def test_the_timeline_shows_slow_failed_and_changed_events() -> None:
    async with showing(SLOW, WIDE, surveyed=True) as screen:
        await screen.shows("1 problem")
        await screen.pilot.press("3")
        await screen.shows("~slow", "!failed", "◆changed", "•other")
        await screen.until(lambda: any("~" in each for each in screen.text().split("\n")[3:8]))


@pytest.mark.exhaustive
async def test_a_growing_recording_is_surveyed_again(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    calls = [call for plugin, call in captured() if plugin == PLUGIN]
    recorder = Recorder.open(path)
    session = recorder.begin_session(a_start())
    for call in calls[:8]:
        recorder.capture(session, call)
    try:
        async with showing(path, WIDE, surveyed=True) as screen:
            await screen.pilot.press("6")
            await screen.shows("no findings")
            late = calls[8]._replace(took_ns=1_900_000_000)
            recorder.capture(session, late)
            await screen.shows("1 warning", "took almost all of its deadline")
            await screen.pilot.press("}")
            await screen.until(lambda: screen.selected == 9)
    finally:
        recorder.close()


@asynccontextmanager
async def showing_growing(folder: Path) -> AsyncIterator[tuple[Shown, GrowingCopy]]:
    """Show a recording that grows, after the survey of its first events."""
    copy = GrowingCopy(SLOW, folder / "r.nriscope.db", Random(1))
    copy.grow(12)
    # As of a recorder, so that the survey goes on.
    with closing(copy), heartbeat_beside(copy.path):
        async with showing(copy.path, WIDE, surveyed=True) as screen:
            await screen.until(lambda: screen.app.store.analysis.passes)
            yield screen, copy


@pytest.mark.exhaustive
async def test_new_events_are_added_to_a_filter_on_what_several_events_show(
    tmp_path: Path,
) -> None:
    async with showing_growing(tmp_path) as (screen, copy):
        await screen.pilot.press("s")
        # Two plugins needed more than 1 ms for Configure.
        await screen.shows("2 matches")
        file = screen.app.surveyor.file
        copy.grow(40)
        await screen.shows("13", "slow", "3 matches")
        assert screen.app.surveyor.file == file


async def test_a_survey_that_ended_early_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SurveyProcess, "run", lambda self, **_: os.kill(self.pid, signal.SIGKILL))
    async with showing(SLOW, WIDE, surveyed=True) as screen:
        await screen.shows("! not all analysed")
        await screen.pilot.press("6")
        await screen.shows("not all events were analysed", "killed by SIGKILL")


async def test_many_events_that_are_not_analysed_yet_are_said() -> None:
    async with showing(SLOW, WIDE) as screen:
        await screen.shows("68 events")
        for behind, words in ((1_000, "no findings so far; analysing 1,000"), (999, "so far")):
            screen.app.store.analysis = Analysis(share=1.0, passes=1, behind=behind)
            await screen.pilot.press("1", "6")
            await screen.shows(words)
            missing = "analysing 1,000 more events" if behind == 1_000 else ""
            assert screen.app.store.analysis.words == missing


@pytest.mark.exhaustive
async def test_what_was_left_over_is_analysed_at_once_when_no_more_events_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each pass reads one event.
    monkeypatch.setattr(surveyor, "_MOST_S", 0.0)
    monkeypatch.setattr(surveyor, "_MOST_WHILE_QUIET_S", 0.0)
    monkeypatch.setattr(surveyor, "_GROWTH_FACTOR", 1_000)
    async with showing_growing(tmp_path) as (screen, copy):
        file = screen.app.surveyor.file
        copy.grow(40)
        await screen.until(lambda: screen.app.store.analysis.passes > 20)
        await screen.until(lambda: not screen.app.store.analysis.behind)
        assert screen.app.surveyor.file == file
