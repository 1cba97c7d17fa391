# SPDX-License-Identifier: Apache-2.0
"""The chain of plugins on a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.differ.latency import latency
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.plugins.chain_places import PlaceCounts
from nri_scope.tui.plugins.plugin_board import PluginBoard
from nri_scope.tui.store.context import Context
from nri_scope.tui.widgets.messages import SetFilter
from tests.replay.recordings import RECORDING, of_capture, recording
from tests.tui.boards import growing, showing
from tests.tui.hostile import assert_harmless, hostile_recording


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return of_capture("containerd-2.4-beta", tmp_path / "r.nriscope.db")


def cells(screen: list[str], name: str) -> list[str]:
    """Return the counts of a line."""
    line = next(line for line in screen if name in line)
    return line.split(name)[1].split()


async def test_shows_the_chain_in_call_order(path: Path) -> None:
    async with showing(path, PluginBoard, surveyed=True) as shown:
        names = [line[2:].split()[0] for line in shown.screen[1:-2] if line.strip()]
        assert [name for name in names if name != "↕"] == [
            "00-probe-a",
            "20-device-injector",
            "30-env-injector",
            "50-probe-b",
            "60-cpu-policy",
            "95-probe-c",
        ]
        assert cells(shown.screen, "30-env-injector") == [
            "6", "50µs", "50µs", "50µs", "1m00s", "<1", "%", "0", "4",
        ]  # fmt: skip
        # Its calls were not observed; its changes are known from the validators' requests.
        assert cells(shown.screen, "20-device-injector") == ["?", "?", "2"]
        assert "passive connection of nri-scope" in shown.screen[-2]


async def test_enter_shows_the_events_of_a_connection_or_the_changes_of_a_plugin(
    path: Path,
) -> None:
    async with showing(path, PluginBoard) as shown:
        await shown.press("enter")
        assert shown.last(SetFilter).text == "plugin:00-probe-a"
        assert shown.board.selected_event_id == 1
        await shown.press("down", "down", "down", "enter")
        assert shown.last(SetFilter).text == "owner:20-device-injector"


async def test_a_key_shows_the_changes_of_a_plugin_or_of_an_interval(path: Path) -> None:
    async with showing(path, PluginBoard, surveyed=True) as shown:
        filters = []
        for _ in range(9):
            await shown.press("=", "down")
            filters.append(shown.last(SetFilter).text)
    assert filters == [
        "plugin:00-probe-a",
        'owner:"one of 01–29"',
        'owner:"one of 01–49"',
        "owner:20-device-injector",
        "owner:30-env-injector",
        'owner:"one of 31–49"',
        "plugin:50-probe-b",
        'owner:"one of 51–59"',
        'owner:"one of 51–94"',
    ]


async def test_counts_only_shown_events_and_names_the_filter(path: Path) -> None:
    context = Context()
    async with showing(path, PluginBoard, context=context) as shown:
        assert cells(shown.screen, "00-probe-a")[0] == "36"
        context.filter_by("event:CreateContainer plugin:00-probe-a")
        await shown.update()
        with Recording.open(path) as reading:
            calls = len(list(reading.events(where=context.where())))
        assert 0 < calls < 36
        assert cells(shown.screen, "00-probe-a")[0] == str(calls)
        # Other plugins have no such events, and the times between plugins need complete rounds.
        names = [line[2:].split()[0] for line in shown.screen[1:-2] if line.strip()]
        assert "↕" not in names and "50-probe-b" not in names
        counted = "counts include only: event:CreateContainer plugin:00-probe-a"
        assert shown.screen[-1] == counted
        context.filter_by("pod:nothing")
        await shown.update()
        assert shown.screen[1].startswith("no plugin received any of the shown events")
        context.everything()
        await shown.update()
        assert cells(shown.screen, "00-probe-a")[0] == "36" and not shown.screen[-1]


async def test_narrowed_to_a_container_it_shows_the_times_in_the_chain(path: Path) -> None:
    context = Context()
    with Recording.open(path) as reading:
        events = list(reading.events())
        created = next(event for event in events if event.event == "CreateContainer")
        own = [event for event in events if event.container_id == created.container_id]
        one = next(each for each in reading.containers() if each.id == created.container_id)
    context.narrow(one)
    async with showing(path, PluginBoard, context=context) as shown:
        of_probe = [event for event in own if event.plugin == "00-probe-a"]
        assert cells(shown.screen, "00-probe-a")[0] == str(len(of_probe))
        assert any(line.strip().startswith("↕") for line in shown.screen)
        assert shown.screen[-1] == f"counts include only: {context.words()}"


def test_times_equal_those_of_the_differ(path: Path) -> None:
    with Recording.open(path) as reading:
        tally = PlaceCounts()
        while tally.step(reading):
            pass
        tally.finish()
        assert tally.times() == latency(reading)
        # A step without new events changes nothing.
        assert not tally.step(reading)
        assert tally.times() == latency(reading)


async def test_counts_follow_a_growing_recording(tmp_path: Path) -> None:
    with growing(tmp_path / "r.nriscope.db") as recorder:
        async with showing(recorder.path, PluginBoard) as shown:
            assert cells(shown.screen, "00-nri-scope")[0] == "7"
            recorder.grow()
            await shown.update()
            while cells(shown.screen, "00-nri-scope")[0] != "9":
                await shown.settle()


async def test_one_passive_connection_is_a_chain_of_one() -> None:
    async with showing(RECORDING, PluginBoard) as shown:
        assert cells(shown.screen, "00-nri-scope")[0] == "32"


async def test_empty_recording_shows_a_hint(tmp_path: Path) -> None:
    from nri_scope.recorder.writer import Recorder

    path = tmp_path / "r.nriscope.db"
    Recorder.open(path).close()
    async with showing(path, PluginBoard) as shown:
        assert shown.screen[1].startswith("this recording has no plugin connections")
        await shown.press("enter")
        assert shown.board.selected_event_id is None


async def test_hostile_recording_is_escaped(tmp_path: Path) -> None:
    path = hostile_recording(tmp_path / "r.nriscope.db", huge=False)
    async with showing(path, PluginBoard, size=(160, 50)) as shown:
        assert_harmless("\n".join(shown.screen))


async def test_fits_a_small_screen(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.nriscope.db", [])
    async with showing(path, PluginBoard, size=(30, 6)) as shown:
        assert all(len(line) <= 30 for line in shown.screen)
