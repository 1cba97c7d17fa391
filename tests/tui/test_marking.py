# SPDX-License-Identifier: Apache-2.0
"""Marks, comments, comparing and details, by their keys in the whole app."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen

from nri_scope.events import Container, UserMark
from nri_scope.recorder.writer import Recorder
from nri_scope.recording.marks import sidecar
from nri_scope.recording.marks.sidecar import marks_in, marks_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.detail.comparison import CompareScreen
from nri_scope.tui.widgets.board import Board
from tests.sample_names import (
    API,
    CHECKOUT_API,
    CHECKOUT_PROXY,
    CHECKOUT_WORKLOAD,
    EXPORTER,
    NIGHTLY_WORKLOAD,
    NODE,
    PROXY,
    REPORT,
)
from tests.share.bundle.bundles import a_bundle
from tests.tui.hostile import HUGE_NAME, NAMES, assert_harmless, hostile_recording
from tests.tui.screen import Shown, copy_recording, showing
from tests.tui.snapshot import wait_until_still


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return copy_recording(tmp_path)


def _marks(path: Path) -> list[UserMark]:
    """Return the marks beside the recording, and assert that none are in it."""
    with Recording.open(path) as recording:
        assert marks_in(recording) == []
        return marks_of(recording)


async def test_mark_is_shown_saved_and_loaded_again(path: Path) -> None:
    async with showing(path) as screen:
        await screen.go_to(5)
        await screen.press("m")
        await screen.shows("event 5 is marked")
        assert "*" in screen.line("11:52:26.573 Create")[:4]
        await screen.until(lambda: len(_marks(path)) == 1)
    async with showing(path) as screen:
        await screen.until(lambda: "*" in screen.line("11:52:26.573 Create")[:4])
        await screen.go_to(5)
        await screen.press("m")
        await screen.shows("event 5 is no longer marked")
        await screen.until(lambda: not _marks(path))


async def test_a_mark_set_during_a_search_is_on_its_match(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with showing(path) as screen:
        release = asyncio.Event()
        search = screen.app.store.find

        async def slow(*arguments: Any) -> int | None:
            await release.wait()
            return await search(*arguments)

        monkeypatch.setattr(screen.app.store, "find", slow)
        await screen.press("/", *"istio", "enter", "m")
        await screen.shows("searching for istio")
        release.set()
        await screen.shows("event 9 is marked")


@pytest.mark.exhaustive
async def test_mark_set_while_another_is_being_written_is_saved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, release = threading.Event(), threading.Event()
    locked = sidecar.locked

    @contextmanager
    def slowly(file: Path) -> Iterator[None]:
        started.set()
        release.wait()
        with locked(file):
            yield

    monkeypatch.setattr(sidecar, "locked", slowly)
    async with showing(path) as screen:
        for event in (5, 7):
            await screen.go_to(event)
            await screen.press("m")
            await screen.shows(f"event {event} is marked")
            await screen.until(started.is_set)
        screen.app.exit()
        asyncio.get_running_loop().call_later(0.1, release.set)
    assert [mark.event for mark in _marks(path)] == [5, 7]


async def test_comment_is_shown_in_the_summary_and_can_be_edited(path: Path) -> None:
    async with showing(path, size=(160, 50)) as screen:
        await screen.go_to(7)
        await screen.press("M")
        await screen.shows("comment")
        await screen.type("why here")
        await screen.press("enter")
        await screen.shows("comment     why here")
        await screen.press("M")
        await screen.type(" x")
        await screen.press("enter")
        await screen.shows("comment     why here x")
        await screen.until(lambda: [mark.comment for mark in _marks(path)] == ["why here x"])


@pytest.mark.exhaustive
async def test_a_search_finds_comments(path: Path) -> None:
    async with showing(path) as screen:
        for event in (7, 11):
            await screen.go_to(event)
            await screen.press("M")
            await screen.type(f"Xyzzy {event}")
            await screen.press("enter")
            await screen.shows(f"event {event} is marked")
        await screen.press("g", "/")
        await screen.type("xyzzy")
        await screen.press("enter")
        await screen.until(lambda: screen.selected == 7)
        await screen.press("n")
        await screen.until(lambda: screen.selected == 11)
        await screen.press("N")
        await screen.until(lambda: screen.selected == 7)
        await screen.press("N")
        await screen.shows("search continued from the end")
        assert screen.selected == 11


@pytest.mark.exhaustive
async def test_number_of_marked_events_is_always_shown(path: Path) -> None:
    async with showing(path) as screen:
        await screen.go_to(5)
        await screen.press("m", "down")
        await screen.shows("· 1 marked")
    # Marks of an earlier run are counted, too, because keys act on them.
    async with showing(path) as screen:
        await screen.shows("1 of 32 · 1 marked")
        await screen.press("E")
        await screen.shows("1 marked event, or 32 shown?")


@pytest.mark.exhaustive
async def test_one_key_removes_all_marks_and_asks_if_there_are_comments(path: Path) -> None:
    async with showing(path) as screen:
        await screen.go_to(5)
        await screen.press("m")
        await screen.shows("event 5 is marked")
        await screen.press("U")
        await screen.shows("removed 1 mark")
        await screen.press("M")
        await screen.type("why")
        await screen.press("enter")
        await screen.shows("event 5 is marked")
        await screen.press("U")
        await screen.shows("remove 1 mark and 1 comment?")
        await screen.press("y")
        await screen.shows("removed 1 mark")
        await screen.until(lambda: not _marks(path))


async def test_star_toggles_only_marked_events(path: Path) -> None:
    async with showing(path) as screen:
        for event in (5, 9):
            await screen.go_to(event)
            await screen.press("m")
            await screen.shows(f"event {event} is marked")
        await screen.press("*")
        await screen.shows("2 matches: marked")
        await screen.hides("PostStartContainer")
        await screen.press("*")
        await screen.shows("PostStartContainer")


async def test_two_marked_events_are_compared(path: Path) -> None:
    async with showing(path, size=(120, 40)) as screen:
        await screen.go_to(5)
        await screen.press("d")
        await screen.shows("compare needs two")
        await screen.press("m")
        await screen.shows("event 5 is marked")
        # One marked event is compared with the event under the cursor.
        await screen.go_to(14)
        await screen.press("d")
        await screen.shows("A: #5 CreateContainer", "B: #14 PostUpdateContainer", "3 differences")
        await screen.press("escape")
        await screen.until(lambda: not isinstance(screen.app.screen, CompareScreen))
        for event in (9, 15):
            await screen.go_to(event)
            await screen.press("m")
            await screen.shows(f"event {event} is marked")
        await screen.press("d")
        await screen.shows("3 events are marked: compare needs two")
        # Of three marked events, those of the selected container are compared.
        await screen.press("m")
        await screen.go_to(12)
        await screen.press("m")
        await screen.shows("event 12 is marked")
        await screen.press("d")
        await screen.shows("A: #9 CreateContainer", "B: #12 PostStartContainer")


@pytest.mark.exhaustive
async def test_two_containers_of_the_tree_are_compared(path: Path) -> None:
    async with showing(path, size=(120, 40)) as screen:
        await screen.press("2")
        await screen.shows(f"▸ {API}", f"▸ {PROXY}")
        # The first match of checkout-api is the pod.
        for name, matches in ((API, 2), (PROXY, 1)):
            await screen.press("/")
            await screen.type(name)
            await screen.press("enter", *["n"] * (matches - 1))
            await screen.until(lambda name=name: _container(screen) == name)  # type: ignore[misc]
            await screen.press("m")
            await screen.shows(", the newest of this container, is marked")
            await screen.press("x")
        await screen.press("d")
        await screen.shows(f"A: {CHECKOUT_PROXY}", f"B: {CHECKOUT_API}")
        await screen.press("escape")
        await screen.press("right")
        await screen.until(lambda: "*" in screen.line("11:52:27.137")[:3])


@pytest.mark.exhaustive
async def test_comment_input_in_the_tree_starts_with_the_comment_of_that_event(path: Path) -> None:
    async with showing(path) as screen:
        await screen.go_to(5)
        await screen.press("M")
        await screen.type("of five")
        await screen.press("enter")
        await screen.shows("event 5 is marked")
        await screen.press("2")
        await screen.shows(f"▸ {API}", f"▸ {PROXY}")
        await screen.press("/")
        await screen.type(PROXY)
        await screen.press("enter")
        await screen.until(lambda: _container(screen) == PROXY)
        await screen.press("M")
        await screen.type("of another")
        await screen.press("enter")
        await screen.shows("event 23, the newest of this container, is marked")
        await screen.press("M")
        await screen.type("!")
        await screen.press("enter")
        await screen.until(
            lambda: (
                {mark.event: mark.comment for mark in _marks(path)}
                == {5: "of five", 23: "of another!"}
            )
        )


@pytest.mark.exhaustive
async def test_comparing_events_without_a_container_is_rejected(path: Path) -> None:
    async with showing(path, size=(120, 40)) as screen:
        await screen.press("2")
        await screen.shows(f"▾ {CHECKOUT_WORKLOAD}", f"▾ {NIGHTLY_WORKLOAD}")
        for pod in (CHECKOUT_WORKLOAD, NIGHTLY_WORKLOAD):
            await screen.press("x", "/")
            await screen.type(pod)
            await screen.press("enter")
            await screen.shows(f"> ▾ {pod}")
            await screen.press("m")
            await screen.shows(", the newest of this pod, is marked")
        await screen.press("d")
        await screen.shows("! compare needs events of containers, unlike 28 and 32")
        await screen.press("m", "1")
        await screen.shows("[1 Events]")
        await screen.go_to(5)
        await screen.press("d")
        await screen.shows("! compare needs events of containers, unlike 28  ")
        await screen.go_to(1)
        await screen.press("d")
        await screen.shows("! compare needs events of containers, unlike 28 and 1")
        assert not isinstance(screen.app.screen, CompareScreen)


def _is_reading(screen: Shown) -> bool:
    detail = screen.app.views.detail
    assert detail is not None
    return detail._current_request() != detail._read_last


def _container(screen: Shown) -> str:
    current = screen.app.views.current
    selected = current.selected if isinstance(current, Board) else None
    return selected.name if isinstance(selected, Container) else ""


@pytest.mark.exhaustive
async def test_only_marked_events_applies_to_every_view(path: Path) -> None:
    async with showing(path, size=(120, 40)) as screen:
        await screen.go_to(15)
        await screen.press("m")
        await screen.shows("event 15 is marked")
        await screen.press("2")
        await screen.shows(CHECKOUT_WORKLOAD, f"▸ {API}", f"▸ {REPORT}")
        await screen.press("*")
        await screen.hides(f"▸ {API}")
        await screen.shows(f"▸ {REPORT}", "1 match: marked")
        await screen.press("3")
        await screen.shows("k6m4z")
        await screen.hides("x2x9z")
        await screen.press("4")
        await screen.shows("counts include only: marked")
        await screen.press("3", "*")
        await screen.shows("x2x9z")


@pytest.mark.exhaustive
async def test_warning_is_shown_if_marks_cannot_be_saved(path: Path) -> None:
    file = sidecar.path_of(path)
    file.write_text("[]")
    async with showing(path, size=(200, 40)) as screen:
        await screen.shows(
            "is damaged: it contains no marks; it is left unchanged, and marks are lost"
        )
        await screen.go_to(5)
        # The warning is shown before a comment is typed.
        await screen.press("M")
        await screen.shows("lost when you leave: they cannot be stored beside this recording")
        await screen.press("escape", "m")
        await screen.shows("marks are lost when you leave")
        assert "*" in screen.line("11:52:26.573 Create")[:4]
    assert file.read_text() == "[]"
    assert _marks(path) == []


@pytest.mark.exhaustive
async def test_marks_are_saved_beside_a_bundle_a_finished_and_a_growing_recording(
    path: Path, tmp_path: Path
) -> None:
    bundle = a_bundle(tmp_path / "r.nriscope.zip")
    finished = Path(shutil.copy(path, tmp_path / "finished.nriscope.db"))
    before = bundle.read_bytes(), finished.read_bytes()
    recorder = Recorder.open(path)
    try:
        for each in (bundle, finished, path):
            async with showing(each) as screen:
                await screen.go_to(5)
                await screen.press("M")
                await screen.shows("kept beside the recording")
                await screen.type("beside")
                await screen.press("enter")
                await screen.shows("event 5 is marked")
            assert [(mark.event, mark.comment) for mark in _marks(each)] == [(5, "beside")]
    finally:
        recorder.close()
    assert (bundle.read_bytes(), finished.read_bytes()) == before
    # After the end of the recording the mark is still shown.
    async with showing(path) as screen:
        await screen.shows("1 of 32 · 1 marked")
        await screen.go_to(5)
        await screen.press("M")
        await screen.shows("kept beside the recording")
        await screen.type(", and later")
        await screen.press("enter")
        await screen.until(lambda: [mark.comment for mark in _marks(path)] == ["beside, and later"])


async def test_mark_is_saved_if_the_app_quits_while_the_reader_is_busy(
    path: Path,
) -> None:
    release = threading.Event()
    async with showing(path) as screen:
        await screen.go_to(5)
        await screen.press("2")
        await screen.press("down", "down")
        await screen.until(lambda: screen.app.views.current.selected_event_id)
        busy = asyncio.create_task(screen.app.store.run(lambda recording: release.wait()))
        await asyncio.sleep(0)
        # The newest event of a pod must be read; a row of the list already is.
        number = screen.app.views.current.selected_event_id
        await screen.press("m", "1", "m", "q")
        release.set()
        await busy
    assert number is not None and number != 5
    assert [mark.event for mark in _marks(path)] == sorted([5, number])


@pytest.mark.exhaustive
async def test_two_apps_on_one_recording_keep_the_marks_of_both(path: Path) -> None:
    async with showing(path) as one:
        await one.go_to(5)
        async with showing(path) as other:
            await other.go_to(7)
            await other.press("m")
            await other.shows("event 7 is marked")
            await one.press("m")
            await one.shows("event 5 is marked")
            await one.until(lambda: len(_marks(path)) == 2)
        # Both continue reading.
        await one.press("g", "end")
        await one.shows("RemovePodSandbox")
    assert [mark.event for mark in _marks(path)] == [5, 7]


@pytest.mark.exhaustive
async def test_detail_keys_switch_tabs_and_layout(path: Path) -> None:
    async with showing(path, size=(100, 28)) as screen:
        await screen.go_to(5)
        await screen.hides("[Summary]")
        # The key opens the hidden pane.
        await screen.press("]")
        await screen.shows("[Container]", "pod_sandbox_id")
        await screen.press("[", "[")
        await screen.shows("[Raw]", "request:")
        await screen.press("|")
        await screen.until(lambda: screen.app.views.detail.region.x > 0)
        await screen.press("z")
        await screen.hides("Pod/container")
        await screen.press("end")
        await screen.shows("reply:", "adjust: {}")
        await screen.press("z", "p")
        await screen.shows("Pod/container")
        await screen.hides("reply:")


@pytest.fixture
def suppress_resize(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Request regions before layout: Textual then does not notify widgets of their size."""
    lay_out = Screen._refresh_layout

    def query_regions_first(screen: Screen[None], *arguments: object, **named: object) -> None:
        screen._compositor._full_map_invalidated = True
        assert screen._compositor.full_map
        lay_out(screen, *arguments, **named)  # type: ignore[arg-type]

    return lambda: monkeypatch.setattr(Screen, "_refresh_layout", query_regions_first)


