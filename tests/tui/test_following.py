# SPDX-License-Identifier: Apache-2.0
"""Follow states of a growing list, and texts of an empty one, with a real recorder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.geometry import Region

from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.recorder.writer import Recorder
from nri_scope.tui.list.event_list import EventList
from tests.replay.recordings import START_NS, container, life, run_pod
from tests.tui.keyboard import taken
from tests.tui.screen import Shown, showing

SECOND = 10**9


class Writing:
    """A recording with its recorder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recorder = Recorder.open(path)
        self.session: int | None = None
        self.at_ns = START_NS

    def begin(self) -> int:
        self.session = self.recorder.begin_session(
            SessionStart(
                role=Role.LOGGER,
                plugin_name="nri-scope",
                plugin_index="00",
                runtime_name="containerd",
                runtime_version="2.1.9",
                nri_version="0.8.0",
                nri_version_inferred=False,
                mask=0x7FF,
                registration_timeout_ms=5000,
                request_timeout_ms=2000,
                started_ns=self.at_ns,
            )
        )
        return self.session

    def events(self, count: int = 1) -> None:
        session = self.session or self.begin()
        method, message = run_pod()
        for _ in range(count):
            self.at_ns += SECOND
            self.recorder.capture(
                session,
                CapturedCall(
                    wall_ns=self.at_ns,
                    mono_ns=self.at_ns,
                    method=method,
                    request=message.SerializeToString(),
                    reply=b"",
                    status_code=0,
                    status_message="",
                    took_ns=90_000,
                    timeout_ns=2 * SECOND,
                ),
            )


@pytest.fixture(name="writing")
def _writing(tmp_path: Path) -> Iterator[Writing]:
    writing = Writing(tmp_path / "a.nriscope.db")
    yield writing
    writing.recorder.close()


async def grown(screen: Shown, events: int) -> None:
    """Wait until the list has this many events and its scroll bar fits."""
    shown = screen.app.views.events
    await screen.until(lambda: shown.view.events == events)
    await screen.until(lambda: shown.virtual_size.height == shown.view.length)


async def test_growing_recording_is_followed(writing: Writing) -> None:
    writing.events(3)
    async with showing(writing.path) as screen:
        await grown(screen, 3)
        await screen.shows("being recorded", "following · 4 of 4")
        writing.events(40)
        await grown(screen, 43)
        await screen.shows("following · 44 of 44")
        assert screen.selected == 43


