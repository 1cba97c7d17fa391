# SPDX-License-Identifier: Apache-2.0
"""Follow states of a growing list, and texts of an empty one, with a real recorder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.geometry import Region

from nri_scope.events import CapturedCall
from nri_scope.tui.list.event_list import EventList
from tests.replay.recordings import container, life
from tests.tui.keyboard import wait_until_handled
from tests.tui.live_recording import SECOND, FixedStatus, LiveRecording
from tests.tui.screen import Shown, showing


@pytest.fixture(name="recording")
def _recording(tmp_path: Path) -> Iterator[LiveRecording]:
    recording = LiveRecording(tmp_path / "a.nriscope.db")
    yield recording
    recording.recorder.close()


async def wait_for_events(screen: Shown, events: int) -> None:
    """Wait until the list has this many events and its scroll bar fits."""
    shown = screen.app.views.events
    await screen.until(lambda: shown.view.events == events)
    await screen.until(lambda: shown.virtual_size.height == shown.view.length)


async def test_growing_recording_is_followed(recording: LiveRecording) -> None:
    recording.record(3)
    async with showing(recording.path) as screen:
        await wait_for_events(screen, 3)
        await screen.shows("being recorded", "following · 4 of 4")
        recording.record(40)
        await wait_for_events(screen, 43)
        await screen.shows("following · 44 of 44")
        assert screen.selected == 43


async def test_new_events_cause_no_layout(
    recording: LiveRecording, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording.record(40)
    async with showing(recording.path) as screen:
        await screen.shows("following · 41 of 41", "RunPodSandbox")
        await wait_until_handled(screen.pilot)
        events, layouts = screen.app.views.events, []
        refresh = EventList.refresh

        def record_layout(
            self: EventList, *regions: Region, layout: bool = False, **more: Any
        ) -> Any:
            layouts.append(layout)
            return refresh(self, *regions, layout=layout, **more)

        monkeypatch.setattr(EventList, "refresh", record_layout)
        recording.record(5)
        await screen.shows("following · 46 of 46")
        assert layouts and not any(layouts)
        assert events.virtual_size.height == 46
        assert events.vertical_scrollbar.window_virtual_size == 46


async def test_moving_up_stops_following_and_new_events_are_counted(
    recording: LiveRecording,
) -> None:
    recording.record(5)
    async with showing(recording.path) as screen:
        await wait_for_events(screen, 5)
        await screen.press("up")
        await screen.shows("scrolled")
        selected = screen.selected
        recording.record(30)
        await screen.shows("scrolled, +17 new")
        assert screen.selected == selected
        await screen.press("F")
        await screen.shows("following")
        assert screen.selected == 35


async def test_second_end_resumes_following(recording: LiveRecording) -> None:
    recording.record(5)
    async with showing(recording.path) as screen:
        await wait_for_events(screen, 5)
        await screen.press("home")
        await screen.shows("scrolled")
        await screen.press("end")
        await screen.shows("scrolled")
        await screen.press("end")
        await screen.shows("following")


async def test_a_paused_list_keeps_its_position_while_events_are_recorded(
    recording: LiveRecording,
) -> None:
    recording.record(5)
    async with showing(recording.path) as screen:
        await wait_for_events(screen, 5)
        await screen.press("space")
        await screen.shows("scrolled")
        recording.record(10)
        await screen.until(lambda: screen.app.views.events.listing.length == 16)
        assert screen.selected == 5
        await screen.press("space")
        await screen.shows("following")
        assert screen.selected == 15


async def test_filter_includes_later_events(recording: LiveRecording) -> None:
    recording.record(2)
    async with showing(recording.path) as screen:
        await screen.press("f")
        await screen.type("event:RunPodSandbox")
        await screen.press("enter")
        await screen.shows("2 matches")
        recording.record(3)
        await screen.shows("5 matches")


async def test_gaps_are_rows_and_counted_in_the_title(recording: LiveRecording) -> None:
    recording.record(2)
    recording.recorder.note_gap(
        recording.session, recording.at_ns, recording.at_ns + SECOND, "queue full", 7
    )
    recording.at_ns += SECOND
    recording.record(2)
    async with showing(recording.path) as screen:
        await screen.shows("! 1 gap, 7 lost", "queue full")
        await screen.press("f")
        await screen.type("event:RunPodSandbox")
        await screen.press("enter")
        await screen.shows(" of 5 · 4 matches, 1 gap: event:RunPodSandbox", "queue full")


async def test_empty_recording_shows_that_it_waits_for_events(recording: LiveRecording) -> None:
    async with showing(recording.path) as screen:
        await screen.shows("No events yet", "Waiting for the recorder to write events to this")
        recording.record()
        await screen.shows("RunPodSandbox")
        await screen.hides("No events yet")


async def test_finished_recording_without_events_does_not_wait_for_them(
    recording: LiveRecording,
) -> None:
    recording.begin()
    recording.recorder.close()
    async with showing(recording.path) as screen:
        await screen.until(lambda: screen.app.store.facts.sessions)
        assert "No events yet" not in screen.text()


async def test_live_view_shows_the_status_of_the_recorder(recording: LiveRecording) -> None:
    status = FixedStatus("waiting for a runtime: /run/nri.sock: there is no such file")
    async with showing(recording.path, live=True, recorder=status) as screen:
        await screen.shows("No events yet", "waiting for a runtime: /run/nri.sock", " live")


async def test_lost_runtime_is_shown_in_the_title(recording: LiveRecording) -> None:
    recording.record(2)
    async with showing(
        recording.path, live=True, recorder=FixedStatus(""), size=(120, 24)
    ) as screen:
        await screen.shows("live")
        assert "disconnected, waiting" not in screen.text()
        assert recording.session is not None
        recording.recorder.end_session(recording.session, "closed by the runtime", recording.at_ns)
        await screen.shows("disconnected, waiting", "closed by the runtime")


@pytest.mark.exhaustive
async def test_nothing_is_awaited_after_the_recorder_has_ended(recording: LiveRecording) -> None:
    status = FixedStatus("the recorder process has ended, killed by SIGKILL")
    async with showing(
        recording.path, (100, 24), live=True, recorder=status, surveyed=True
    ) as screen:
        recording.record(1)
        await screen.shows("live", "RunPodSandbox")
        await screen.press("6")
        await screen.shows("no findings so far")
        status.ended = True
        await screen.shows("no findings in the whole recording", "· recorded ·", status.status_text)
        await screen.press("5")
        # The session is open in the file, as its recorder was killed.
        await screen.shows("its end was not recorded")
        sessions = screen.app.views.boards["sessions"]
        assert sessions.now_ns == screen.app.store.facts.last_ns
        await screen.press("1")
        await screen.hides("following")


async def test_message_stays_while_events_arrive(recording: LiveRecording) -> None:
    recording.record(2)
    async with showing(recording.path) as screen:
        await wait_for_events(screen, 2)
        await screen.until(lambda: screen.app.views.events.selected_row)
        await screen.press("m")
        await screen.shows("event 2 is marked")
        recording.record(2)
        await wait_for_events(screen, 4)
        await screen.until(lambda: screen.text().count("RunPodSandbox") == 4)
        await screen.shows("event 2 is marked")
        await screen.press("F")
        await screen.shows("following")
        await screen.hides("event 2 is marked")


async def test_moved_file_is_reported_and_its_rows_stay(recording: LiveRecording) -> None:
    recording.record(2)
    async with showing(recording.path, size=(139, 24)) as screen:
        await wait_for_events(screen, 2)
        await screen.shows("RunPodSandbox")
        recording.path.rename(recording.path.with_name("b.nriscope.db"))
        await screen.shows("it was deleted", "RunPodSandbox")


async def test_narrowing_to_a_container_applies_to_every_view(recording: LiveRecording) -> None:
    session = recording.begin()
    for name in ("app", "other"):
        for method, message in life(container(name)):
            recording.at_ns += SECOND
            recording.recorder.capture(
                session,
                CapturedCall(
                    recording.at_ns,
                    recording.at_ns,
                    method,
                    message.SerializeToString(),
                    b"",
                    0,
                    "",
                    9,
                    0,
                ),
            )
    async with showing(recording.path) as screen:
        await wait_for_events(screen, 12)
        await screen.until(lambda: screen.app.views.events.selected_row)
        await screen.press("i", "2")
        await screen.shows("[2 Containers]", "> shop/web/other")
        await screen.until(lambda: not screen.line("▸ app"))
        await screen.press("1", "backspace")
        await screen.shows("13 of 13")