async def test_list_fills_its_space_without_a_resize_event(
    path: Path, suppress_resize: Callable[[], None]
) -> None:
    async with showing(path, size=(100, 28)) as screen:
        events = screen.app.views.events
        before = events.size.height
        await screen.press("p")
        await screen.until(lambda: events.listing.height == events.size.height != before)
        suppress_resize()
        await screen.press("p")
        await screen.until(lambda: events.listing.height == events.size.height == before)


async def test_details_are_shown_without_a_resize_event(
    path: Path, suppress_resize: Callable[[], None]
) -> None:
    async with showing(path, size=(100, 28)) as screen:
        await screen.go_to(5)
        detail = screen.app.views.detail
        await screen.until(lambda: detail._row == screen.app.views.events.selected_row)
        await screen.until(lambda: detail._stop.is_set)
        suppress_resize()
        await screen.press("p")
        await screen.shows("[Summary]", f"container   {API}")


async def test_enter_focuses_the_details_and_escape_returns(path: Path) -> None:
    async with showing(path) as screen:
        await screen.go_to(5)
        await screen.press("enter")
        await screen.until(lambda: screen.app.views.in_detail)
        await screen.shows(f"container   {API}")
        await screen.press("escape")
        await screen.until(lambda: not screen.app.views.in_detail)


