# SPDX-License-Identifier: Apache-2.0
"""The boards in the app."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nri_scope.recording.marks.sidecar import marks_of
from nri_scope.recording.reading.reader import Recording
from nri_scope.tui.containers.container_board import ContainerBoard
from nri_scope.tui.store.store import Store
from nri_scope.tui.textual_workarounds import pressed
from tests.sample_names import (
    API,
    CHECKOUT_API,
    CHECKOUT_PROXY,
    CHECKOUT_WORKLOAD,
    NIGHTLY_UPLOAD,
    NODE,
    PROXY,
    UPLOAD,
)
from tests.tui.screen import Shown, copy_recording, showing


@pytest.mark.exhaustive
async def test_search_runs_in_the_current_view() -> None:
    async with showing() as shown:
        await shown.press("2")
        await shown.shows(f"▾ {CHECKOUT_WORKLOAD}", f"▸ {UPLOAD}")
        await shown.press("/")
        await shown.type(PROXY)
        await shown.press("enter")
        await shown.shows("[2 Containers]", f"{CHECKOUT_PROXY}  creating")
        await shown.press("/")
        await shown.type("nobody")
        await shown.press("enter")
        await shown.shows("[2 Containers]", "not found: nobody")


@pytest.mark.exhaustive
async def test_narrowing_survives_a_change_of_view_and_backspace_undoes_it() -> None:
    async with showing() as shown:
        await shown.press("2")
        await shown.shows(f"▾ {CHECKOUT_WORKLOAD}", f"▸ {UPLOAD}")
        await shown.press("down", "down", "down", "i")
        await shown.shows(f"8 matches: {CHECKOUT_API}")
        await shown.hides(UPLOAD)
        await shown.press("3")
        await shown.shows("[3 Timeline]", "■stopped", "x2x9z")
        await shown.hides("k6m4z")
        await shown.press("1")
        await shown.shows("[1 Events]", "x2x9z/checkout-api")
        await shown.hides("k6m4z")
        await shown.press("backspace")
        await shown.shows("k6m4z")
        await shown.press("2")
        await shown.shows(f"▸ {UPLOAD}")


async def test_every_view_opens_by_its_key() -> None:
    async with showing() as shown:
        for key, words in {
            "2": f"▸ {PROXY}",
            "3": "►started",
            "4": "passive connection",
            "5": "interrupted",
        }.items():
            await shown.press(key)
            await shown.shows(words)


async def test_an_event_of_the_timeline_opens_in_the_list() -> None:
    async with showing() as shown:
        await shown.press("3")
        await shown.shows("■stopped", "x2x9z")
        await shown.press("down", "down", "down", "o")
        await shown.shows("PostCreateContainer  event 6")
        await shown.press("enter")
        await shown.shows("[1 Events]")
        await shown.until(lambda: shown.selected == 6)


async def test_details_follow_the_cursor_of_the_current_view() -> None:
    async with showing(size=(160, 50)) as shown:
        await shown.shows("1 of 32", "[Summary]", "set-up of 00-nri-scope")
        await shown.press("2")
        await shown.shows(f"▾ {CHECKOUT_WORKLOAD}", f"▸ {API}")
        await shown.press("down", "down", "down", "right")
        await shown.shows(f"▾ {API}")
        await shown.press("down")
        await shown.shows("number ", f"CreateContainer {CHECKOUT_API}")
        await shown.press("1")
        await shown.shows("▸ session 1", "set-up of 00-nri-scope")


def _type(shown: Shown, *keys: str) -> None:
    """Type keys without waiting between them."""
    for key in keys:
        shown.app.post_message(pressed(key))


async def test_keys_typed_right_after_a_view_key_are_not_lost() -> None:
    async with showing() as shown:
        _type(shown, "2", "down", "down", "down", "i")
        await shown.shows("[2 Containers]", f"8 matches: {CHECKOUT_API}")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Delay reading of the tree until the event is set."""
    release, read = asyncio.Event(), ContainerBoard.work

    async def work(self: ContainerBoard) -> None:
        await release.wait()
        await read(self)

    monkeypatch.setattr(ContainerBoard, "work", work)
    return release


@pytest.mark.exhaustive
async def test_keys_wait_until_a_slow_view_has_its_lines(slow: asyncio.Event) -> None:
    async with showing(size=(100, 24)) as shown:
        _type(shown, "2", *["down"] * 3, "i", "3", "1", "f", "q", "enter")
        await shown.shows("[2 Containers]", "reading…")
        slow.set()
        await shown.shows("[1 Events]", f"None of 32 events matches {CHECKOUT_API} · q")
        assert shown.app.context.where_text == "q"
        await shown.press("backspace", "2")
        await shown.shows(f"8 matches: {CHECKOUT_API}")


async def test_keys_typed_right_after_the_palette_or_help_key_are_not_lost() -> None:
    async with showing() as shown:
        _type(shown, "2", "ctrl+p", *"export")
        await shown.shows("[2 Containers]", "🔎 export", "export the shown or the marked events")
        await shown.press("escape")
        _type(shown, "f1", "end")
        await shown.shows("set by the runtime.")


