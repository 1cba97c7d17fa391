# SPDX-License-Identifier: Apache-2.0
"""Pods and containers on a screen."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from nri_scope.events import Container
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.extract import Selection, extract
from nri_scope.tui.containers.container_board import ContainerBoard
from nri_scope.tui.store.context import Context
from nri_scope.tui.widgets.messages import OpenEvent, RowChosen
from tests.replay.recordings import RECORDING, of_capture, recording
from tests.sample_names import (
    API,
    CHECKOUT,
    CHECKOUT_API,
    EXPORTER,
    NIGHTLY,
    NODE,
    PROXY,
    REPLICA,
    REPORT,
    UPLOAD,
)
from tests.tui import screen
from tests.tui.boards import GrowingRecording, growing, showing
from tests.tui.hostile import CANARY, assert_harmless, hostile_recording

SHORT_CHECKOUT = "payments-prod/checkout-api-…x2x9z"
SHORT_NIGHTLY = "reporting/nightly-report-29…k6m4z"


def names(screen: list[str]) -> list[str]:
    """Return the first column of the tree."""
    state = screen[0].index("State")
    return [line[2:state].rstrip() for line in screen[1:-2] if line.strip()]


async def test_shows_pods_and_containers_with_state_and_age() -> None:
    async with showing(RECORDING, ContainerBoard, size=(110, 24)) as shown:
        assert names(shown.screen) == [
            f"▾ {NODE}",
            f"  ▸ {EXPORTER}",
            "▾ payments-prod/checkout-api-7d9f8c6b…x2x9z",
            f"  ▸ {API}",
            f"  ▸ {PROXY}",
            f"▾ {NIGHTLY}",
            f"  ▸ {REPORT}",
            f"  ▸ {UPLOAD}",
        ]
        assert "running" in shown.screen[2] and ">887ms" in shown.screen[2]
        assert "removed" in shown.screen[4] and "645ms" in shown.screen[4]
        await shown.press(*["down"] * 3)
        assert shown.screen[-1] == (
            f"{CHECKOUT_API}  creating 3.14ms, created 46.2ms, running 533ms, sto…"
        )


async def test_enter_unfolds_a_line_and_goes_to_an_event() -> None:
    async with showing(RECORDING, ContainerBoard) as shown:
        await shown.press("down", "down", "enter")
        assert f"▸ {SHORT_CHECKOUT}" in shown.screen[3] and f"▾ {SHORT_NIGHTLY}" in shown.screen[4]
        await shown.press("enter", "down", "enter")
        assert f"▾ {API}" in shown.screen[4] and "CreateContainer" in shown.screen[5]
        await shown.press("enter")
        assert f"▸ {API}" in shown.screen[4] and f"▸ {PROXY}" in shown.screen[5]
        await shown.press("enter", "down", "enter")
        assert shown.last(OpenEvent).event_id == 5
        assert shown.board.selected_event_id == 5
        chosen = shown.last(RowChosen).row
        assert chosen is not None and chosen.event_id == 5


async def test_every_line_has_details() -> None:
    async with showing(RECORDING, ContainerBoard) as shown:
        for name in names(shown.screen):
            row = shown.last(RowChosen).row
            assert row is not None and row.subject == shown.board.selected
            assert row.subject is not None
            begin, _, end = name.split("/")[-1].strip("▸▾ ").partition("…")
            assert row.subject.name.startswith(begin) and row.subject.name.endswith(end)
            await shown.press("down")


async def test_right_unfolds_and_left_folds() -> None:
    async with showing(RECORDING, ContainerBoard) as shown:
        before = names(shown.screen)
        await shown.press("down", "down", "down", "right")
        events = names(shown.screen)[4:12]
        assert [line.split()[1] for line in events] == [
            "CreateContainer",
            "PostCreateContainer",
            "StartContainer",
            "PostStartContainer",
            "UpdateContainer",
            "PostUpdateContainer",
            "StopContainer",
            "RemoveContainer",
        ]
        # Left moves from an event to its container, folds it, moves to its pod, and folds that.
        await shown.press("down", "left")
        assert names(shown.screen)[3] == f"  ▾ {API}"
        await shown.press("left")
        assert names(shown.screen) == before
        await shown.press("left", "left")
        assert names(shown.screen)[2:4] == [f"▸ {SHORT_CHECKOUT}", f"▾ {SHORT_NIGHTLY}"]
        await shown.press("right")
        assert names(shown.screen) == before


async def test_update_before_the_moved_message_keeps_the_cursor() -> None:
    async with showing(RECORDING, ContainerBoard) as shown:
        assert isinstance(shown.board, ContainerBoard)
        await shown.press("down")
        shown.board.body.go_to(4)
        # The result of a read is shown before the message of the cursor can be handled.
        await shown.board.grown(anew=False)
        assert shown.board.body.cursor == 4
        await shown.settle()
        assert names(shown.screen)[shown.board.body.cursor] == f"  ▸ {PROXY}"


async def test_shows_only_subjects_of_the_context() -> None:
    context = Context()
    async with showing(RECORDING, ContainerBoard, context=context) as shown:
        assert isinstance(shown.board, ContainerBoard)
        await shown.press("down", "down", "down")
        selected = shown.board.selected
        assert isinstance(selected, Container)
        context.narrow(selected)
        await shown.update()
        assert names(shown.screen) == [f"▾ {SHORT_CHECKOUT}", f"  ▸ {API}"]
        context.back()
        context.filter_by("event:UpdateContainer")
        await shown.update()
        assert names(shown.screen) == [f"▾ {SHORT_CHECKOUT}", f"  ▸ {API}"]
        await shown.press("home", "down", "right")
        assert [line.split()[-1] for line in names(shown.screen)[2:]] == ["UpdateContainer"]
        context.filter_by("pod:nothing")
        await shown.update()
        assert names(shown.screen) == ["the filter matched no event of a pod or container"[2:38]]


async def test_search_by_name_or_id_wraps_around() -> None:
    async with showing(RECORDING, ContainerBoard) as shown:
        board = shown.board
        assert await board.find("ISTIO-proxy") and board.body.cursor == 4
        assert await board.find("reporting/") and board.body.cursor == 5
        assert await board.find("reporting/", here=True) and board.body.cursor == 5
        # The beginning of an id; the match is above the cursor.
        assert await board.find("9b58d3") and board.body.cursor == 3
        assert await board.find("exporter", forwards=False) and board.body.cursor == 1
        assert not await board.find("nobody") and board.body.cursor == 1


async def test_empty_recording_shows_a_hint(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.nriscope.db", [])
    async with showing(path, ContainerBoard) as shown:
        assert shown.screen[1] == "this recording has no events of pods or containers"
        await shown.press("enter", "right", "left")
        assert shown.board.selected_event_id is None


async def test_names_the_plugins_that_changed_a_container(tmp_path: Path) -> None:
    path = of_capture("containerd-2.4-beta", tmp_path / "r.nriscope.db")
    async with showing(path, ContainerBoard, size=(160, 50)) as shown:
        app = next(line for line in shown.screen if "▸ app" in line)
        assert "Δ" not in app
    async with showing(path, ContainerBoard, size=(160, 50), surveyed=True) as shown:
        app = next(line for line in shown.screen if "▸ app" in line)
        assert "Δ 20-device-injector, 30-env-injector, 60-cpu-policy" in app


async def test_a_line_has_the_slowest_plugin_the_owners_and_the_findings(tmp_path: Path) -> None:
    demo = shutil.copy(RECORDING.with_name("demo.nriscope.db"), tmp_path)
    async with screen.showing(Path(demo), (80, 24), surveyed=True) as app:
        await app.shows("3 problems")
        await app.press("2", *["down"] * 8)
        await app.shows("40-image-check missed its deadline; 40-image-check was disconnected")
        cells = app.line(">").split()
        assert cells[2:] == [API, "removed", "1", "2", "2.00s", "40", "Δ", "20", "30", "60"]
    async with showing(RECORDING, ContainerBoard) as shown:
        # The passive plugin's own reply time is not a time of the chain.
        assert shown.screen[0].split()[-4:] == ["!", "Slowest", "Changed", "by"]
        assert shown.screen[4].split() == ["▸", API, "removed", "0"]


async def test_cursor_stays_when_containers_are_added(tmp_path: Path) -> None:
    with growing(tmp_path / "r.nriscope.db") as recorder:
        await _check_growth(recorder)


async def _check_growth(recorder: GrowingRecording) -> None:
    async with showing(recorder.path, ContainerBoard) as shown:
        await shown.press("down", "right", "down", "down")
        before = shown.board.selected_event_id
        assert before == 3
        recorder.grow()
        await shown.update()
        assert names(shown.screen)[-2:] == ["▾ shop/later", "  ▸ new"]
        assert shown.board.selected_event_id == before


async def test_tree_is_reread_after_the_ring_removed_events(tmp_path: Path) -> None:
    with growing(tmp_path / "r.nriscope.db") as recorder:
        async with showing(recorder.path, ContainerBoard, size=(110, 24)) as shown:
            assert "      7 " in shown.screen[1]
            with sqlite3.connect(recorder.path) as connection:
                connection.execute("DELETE FROM event WHERE id < 3")
            connection.close()
            recorder.grow()
            await shown.update()
            assert names(shown.screen) == ["▾ shop/web", "  ▸ app", "▾ shop/later", "  ▸ new"]
            assert "      5 " in shown.screen[1]


async def test_hostile_recording_is_escaped(tmp_path: Path) -> None:
    path = hostile_recording(tmp_path / "r.nriscope.db", huge=False)
    async with showing(path, ContainerBoard, size=(120, 50)) as shown:
        assert_harmless("\n".join(shown.screen))
        await shown.press("down", "right", "down", "down", "down", "right")
        assert_harmless("\n".join(shown.screen))
        assert shown.app.title != CANARY


@pytest.mark.parametrize("size", [(20, 5), (80, 24), (160, 50)])
async def test_fits_any_screen(size: tuple[int, int]) -> None:
    async with showing(RECORDING, ContainerBoard, size=size) as shown:
        assert len(shown.screen) == size[1]
        assert all(len(line) <= size[0] for line in shown.screen)


async def test_cursor_and_marks_are_shown_as_signs() -> None:
    async with showing(RECORDING, ContainerBoard) as shown:
        shown.board.is_marked = lambda event: (
            event is not None and event.id == shown.board.selected_event_id
        )
        await shown.press(*["down"] * 3, "right", "down")
        signs = {line[:2] for line in shown.screen[1:-2] if line.strip()}
        assert signs == {"  ", ">*"}
        assert shown.screen[5].startswith(">*  ") and "CreateContainer" in shown.screen[5]


async def test_state_in_a_part_is_unknown_after_the_last_event_before_others_left_out(
    tmp_path: Path,
) -> None:
    path = tmp_path / "part.db"
    with Recording.open(RECORDING.with_name("demo.nriscope.db")) as whole:
        extract(whole, path, Selection(pod=CHECKOUT))
    async with showing(path, ContainerBoard) as shown:
        column = shown.screen[0].index("State")
        lines = shown.screen[1:7]
        state = {line[2:column].strip(" ▾▸"): line[column:].split()[0] for line in lines}
        # The other pod is there only as context. In the whole recording it was removed.
        assert state[SHORT_CHECKOUT] == "removed"
        assert state["payments-prod/checkout-api-…h4n8q"] == "running?"
        await shown.press(*["down"] * 3)
        assert f"{REPLICA}  running 2.14s, then unknown (later…" in shown.screen[-1]