@pytest.mark.exhaustive
async def test_search_in_the_details_does_not_move_the_list(path: Path) -> None:
    async with showing(path, size=(100, 40)) as screen:
        await screen.go_to(5)
        await screen.press("enter", "]")
        await screen.shows("pod_sandbox_id")
        await screen.press("/")
        await screen.type("DESTINATION")
        await screen.press("enter")
        detail = screen.app.views.detail
        assert detail is not None
        await screen.until(lambda: detail.body.found > 0)
        first = detail.body.found
        await screen.press("n")
        await screen.until(lambda: detail.body.found > first)
        assert screen.selected == 5


# On a large screen: tests/tui/test_hostile.py.
@pytest.mark.exhaustive
async def test_a_hostile_recording_is_harmless_in_details_marks_and_comparison(
    tmp_path: Path,
) -> None:
    path = hostile_recording(tmp_path / "r.nriscope.db")
    with Recording.open(path) as recording:
        created = [event.id for event in recording.events() if event.event == "CreateContainer"]
    async with showing(path) as screen:
        for event in (created[0], created[1], created[list(NAMES).index(HUGE_NAME)]):
            await screen.go_to(event)
            await screen.press("enter", "m")
            for _ in range(5):
                await screen.press("]")
                await screen.until(lambda: not _is_reading(screen))
                assert_harmless(screen.text())
            await screen.press("tab")
        await screen.press("m")
        await screen.shows("is no longer marked")
        await screen.press("d")
        await screen.shows("differences")
        assert_harmless(screen.text())


