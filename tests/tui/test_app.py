# SPDX-License-Identifier: Apache-2.0
"""Each action and state of the terminal interface, by its keys."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from textual import events

from nri_scope.cli import tui
from nri_scope.filter import parse
from nri_scope.tui import polling
from nri_scope.tui.commands import copy
from nri_scope.tui.frame import WorkState
from nri_scope.tui.list.scroll_state import FollowState
from nri_scope.tui.widgets import screens
from tests.sample_names import API, CHECKOUT, CHECKOUT_API, REPORT_POD
from tests.tui.screen import RECORDING, copy_recording, showing
from tests.tui.textual_state import without_screens


async def test_first_screen_shows_title_and_events() -> None:
    async with showing() as screen:
        await screen.shows("CreateContainer", "1 of 32")
        title = screen.text().splitlines()[0]
        assert "containerd 2.1.9" in title and "recorded" in title and "32 events" in title
        assert "x2x9z/checkout-api" in screen.line("11:52:26.573 CreateContainer")


async def test_a_wide_screen_shows_more_columns() -> None:
    async with showing(size=(160, 50)) as screen:
        await screen.shows("[Summary]")
        await screen.press("p")
        await screen.shows("Elapsed", "Changed", "Plugin", "00-nri-scope", RECORDING.name)


@pytest.mark.exhaustive
async def test_the_cursor_moves_by_lines_screens_and_to_both_ends() -> None:
    async with showing() as screen:
        await screen.shows("1 of 32")
        await screen.press("down", "j")
        await screen.shows("3 of 32")
        await screen.press("up", "pagedown")
        await screen.shows("21 of 32")
        await screen.press("end")
        await screen.shows("32 of 32")
        await screen.press("home")
        await screen.shows("1 of 32")


async def test_backspace_removes_a_typed_filter() -> None:
    async with showing() as screen:
        await screen.press("f")
        await screen.type("event:CreateContainer")
        await screen.shows("valid")
        await screen.press("enter")
        await screen.shows("4 matches: event:CreateContainer")
        await screen.hides("PostStartContainer")
        await screen.press("backspace")
        await screen.shows("PostStartContainer", "of 32")


@pytest.mark.exhaustive
async def test_keys_after_the_key_that_closes_an_input_do_not_reach_it() -> None:
    async with showing() as screen:
        await screen.press("f", *"ns:payments-prod", "enter", "j", "j")
        await screen.shows("17 matches: ns:payments-prod")
        assert screen.app.context.where_text == "ns:payments-prod"
        await screen.press("/", *"nothing", "escape", "k", "x")
        await screen.shows("of 32")
        assert not screen.app.searcher.text and not screen.app.bar.is_open


async def test_invalid_filter_shows_an_error_and_is_not_applied() -> None:
    async with showing() as screen:
        await screen.press("f")
        await screen.type("spod:x")
        await screen.shows('error: unknown field "spod", the nearest is "pod"')
        await screen.press("enter")
        assert screen.app.context.where_text == ""
        await screen.press("escape")
        await screen.hides("error:")


async def test_tab_completes_fields_and_cycles_through_values() -> None:
    async with showing() as screen:
        await screen.until(lambda: screen.app.bar.values)
        await screen.press("f")
        await screen.type("con")
        await screen.press("tab")
        await screen.shows("container:")
        await screen.press("tab")
        await screen.shows("[checkout-api]")
        await screen.press("tab")
        await screen.shows("[istio-proxy]")
        await screen.press("enter")
        await screen.until(lambda: screen.app.context.where_text == "container:istio-proxy")


@pytest.mark.exhaustive
async def test_history_recalls_earlier_filters() -> None:
    async with showing() as screen:
        for text in ("ns:payments-prod", "ns:reporting"):
            await screen.press("f", *["backspace"] * 20)
            await screen.type(text)
            await screen.press("enter")
            await screen.shows(f"matches: {text}")
        await screen.press("f", "up", "up", "enter")
        await screen.until(lambda: screen.app.context.where_text == "ns:payments-prod")


async def test_no_match_looks_different_from_an_empty_recording() -> None:
    async with showing() as screen:
        await screen.press("e")
        await screen.shows("0 matches", "None of 32 events matches problem:failed")
        await screen.shows("x shows everything")
        await screen.press("e")
        await screen.shows("1 of 32")


@pytest.mark.exhaustive
async def test_keys_move_the_cursor_after_a_filter_without_matches() -> None:
    async with showing(size=(160, 50)) as screen:
        await screen.shows("1 of 32", "[Summary]")
        await screen.press("e")
        await screen.shows("0 matches")
        await screen.press("e")
        await screen.shows("1 of 32")
        await screen.press("down", "down")
        await screen.shows("3 of 32")


async def test_x_removes_the_filter_and_backspace_restores_it() -> None:
    async with showing() as screen:
        await screen.press("s")
        await screen.until(lambda: screen.app.context.where_text == "problem:slow OR took:>1ms")
        await screen.press("x")
        await screen.shows("of 32")
        await screen.press("backspace")
        await screen.until(lambda: screen.app.context.where_text == "problem:slow OR took:>1ms")


@pytest.mark.exhaustive
async def test_equals_and_bang_filter_by_the_selected_cell() -> None:
    async with showing() as screen:
        await screen.press("end", "up")
        await screen.until(lambda: screen.app.views.events.selected_row)
        await screen.press("left", "=")
        await screen.until(lambda: screen.app.context.where_text == "event:RemovePodSandbox")
        await screen.press("x")
        await screen.shows("of 32")
        await screen.press("right", "!")
        await screen.until(lambda: screen.app.context.where_text == f"-pod:{REPORT_POD}")


async def test_search_finds_next_and_previous_and_wraps_around() -> None:
    async with showing() as screen:
        await screen.press("/")
        await screen.type("ISTIO")
        await screen.press("enter")
        await screen.until(lambda: screen.selected == 9)
        await screen.press("n")
        await screen.until(lambda: screen.selected == 10)
        await screen.press("N", "N")
        await screen.shows("search continued from the end")
        await screen.until(lambda: screen.selected == 23)
        await screen.press("/")
        await screen.type("nowhere")
        await screen.press("enter")
        await screen.shows("not found: nowhere")


@pytest.mark.exhaustive
async def test_n_repeats_the_last_search_after_escape() -> None:
    async with showing() as screen:
        await screen.shows("1 of 32")
        await screen.press("/")
        await screen.type("istio")
        await screen.press("enter")
        await screen.until(lambda: screen.selected not in (None, 1))
        found = screen.selected
        await screen.press("escape")
        assert screen.app.views.events.search_text == ""
        await screen.press("g", "n")
        await screen.until(lambda: screen.selected == found)
        assert screen.app.views.events.search_text == "istio"
        await screen.press("x", "n")
        await screen.shows("no search text yet")


async def test_long_search_shows_its_progress() -> None:
    async with showing() as screen:
        screen.app.frame.show_work(WorkState(searching="web", searched=0.42))
        await screen.shows("searching for web … 42%")
        screen.app.frame.show_work(WorkState(searching=""))
        await screen.hides("searching for")


@pytest.mark.exhaustive
async def test_search_keys_pressed_during_a_search_take_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with showing() as screen:
        release = asyncio.Event()
        search = screen.app.store.find

        starts: list[int | None] = []

        async def slow(*arguments: Any) -> int | None:
            starts.append(screen.selected)
            await release.wait()
            return await search(*arguments)

        monkeypatch.setattr(screen.app.store, "find", slow)
        await screen.press("/")
        await screen.type("ISTIO")
        await screen.press("enter", "n", "n", "N", "n")
        await screen.shows("searching for ISTIO")
        release.set()
        # The second key leads there, too, before the last one does.
        await screen.until(lambda: len(starts) == 5 and not screen.app.frame.work.searching)
        await screen.until(lambda: screen.selected == 11)
        release.clear()
        await screen.press("n", "n", "escape")
        await screen.shows("search stopped")
        release.set()
        await screen.press("N")
        await screen.until(lambda: screen.selected == 10)


async def test_narrowing_to_a_container_or_pod_and_back() -> None:
    async with showing() as screen:
        await screen.press(*["down"] * 3)
        await screen.until(lambda: screen.selected == 5 and screen.app.views.events.selected_row)
        await screen.press("i")
        await screen.shows(f"1 of 8 · 8 matches: {CHECKOUT_API}")
        await screen.hides("k6m4z")
        await screen.hides("istio-proxy")
        await screen.press("backspace")
        await screen.shows("k6m4z")
        await screen.press("I")
        await screen.shows(f"pod {CHECKOUT}", "istio-proxy")
        await screen.hides("k6m4z")


@pytest.mark.exhaustive
async def test_the_filter_bar_says_what_limits_the_list_without_a_filter() -> None:
    async with showing(size=(140, 24)) as screen:
        await screen.press("f")
        await screen.shows("no filter: shows everything")
        await screen.press("escape", *["down"] * 24, "I", "f")
        await screen.shows(f"no filter: shows only pod {CHECKOUT}")


@pytest.mark.exhaustive
async def test_narrowing_without_a_container_shows_the_reason() -> None:
    async with showing(size=(100, 30)) as screen:
        await screen.shows("1 of 32")
        await screen.press("end", "i")
        await screen.shows("this row is not an event and has no pod or container")
        for event, words in (
            (1, "this event has no pod or container"),
            (3, "this event concerns the whole pod; I narrows to it"),
        ):
            await screen.go_to(event)
            await screen.press("i")
            await screen.shows(words)
        await screen.press("2")
        await screen.shows(f"▸ {API}")
        await screen.press("home", "i")
        await screen.shows("this is a pod; I narrows to it")
        await screen.press("I")
        await screen.shows("> pod ")
        await screen.press("x", "4")
        await screen.shows("[4 Plugins]", "00-nri-scope")
        await screen.press("i")
        await screen.shows("there is no container here")


@pytest.mark.exhaustive
async def test_initial_filter_can_be_removed_and_recalled() -> None:
    async with showing(where=parse("ns:reporting")) as screen:
        await screen.shows("matches: ns:reporting")
        await screen.press("backspace")
        await screen.shows("of 32")
        await screen.press("f", "up", "enter")
        await screen.shows("matches: ns:reporting")


async def test_help_lists_keys_and_closes_on_escape() -> None:
    async with showing(size=(100, 60)) as screen:
        await screen.press("?")
        await screen.shows("keys of this screen", "stop following, or follow again", "Esc closes")
        await screen.press("escape")
        await screen.hides("keys of this screen")


async def test_palette_runs_an_action_by_name() -> None:
    async with showing(size=(100, 40)) as screen:
        await screen.press("ctrl+p")
        await screen.type("slow events")
        await screen.shows("only slow events: >1 ms or >50% of the deadline (toggle)")
        await screen.press("enter")
        await screen.until(lambda: screen.app.context.where_text == "problem:slow OR took:>1ms")


@pytest.mark.exhaustive
async def test_theme_key_cycles_through_the_themes() -> None:
    async with showing() as screen:
        for name in ("light", "ansi", "dark"):
            await screen.press("T")
            await screen.shows(f"theme: {name}")
            assert screen.app.theme == name


async def test_an_event_is_copied_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    async with showing() as screen:
        await screen.press(*["down"] * 3)
        await screen.until(lambda: screen.app.views.events.selected_row)
        await screen.press("y")
        await screen.shows("copied event 5")
        assert f"name: {API}" in screen.app.clipboard
        monkeypatch.setattr(copy, "CLIPBOARD_MAX", 10)
        await screen.press("y")
        await screen.shows("too long for the terminal's clipboard; E exports it to a file")


async def test_a_scenario_is_named_in_place_of_its_temporary_recording() -> None:
    async with showing(size=(140, 24), source="web.yaml") as screen:
        await screen.shows("web.yaml")
        assert RECORDING.name not in screen.text()


def test_largest_copied_text_fits_the_limit_of_terminals() -> None:
    assert len(base64.b64encode(b"x" * copy.CLIPBOARD_MAX)) < 74_994


async def test_finished_recording_shows_no_follow_state() -> None:
    async with showing() as screen:
        await screen.shows("1 of 32")
        assert screen.app.views.events.listing.state is FollowState.SCROLLED
        assert "scrolled" not in screen.text()


async def test_app_exits_with_an_error_if_the_file_is_not_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "text.nriscope.db"
    path.write_text("no recording")
    async with showing(path) as screen:
        assert "not an nri-scope recording" in str(screen.app.failure)
    assert screen.app.return_code == 2


async def test_follow_and_pause_are_rejected_in_a_finished_recording() -> None:
    async with showing() as screen:
        await screen.shows("1 of 32")
        await screen.press("space")
        await screen.shows("! this recording has ended: there is nothing to pause")
        assert screen.app.views.events.listing.state is FollowState.SCROLLED
        await screen.press("F")
        await screen.shows("! this recording has ended: there is nothing to follow")
        await screen.press("down")
        await screen.shows("2 of 32")


@pytest.mark.exhaustive
async def test_selected_completion_is_visible_among_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"{'x' * 15}-{number}" for number in range(20)]
    monkeypatch.setattr(polling, "completion_values", lambda recording: {"pod": names})
    async with showing() as screen:
        await screen.press("f")
        await screen.until(lambda: "pod" in screen.app.bar.values)
        await screen.type("pod:")
        for name in names:
            await screen.press("tab")
            await screen.shows(f"[{name}]")
        assert "+" not in screen.line(f"[{names[-1]}]")


async def test_too_small_terminal_shows_a_message_until_enlarged() -> None:
    assert (screens.MIN_COLUMNS, screens.MIN_LINES) == (tui.MIN_COLUMNS, tui.MIN_LINES)
    async with showing() as screen:
        await screen.shows("1 of 32")
        await screen.press("down")
        await screen.pilot.resize_terminal(39, 24)
        await screen.shows("too small: needs at least 40×10")
        assert screen.text().split() == ["too", "small:", "needs", "at", "least", "40×10"]
        await screen.pilot.resize_terminal(80, 9)
        await screen.shows("too small")
        await screen.pilot.resize_terminal(80, 24)
        await screen.shows("2 of 32", "RunPodSandbox")
        await screen.hides("too small")
        await screen.press("down")
        await screen.shows("3 of 32")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("keys", "words", "next_key", "expected"),
    [
        (["?"], "keys of this screen", "down", "Events"),
        (["ctrl+p"], "show pods and containers", "z", "maximise the details"),
        (["m", "down", "m", "d"], "no differences", "W", "no differences"),
    ],
)
async def test_overlay_reappears_when_a_too_small_terminal_is_enlarged(
    tmp_path: Path, keys: list[str], words: str, next_key: str, expected: str
) -> None:
    path = copy_recording(tmp_path)
    async with showing(path, size=(100, 40)) as screen:
        await screen.go_to(6)
        await screen.press(*keys)
        await screen.shows(words)
        focused = screen.app.focused
        assert focused is not None
        await screen.pilot.resize_terminal(39, 9)
        await screen.shows("too small")
        assert screen.text().split() == ["too", "small:", "needs", "at", "least", "40×10"]
        await screen.pilot.resize_terminal(100, 40)
        await screen.shows(words)
        await screen.until(lambda: screen.app.focused is focused)
        await screen.press(next_key)
        await screen.shows(expected)
        await screen.hides("too small")


async def test_overlay_opened_in_a_too_small_terminal_works_once_enlarged() -> None:
    async with showing() as screen:
        await screen.shows("1 of 32")
        await screen.pilot.resize_terminal(39, 9)
        await screen.shows("too small")
        await screen.press("?")
        await screen.until(lambda: len(screen.app.screen_stack) == 2)
        assert screen.text().split() == ["too", "small:", "needs", "at", "least", "40×10"]
        await screen.pilot.resize_terminal(80, 24)
        await screen.shows("one line up")
        await screen.until(lambda: screen.app.focused is not None)
        await screen.press("end")
        await screen.shows("set by the runtime.")


@pytest.mark.parametrize("view", ["1", "2"])
async def test_only_marked_is_rejected_without_marks(view: str) -> None:
    async with showing() as screen:
        await screen.press(view)
        await screen.shows("k6m4z")
        await screen.press("*")
        await screen.shows("! no event is marked; m marks one")
        assert not screen.app.context.only_marked


async def test_a_key_that_waits_for_lines_when_the_app_ends_is_dropped() -> None:
    async with showing() as screen:
        await screen.shows("1 of 32")
        with without_screens(screen.app):
            # The first one is held, and tried again with the second one.
            for _ in range(2):
                await screen.app.on_event(events.Key("down", None))
        await screen.shows("1 of 32")