@pytest.mark.exhaustive
async def test_keys_after_a_filter_act_on_the_matching_events(tmp_path: Path) -> None:
    path = copy_recording(tmp_path)
    async with showing(path) as shown:
        await shown.shows("1 of 32")
        _type(shown, "f", *"event:PostUpdateContainer", "enter", "home", "m")
        await shown.shows("event 14 is marked")
        _type(shown, "x", "end", "up", "m", "f", *"event:StopPodSandbox", "enter", "home", "m")
        await shown.until(lambda: len(shown.app.marker.marks.all()) == 3)
    with Recording.open(path) as recording:
        stopped = [event.id for event in recording.events() if event.event == "StopPodSandbox"]
        assert [one.event for one in marks_of(recording)] == [14, stopped[0], 32]


async def test_key_waits_until_the_line_under_the_cursor_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release, read_missing = asyncio.Event(), ContainerBoard.read_missing

    async def read_missing_slowly(self: ContainerBoard) -> bool:
        await release.wait()
        return await read_missing(self)

    async with showing(size=(80, 10)) as shown:
        await shown.press("2")
        await shown.shows(f"▾ {CHECKOUT_WORKLOAD}")
        await shown.until(
            lambda: (
                isinstance(shown.app.views.current, ContainerBoard)
                and shown.app.views.current.has_content
            )
        )
        monkeypatch.setattr(ContainerBoard, "read_missing", read_missing_slowly)
        _type(shown, "end", "i", "1")
        await shown.until(
            lambda: isinstance(tree := shown.app.views.current, ContainerBoard) and tree.lacks_line
        )
        release.set()
        await shown.shows("[1 Events]", f"> {NIGHTLY_UPLOAD}")


@pytest.mark.exhaustive
@pytest.mark.parametrize("keys", [["escape"], ["i", "1", "escape"], ["f", "q", "escape"]])
async def test_escape_discards_keys_that_wait_for_a_slow_view(
    slow: asyncio.Event, keys: list[str]
) -> None:
    async with showing() as shown:
        _type(shown, "2", "down", "down", *keys)
        await shown.shows("[2 Containers]", "reading…")
        slow.set()
        await shown.shows("[2 Containers]", f"> ▾ {NODE}")


async def test_another_view_does_not_wait_for_a_slow_one(slow: asyncio.Event) -> None:
    async with showing() as shown:
        _type(shown, "2", "down", "1", "down", "3")
        await shown.shows("[3 Timeline]", "x2x9z")
        assert not slow.is_set()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (["enter", "down", "1"], "[1 Events]"),
        (["enter", "right", "4"], "[4 Plugins]"),
        (["enter", "f", *"ns:analytics", "enter"], "ns:analytics"),
        (["?"], "Esc closes"),
        ([":"], "Enter accept"),
    ],
    ids=["other-view", "another-view", "filter", "help", "input"],
)
async def test_a_key_that_needs_no_line_does_not_wait_for_a_slow_view(
    slow: asyncio.Event, keys: list[str], words: str
) -> None:
    async with showing() as shown:
        _type(shown, "2", *keys)
        await shown.shows(words)
        assert not slow.is_set()


async def test_a_key_that_waits_for_a_line_says_so_and_is_kept(slow: asyncio.Event) -> None:
    async with showing() as shown:
        _type(shown, "2", "down", "down", "down", "i", "1")
        await shown.shows("↓ waits for lines; Esc drops it")
        slow.set()
        await shown.shows("[1 Events]", CHECKOUT_API)
        assert "waits" not in shown.text()


async def test_a_search_in_a_slow_view_waits_for_its_lines(slow: asyncio.Event) -> None:
    async with showing() as shown:
        _type(shown, "2", "/", *PROXY, "enter")
        await shown.shows(f"searching for {PROXY}")
        slow.set()
        await shown.until(lambda: PROXY in shown.line(">   "))


@pytest.mark.parametrize(
    ("key", "words"), [("2", "[2 Containers]"), ("f", "Enter accept"), ("escape", "search stopped")]
)
async def test_a_long_search_ends_at_once(
    monkeypatch: pytest.MonkeyPatch, key: str, words: str
) -> None:
    async def find(*_arguments: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Store, "find", find)
    async with showing() as shown:
        _type(shown, "/", *"app", "enter")
        await shown.shows("searching for app")
        _type(shown, key)
        await shown.shows(words)
        await shown.hides("searching for app")


@pytest.mark.parametrize("keys", [["q"], ["down", "q"], ["f", "ctrl+c"]])
async def test_quitting_does_not_wait_for_a_slow_view(slow: asyncio.Event, keys: list[str]) -> None:
    async with showing() as shown:
        _type(shown, "2", *keys)
        await shown.until(lambda: shown.app.return_code is not None)
        assert not slow.is_set()


@pytest.mark.exhaustive
async def test_palette_switches_to_the_view_of_the_action() -> None:
    async with showing(size=(100, 40)) as screen:
        await screen.press("ctrl+p")
        await screen.type("half a screen later")
        await screen.shows("Timeline: scroll half a screen later")
        await screen.press("enter")
        await screen.shows("[3 Timeline]")
        await screen.press("ctrl+p")
        await screen.type("stop following")
        await screen.shows("Events: stop following, or follow again")
        await screen.press("enter")
        await screen.shows("[1 Events]")