@pytest.mark.exhaustive
@pytest.mark.parametrize("view", ["2", "3"])
async def test_marking_in_another_view_keeps_the_details_of_its_selected_event(
    view: str, path: Path
) -> None:
    async with showing(path, size=(120, 40)) as screen:
        await screen.press(view, "G")
        await screen.until(lambda: screen.app.views.current.selected_event_id is not None)
        number = screen.app.views.current.selected_event_id
        await screen.shows(f"[Summary] Container  Changes  Blame  Raw  #{number} ")
        await screen.press("m")
        await screen.shows("is marked")
        await wait_until_still(screen, 0.3)
        await screen.shows(f"[Summary] Container  Changes  Blame  Raw  #{number} ")
        await screen.press("1")
        await screen.shows("[Summary] Container  Changes  Blame  Raw  #1 Configure")


async def test_marks_in_a_temporary_recording_are_said_to_be_lost(path: Path) -> None:
    async with showing(path, size=(140, 40), source="web.yaml") as screen:
        await screen.go_to(5)
        await screen.press("M")
        await screen.shows("lost when you leave: this recording is temporary")
        await screen.press(*"why", "enter")
        await screen.shows("marks are lost when you leave")
        assert [mark.comment for mark in screen.app._marks.all()] == ["why"]
    assert _marks(path) == []


