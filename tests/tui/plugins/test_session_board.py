# SPDX-License-Identifier: Apache-2.0
"""Sessions and gaps on a screen."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from nri_scope.events import CapturedCall, Role, SessionStart
from nri_scope.recorder.writer import Recorder
from nri_scope.tui.plugins.session_board import ConnectionRow, RuntimeRow, SessionBoard
from nri_scope.tui.store.context import Context
from nri_scope.tui.widgets.messages import Failed, OpenEvent, OpenTime, RowChosen, StatusText
from tests.replay.recordings import RECORDING, START_NS
from tests.tui import screen
from tests.tui.boards import growing, showing
from tests.tui.hostile import assert_harmless, hostile_recording

SECOND = 10**9


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Record two runtimes, a reconnect, gaps, and a killed recorder."""
    file = tmp_path / "r.nriscope.db"
    recorder = Recorder.open(file)

    def session(at: int, runtime: str, events: int, ends: int | None, reason: str) -> None:
        started_ns = START_NS + at * SECOND
        number = recorder.begin_session(
            SessionStart(
                Role.LOGGER, "nri-scope", "00", runtime, "2.1", "0.8.0", False, 0x7FF, 5000, 2000,
                started_ns,
            )
        )  # fmt: skip
        for count in range(events):
            at_ns = started_ns + count
            recorder.capture(
                number,
                CapturedCall(at_ns, at_ns, "Configure", b"", b"", 2 * (count == 1), "", 1, 0),
            )
        if ends is not None:
            recorder.end_session(number, reason, START_NS + ends * SECOND)

    session(0, "containerd", 2, 10, "the runtime closed the connection")
    recorder.note_gap(None, START_NS + 10 * SECOND, START_NS + 15 * SECOND, "queue full", 7)
    session(15, "containerd", 1, 20, "interrupted")
    session(30, "cri-o", 0, None, "")
    recorder.close()
    return file


async def test_shows_runtimes_sessions_reconnects_and_gaps(path: Path) -> None:
    async with showing(path, SessionBoard, size=(140, 20)) as shown:
        lines = [line[2:].split() for line in shown.screen[1:-2] if line.strip()]
        assert lines[0][:2] == ["containerd", "2.1,"]
        assert lines[1][:2] == ["1", "00-nri-scope"]
        assert lines[1][4:6] == ["10.0s", "2"] and "connection" in lines[1]
        assert lines[2][:2] == ["░", "gap"] and "7 events lost" in " ".join(lines[2])
        assert "interrupted; reconnected after 5.00s" in " ".join(lines[3])
        assert "for 10.0s: no session was recorded after session 2" in " ".join(lines[4])
        assert lines[5][0] == "CRI-O"
        assert "its end was not recorded; reconnected after 10.0s" in " ".join(lines[6])


async def test_row_under_the_cursor_is_described_below(path: Path) -> None:
    async with showing(path, SessionBoard) as shown:
        await shown.press("down")
        assert shown.screen[-2] == "the runtime closed the connection"
        assert shown.screen[-1].startswith("session 1: subscribed to 11 events; registration")
        await shown.press("down")
        assert shown.screen[-2] == "queue full; 7 events lost"


async def test_enter_opens_the_first_event_of_a_session_or_after_a_gap(path: Path) -> None:
    async with showing(path, SessionBoard) as shown:
        await shown.press("down", "enter")
        assert shown.last(OpenEvent).event_id == 1 == shown.board.selected_event_id
        await shown.press("down", "enter")
        assert shown.last(OpenTime).at_ns == START_NS + 10 * SECOND
        await shown.press("end", "enter")
        assert shown.last(StatusText).text == "this session has no events"


async def test_the_list_goes_to_the_first_event_after_a_gap(path: Path) -> None:
    async with screen.showing(path) as shown:
        await shown.press("5")
        await shown.shows("queue full")
        await shown.press("down", "down", "enter")
        await shown.until(lambda: (shown.app.views.mode, shown.selected) == ("events", 3))


async def test_every_line_has_details(path: Path) -> None:
    async with showing(path, SessionBoard) as shown:
        board = shown.board
        assert isinstance(board, SessionBoard)
        for entry in board.entries:
            row = shown.last(RowChosen).row
            assert row is not None
            match entry:
                case RuntimeRow(text, _):
                    assert row.text.startswith(text)
                case ConnectionRow(session, counts, _):
                    assert row.session == session or row.event_id == counts.first_event
                case gap:
                    assert row.gap == gap
            await shown.press("down")


async def test_counts_and_opens_only_shown_events(path: Path) -> None:
    context = Context()
    context.filter_by("-status:ok")
    async with showing(path, SessionBoard, context=context) as shown:
        lines = [line[2:].split() for line in shown.screen[1:-2] if line.strip()]
        # Only the first session has a matching event.
        assert [line[0] for line in lines] == ["containerd", "1", "░", "░"]
        await shown.press("down")
        assert shown.screen[-1] == "counts include only: -status:ok"
        assert shown.board.selected_event_id == 2
        await shown.press("down", "enter")
        assert shown.last(OpenTime).at_ns == START_NS + 10 * SECOND
        context.filter_by("event:StopContainer")
        await shown.update()
        await shown.press("home")
        assert not any("containerd" in line for line in shown.screen)


async def test_search_finds_words(path: Path) -> None:
    async with showing(path, SessionBoard) as shown:
        assert await shown.board.find("queue") and shown.board.body.cursor == 2
        assert await shown.board.find("cri-o") and shown.board.body.cursor == 5


async def test_open_session_is_connected(tmp_path: Path) -> None:
    with growing(tmp_path / "r.nriscope.db") as recorder:
        async with showing(recorder.path, SessionBoard) as shown:
            assert "connected" in shown.screen[2]
            await shown.press("down")
            recorder.grow()
            await shown.update()
            assert " 9 " in shown.screen[2]
            assert shown.screen[-1].startswith("session 1:")


async def test_empty_recording_shows_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    Recorder.open(path).close()
    async with showing(path, SessionBoard) as shown:
        assert shown.screen[1].startswith("this recording has no sessions")
        await shown.press("enter")


async def test_damage_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "r.nriscope.db"
    shutil.copy(RECORDING, path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE event SET took_ns = 'long' WHERE id = 5")
    connection.close()
    async with showing(path, SessionBoard) as shown:
        assert "damaged" in "".join(shown.screen)
        assert "damaged" in str(shown.last(Failed).error)


async def test_hostile_recording_is_escaped(tmp_path: Path) -> None:
    path = hostile_recording(tmp_path / "r.nriscope.db", huge=False)
    async with showing(path, SessionBoard, size=(160, 50)) as shown:
        assert_harmless("\n".join(shown.screen))
        await shown.press("down", "down")
        assert_harmless("\n".join(shown.screen))


async def test_fits_a_small_screen() -> None:
    async with showing(RECORDING, SessionBoard, size=(30, 6)) as shown:
        assert all(len(line) <= 30 for line in shown.screen)