async def test_new_events_cause_no_layout(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing.events(40)
    async with showing(writing.path) as screen:
        await screen.shows("following · 41 of 41", "RunPodSandbox")
        await taken(screen.pilot)
        events, laid_out = screen.app.views.events, []
        refresh = EventList.refresh

        def noted(self: EventList, *regions: Region, layout: bool = False, **more: Any) -> Any:
            laid_out.append(layout)
            return refresh(self, *regions, layout=layout, **more)

        monkeypatch.setattr(EventList, "refresh", noted)
        writing.events(5)
        await screen.shows("following · 46 of 46")
        assert laid_out and not any(laid_out)
        assert events.virtual_size.height == 46
        assert events.vertical_scrollbar.window_virtual_size == 46


async def test_moving_up_stops_following_and_new_events_are_counted(writing: Writing) -> None:
    writing.events(5)
    async with showing(writing.path) as screen:
        await grown(screen, 5)
        await screen.press("up")
        await screen.shows("scrolled")
        selected = screen.selected
        writing.events(30)
        await screen.shows("scrolled, +17 new")
        assert screen.selected == selected
        await screen.press("F")
        await screen.shows("following")
        assert screen.selected == 35


async def test_second_end_resumes_following(writing: Writing) -> None:
    writing.events(5)
    async with showing(writing.path) as screen:
        await grown(screen, 5)
        await screen.press("home")
        await screen.shows("scrolled")
        await screen.press("end")
        assert "scrolled" in screen.text()
        await screen.press("end")
        await screen.shows("following")


async def test_paused_list_does_not_change_while_events_are_recorded(writing: Writing) -> None:
    writing.events(5)
    async with showing(writing.path) as screen:
        await grown(screen, 5)
        await screen.press("space")
        await screen.shows("paused")
        writing.events(10)
        await screen.shows("paused, +10 new")
        assert screen.selected == 5 and screen.app.views.events.listing.length == 6
        await screen.press("space")
        await screen.shows("following")
        assert screen.selected == 15


async def test_filter_includes_later_events(writing: Writing) -> None:
    writing.events(2)
    async with showing(writing.path) as screen:
        await screen.press("f")
        await screen.type("event:RunPodSandbox")
        await screen.press("enter")
        await screen.shows("2 matches")
        writing.events(3)
        await screen.shows("5 matches")


async def test_gaps_are_rows_and_counted_in_the_title(writing: Writing) -> None:
    writing.events(2)
    writing.recorder.note_gap(
        writing.session, writing.at_ns, writing.at_ns + SECOND, "queue full", 7
    )
    writing.at_ns += SECOND
    writing.events(2)
    async with showing(writing.path) as screen:
        await screen.shows("! 1 gap, 7 lost", "queue full")
        await screen.press("f")
        await screen.type("event:RunPodSandbox")
        await screen.press("enter")
        await screen.shows(" of 5 · 4 matches, 1 gap: event:RunPodSandbox", "queue full")


async def test_empty_recording_shows_that_it_waits_for_events(writing: Writing) -> None:
    async with showing(writing.path) as screen:
        await screen.shows("No events yet", "Waiting for the recorder to write events to this")
        writing.events()
        await screen.shows("RunPodSandbox")
        await screen.hides("No events yet")


async def test_finished_recording_without_events_does_not_wait_for_them(writing: Writing) -> None:
    writing.begin()
    writing.recorder.close()
    async with showing(writing.path) as screen:
        await screen.until(lambda: screen.app.store.facts.sessions)
        assert "No events yet" not in screen.text()


class News:
    """Fixed status of a recorder."""

    def __init__(self, latest: str) -> None:
        self.latest = latest
        self.ended = False

    def hear(self) -> None:
        """The recorder has not ended."""


async def test_live_view_shows_the_status_of_the_recorder(writing: Writing) -> None:
    news = News("waiting for a runtime: /run/nri.sock: there is no such file")
    async with showing(writing.path, live=True, recorder=news) as screen:
        await screen.shows("No events yet", "waiting for a runtime: /run/nri.sock", " live")


async def test_lost_runtime_is_shown_in_the_title(writing: Writing) -> None:
    writing.events(2)
    async with showing(writing.path, live=True, recorder=News(""), size=(120, 24)) as screen:
        await screen.shows("live")
        assert "runtime gone" not in screen.text()
        assert writing.session is not None
        writing.recorder.end_session(writing.session, "closed by the runtime", writing.at_ns)
        await screen.shows("runtime gone, waiting", "closed by the runtime")


async def test_message_stays_while_events_arrive(writing: Writing) -> None:
    writing.events(2)
    async with showing(writing.path) as screen:
        await grown(screen, 2)
        await screen.until(lambda: screen.app.views.events.selected_row)
        await screen.press("m")
        await screen.shows("event 2 is marked")
        writing.events(2)
        await grown(screen, 4)
        await screen.until(lambda: screen.text().count("RunPodSandbox") == 4)
        await screen.shows("event 2 is marked")
        await screen.press("F")
        await screen.shows("following")
        await screen.hides("event 2 is marked")


async def test_moved_file_is_reported_and_its_rows_stay(writing: Writing) -> None:
    writing.events(2)
    async with showing(writing.path, size=(139, 24)) as screen:
        await grown(screen, 2)
        await screen.shows("RunPodSandbox")
        writing.path.rename(writing.path.with_name("b.nriscope.db"))
        await screen.shows("it was deleted", "RunPodSandbox")


async def test_narrowing_to_a_container_applies_to_every_view(writing: Writing) -> None:
    session = writing.begin()
    for name in ("app", "other"):
        for method, message in life(container(name)):
            writing.at_ns += SECOND
            writing.recorder.capture(
                session,
                CapturedCall(
                    writing.at_ns,
                    writing.at_ns,
                    method,
                    message.SerializeToString(),
                    b"",
                    0,
                    "",
                    9,
                    0,
                ),
            )
    async with showing(writing.path) as screen:
        await grown(screen, 12)
        await screen.until(lambda: screen.app.views.events.selected_row)
        await screen.press("i", "2")
        await screen.shows("[2 Containers]", "> shop/web/other")
        await screen.until(lambda: not screen.line("▸ app"))
        await screen.press("1", "backspace")
        await screen.shows("13 of 13")