def _signs(screen: Shown) -> dict[str, str]:
    """Return the signs before the name of each pod and container."""
    lines = [line for line in screen.text().splitlines() if "▾ " in line or "▸ " in line]
    return {line[2:].strip(" ▾▸").split()[0]: line[:2] for line in lines}


@pytest.mark.exhaustive
async def test_a_container_with_a_marked_event_has_a_sign_and_the_footer_the_keys(
    path: Path,
) -> None:
    async with showing(path) as screen:
        await screen.press("2")
        await screen.shows(f"▾ {CHECKOUT_WORKLOAD}", f"▸ {API}")
        await screen.press("down", "down", "down")
        await screen.shows("m mark")
        assert "compare" not in screen.text().splitlines()[-1]
        await screen.press("m")
        await screen.until(lambda: _signs(screen).get(API) == ">*")
        signs = _signs(screen)
        assert signs.pop("payments-prod/checkout-api-…x2x9z") == " *" and signs.pop(API) == ">*"
        assert set(signs.values()) == {"  "}
        # It cannot be compared with itself.
        assert "compare" not in screen.text().splitlines()[-1]
        await screen.press("down", "m")
        await screen.until(lambda: _signs(screen).get(PROXY) == ">*")
        await screen.shows("d compare")
        await screen.press("m")
        await screen.until(lambda: _signs(screen).get(PROXY) == "> ")
        await screen.shows("d compare")
    async with showing(path) as screen:
        await screen.press("2")
        await screen.until(lambda: _signs(screen).get(API) == " *")


@pytest.mark.exhaustive
async def test_a_container_without_events_cannot_be_marked_and_a_notice_says_why(
    path: Path,
) -> None:
    async with showing(path, (120, 24)) as screen:
        await screen.press("2")
        await screen.shows(f"▾ {NODE}", f"▸ {EXPORTER}")
        await screen.press("down")
        assert "m mark" not in screen.text().splitlines()[-1]
        await screen.press("m")
        await screen.shows("node-exporter: no event here to mark; `diff FILE A B` compares")
