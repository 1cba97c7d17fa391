# SPDX-License-Identifier: Apache-2.0
"""The list with a row for each operation."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from nri_scope.cli.main import run
from nri_scope.filter import parse
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.query import event_search
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.store import store
from tests.amount import sampled
from tests.recording.recordings import a_start, captured
from tests.sample_names import CHECKOUT_PROXY

from .screen import Shown, showing
from .snapshot import wait_until_still

RECORDINGS = Path(__file__).parents[2] / "recordings"
CONFLICT = RECORDINGS / "containerd-2.1-conflict.nriscope.zip"
TAPPED = RECORDINGS / "containerd-2.4.nriscope.zip"
SINGLE = RECORDINGS / "containerd-2.1.nriscope.db"
WIDE = (150, 40)


@pytest.mark.exhaustive
@pytest.mark.parametrize("times", sampled(["time:+0.41s..+0.6s", "time:-0.3s..", "time:..-0.17s"]))
async def test_log_prints_the_rows_of_a_filter(
    times: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[list[int]] = []
    async with showing(CONFLICT, WIDE) as screen:

        def shows_all(noun: str) -> bool:
            view = screen.app.views.events.view
            return view.noun == noun and view.complete

        await screen.press("f", *times, "enter")
        # Incomplete times are filters, too.
        await wait_until_still(screen, 1.0)
        for noun in ("operation", "event"):
            await screen.until(partial(shows_all, noun))
            shown.append(event_rows(screen))
            assert 1 < len(shown[-1]) < 60
            await screen.press("v")
    for option, expected in zip((["--operations"], []), shown, strict=True):
        assert run(["log", str(CONFLICT), *option, "--where", times]) == 0
        numbers = re.findall(r"(?m)^ *([0-9]+) [0-9:.]+ ", capsys.readouterr().out)
        assert list(map(int, numbers)) == expected


def event_rows(screen: Shown) -> list[int]:
    """Return the numbers of the events that have rows, in order."""
    view = screen.app.views.events.view
    keys = [view.key_at(position) for position in range(view.length)]
    return [key.event for key in keys if key.is_event]


async def test_a_row_shows_result_changes_owners_and_time_of_an_operation() -> None:
    async with showing(CONFLICT, WIDE, surveyed=True) as screen:
        await screen.shows("1 problem")
        await screen.press("}")
        await screen.until(lambda: "failed" in screen.line(">  29"))
        row = screen.line(">  29")
        assert "▸ CreateContainer" in row
        assert "2 more" in row
        assert "one of 01–29" in row
        assert "956µs" in row


async def test_enter_shows_what_each_connection_saw() -> None:
    async with showing(CONFLICT, WIDE, surveyed=True) as screen:
        await screen.go_to(13)
        rows = screen.app.views.events.view.length
        await screen.press("enter")
        await screen.shows("▾ CreateContainer", "  00-nri-scope", "  99-nri-scope")
        assert screen.app.views.events.view.length == rows + 4
        await screen.press("down", "down")
        await screen.until(lambda: screen.selected == 14)
        await screen.press("enter")
        await screen.shows(f"#14 CreateContainer {CHECKOUT_PROXY}", "30-nri-scope  (probe)")
        await screen.press("tab")
        await screen.go_to(13)
        await screen.press("enter")
        await screen.hides("▾")
        assert screen.app.views.events.view.length == rows


async def test_the_details_name_the_events_beside_the_whole_operation() -> None:
    async with showing(CONFLICT, WIDE, surveyed=True) as screen:
        await screen.go_to(13)
        await screen.press("z")
        await screen.shows("before ", ": 12 RunPodSandbox")
        await screen.shows("after ", f": 17 PostCreateContainer  {CHECKOUT_PROXY}")
        await screen.shows("later ", ": 17 PostCreateContainer of this container")


@pytest.mark.exhaustive
async def test_a_connection_that_answered_is_not_shown_as_failing() -> None:
    async with showing(CONFLICT, WIDE, surveyed=True) as screen:
        await screen.shows("1 problem")
        await screen.go_to(39)
        await screen.press("enter")
        await screen.shows("  00-nri-scope", "  30-nri-scope")
        await screen.until(lambda: screen.line(">  39").split()[-1:] == ["failed"])
        await screen.until(lambda: screen.line("00-nri-scope ").split()[-1:] == ["ok"])
        await screen.press("v")
        await screen.until(lambda: screen.line(">  39").split()[-1:] == ["↓failed"])


async def test_a_key_switches_between_operations_and_events() -> None:
    async with showing(CONFLICT, WIDE) as screen:
        operations = event_rows(screen)
        await screen.go_to(29)
        await screen.press("v")
        await screen.shows("one row for each event")
        assert event_rows(screen) == list(range(1, 66))
        assert screen.selected == 29
        await screen.press("down", "v")
        await screen.shows("one row for each operation")
        assert event_rows(screen) == operations
        assert len(operations) == 20
        assert screen.selected == 29


@pytest.mark.exhaustive
async def test_a_filter_shows_the_operations_of_the_matching_events() -> None:
    async with showing(CONFLICT, WIDE) as screen:
        await screen.press("f")
        await screen.type("plugin:99-nri-scope event:StopContainer")
        await screen.press("enter")
        await screen.shows("3 matches")
        assert event_rows(screen) == [31, 41, 50]
        await screen.press("v")
        await screen.until(lambda: event_rows(screen) == [34, 44, 53])


@pytest.mark.exhaustive
async def test_a_search_finds_every_event_of_an_operation() -> None:
    async with showing(TAPPED, WIDE) as screen:
        await screen.press("v")
        await screen.until(lambda: len(event_rows(screen)) == 128)
        await screen.press("/")
        await screen.type("ValidateContainer")
        await screen.press("enter")
        await screen.until(lambda: screen.selected == 22)
        await screen.press("home", "v")
        await screen.until(lambda: len(event_rows(screen)) < 128)
        await screen.press("n")
        await screen.until(lambda: screen.selected == 17)
        await screen.press("n")
        await screen.until(lambda: screen.selected == 35)
        await screen.press("N")
        await screen.until(lambda: screen.selected == 17)


@pytest.mark.parametrize("where", ["-event:StopContainer", "plugin:00-*"])
@pytest.mark.parametrize("forwards", [True, False])
async def test_a_search_in_a_filter_visits_each_operation_with_a_match(
    where: str, forwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_search, "PART_EVENTS", 3)
    opened = await store.Store.open(TAPPED)
    try:
        view = await opened.view(parse(where), grouped=True)
        with Recording.open(TAPPED) as recording:
            hits = {event.id for event in recording.events(where=parse("plugin:60-*"))}
        rows = [view.entry(at) for at in range(view.length)]
        expected = [
            at
            for at, one in enumerate(rows)
            if isinstance(one, int) and hits.intersection(view.events_of(one))
        ]
        found = []
        position = 0 if forwards else view.length - 1
        while (hit := await opened.find(view, "60-CPU", position, forwards)) is not None:
            found.append(hit)
            position = hit + (1 if forwards else -1)
        assert found == (expected if forwards else expected[::-1])
        assert len(found) > 1
    finally:
        await opened.close()


@pytest.mark.exhaustive
async def test_a_mark_on_any_event_marks_the_operation(tmp_path: Path) -> None:
    async with showing(Path(shutil.copy(CONFLICT, tmp_path)), WIDE) as screen:
        await screen.press("v")
        await screen.go_to(15)
        await screen.press("m", "v")
        await screen.until(lambda: screen.line("▸ CreateContainer").startswith(">* 13"))
        await screen.press("m")
        await screen.shows("event 15 is no longer marked")
        await screen.press("m")
        await screen.shows("event 13 is marked")
        await screen.press("*")
        await screen.until(lambda: event_rows(screen) == [13])


async def test_a_comparison_is_of_the_containers_as_the_last_connection_saw_them(
    tmp_path: Path,
) -> None:
    async with showing(Path(shutil.copy(TAPPED, tmp_path)), WIDE) as screen:
        await screen.go_to(17)
        await screen.press("m")
        await screen.shows("event 17 is marked")
        await screen.go_to(53)
        await screen.press("d")
        await screen.shows("#21 CreateContainer shop/web/app", "#56 UpdateContainer shop/web/app")


async def test_copied_yaml_has_all_events_of_the_operation() -> None:
    async with showing(CONFLICT, WIDE) as screen:
        await screen.go_to(13)
        await screen.press("y")
        await screen.shows("copied 4 events of an operation")


async def test_the_start_of_a_session_is_one_row_that_opens() -> None:
    async with showing(CONFLICT, WIDE) as screen:
        await screen.press("g")
        assert "▸ session 1 " in screen.line(">   1")
        assert "session 1: " not in screen.text()
        await screen.shows("1  set-up of 00-nri-scope", "Configure", "Synchronize")
        await screen.press("enter")
        await screen.until(lambda: "  Synchronize" in screen.line("    2 "))
        await screen.press("enter", "=")
        await screen.shows("session:1")
        await screen.press("x", "v")
        await screen.shows("one row for each event")
        await screen.press("home")
        await screen.shows("session 1: 00-nri-scope on containerd")
        assert event_rows(screen)[:2] == [1, 2]


async def test_a_recording_of_one_connection_has_a_row_for_each_event_after_the_start() -> None:
    async with showing(SINGLE, WIDE) as screen:
        await screen.until(lambda: event_rows(screen) == [1, *range(3, 33)])
        assert screen.text().count("▸") == 1 and "▸ session 1 " in screen.line(">   1")
        await screen.press("E")
        await screen.shows("Enter exports 32 shown events")
        await screen.press("escape", "enter")
        await screen.shows("    1 ", "Configure", "Synchronize")
        await screen.press("f", *"event:Configure", "enter")
        await screen.shows("1 match: event:Configure")
        assert event_rows(screen) == [1] and "session 1" not in screen.text()


@pytest.mark.exhaustive
async def test_a_growing_recording_shows_new_operations_with_all_their_events(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.nriscope.db"
    recorder = Recorder.open(path)
    found = list(captured())
    begun = {plugin: recorder.begin_session(a_start(plugin)) for plugin in sorted(dict(found))}
    calls = [(begun[plugin], call) for plugin, call in found]
    half = len(calls) // 2 + 1
    for session, call in calls[:half]:
        recorder.capture(session, call)
    async with showing(path, WIDE) as screen:
        await screen.until(lambda: screen.app.store.facts.events == half)
        for session, call in calls[half:]:
            recorder.capture(session, call)
        await screen.until(lambda: screen.app.store.facts.events == len(calls))
        grown = event_rows(screen)
        await screen.press("G")
        await screen.shows("▸ RemovePodSandbox")
    recorder.close()
    async with showing(path, WIDE) as screen:
        assert event_rows(screen) == grown
        assert len(grown) < len(calls) / 2


async def test_a_filter_before_the_end_of_reading_shows_whole_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "_AT_ONCE", 1)
    opened = await store.Store.open(TAPPED)
    try:
        view = await opened.view(parse("event:CreateContainer"), grouped=True)
        numbers = list(view.numbers_between(0, view.length))
        assert numbers == [17, 35, 60, 89]
        assert [*view.events_of(17)] == list(range(17, 25))
    finally:
        await opened.close()


async def test_a_marked_operation_is_copied_and_exported_as_a_whole(tmp_path: Path) -> None:
    async with showing(Path(shutil.copy(CONFLICT, tmp_path)), WIDE) as screen:
        await screen.go_to(13)
        await screen.press("m")
        await screen.shows("event 13 is marked")
        await screen.press("*")
        await screen.until(lambda: event_rows(screen) == [13])
        await screen.press("y")
        await screen.shows("copied 4 marked events")


async def test_a_failure_to_group_is_shown() -> None:
    async with showing(CONFLICT, WIDE) as screen:
        screen.app.store.grouping.failure = "it is damaged from event 9 on"
        screen.app.frame.show_status()
        await screen.shows("not all events are grouped: it is damaged from event 9 on")


async def test_narrow_rows_show_who_changed_and_who_was_slow() -> None:
    async with showing(RECORDINGS / "demo.nriscope.db", (80, 24), surveyed=True) as screen:
        await screen.go_to(20)
        row = screen.line("> ")
        assert re.search(r" [Δ?]9 +20 \+3 +1\.20s slow 40", row)
