# SPDX-License-Identifier: Apache-2.0
"""The views beside the list of events, in the app."""

from __future__ import annotations

from textual.events import Key

from nri_scope.tui.model.keys import shown as shown_key
from tests.tui.screen import showing


async def test_searching_goes_on_in_the_view_that_is_shown() -> None:
    async with showing() as shown:
        await shown.press("2")
        await shown.shows("▾ shop/web", "▸ broken")
        await shown.press("/")
        await shown.type("sidecar")
        await shown.press("enter")
        await shown.shows("[2 Containers]", "shop/web/sidecar  created")
        await shown.press("/")
        await shown.type("nobody")
        await shown.press("enter")
        await shown.shows("[2 Containers]", "not found: nobody")


async def test_narrowing_stays_when_the_view_changes_and_backspace_goes_back() -> None:
    async with showing() as shown:
        await shown.press("2")
        await shown.shows("▾ shop/web", "▸ broken")
        await shown.press("down", "down", "down", "enter")
        await shown.shows("> shop/web/app")
        await shown.hides("broken")
        await shown.press("3")
        await shown.shows("[3 Timeline]", "■ stopped", "shop/web")
        await shown.hides("jobs/batch")
        await shown.press("1")
        await shown.shows("[1 Events]", "shop/web/app")
        await shown.hides("jobs/batch")
        await shown.press("backspace")
        await shown.shows("jobs/batch")
        await shown.press("2")
        await shown.shows("▸ broken")


async def test_every_view_has_a_key_and_shows_something() -> None:
    async with showing() as shown:
        for key, words in {
            "2": "▸ sidecar",
            "3": "► started",
            "4": "our own connection",
            "5": "interrupted",
        }.items():
            await shown.press(key)
            await shown.shows(words)


async def test_an_event_of_the_timeline_opens_in_the_list() -> None:
    async with showing() as shown:
        await shown.press("3")
        await shown.shows("■ stopped", "shop/web")
        await shown.press("down", "down", "down", "o")
        await shown.shows("PostCreateContainer  event 6")
        await shown.press("enter")
        await shown.shows("[1 Events]")
        await shown.until(lambda: shown.selected == 6)


async def test_the_details_are_of_the_cursor_of_the_view_that_is_shown() -> None:
    async with showing(size=(160, 50)) as shown:
        await shown.shows("1 of 34", "[Summary]", "why ")
        await shown.press("2")
        await shown.shows("▾ shop/web", "▸ app")
        await shown.press("down", "down", "down", "right")
        await shown.shows("▾ app")
        await shown.press("down")
        await shown.shows("number ", "CreateContainer shop/web/app")
        await shown.press("1")
        await shown.shows("> session 1", "why ")


async def test_keys_typed_right_behind_that_of_a_view_are_not_lost() -> None:
    async with showing() as shown:
        for key in ("2", "down", "down", "down", "enter"):
            shown.app.post_message(Key(key, None))
        await shown.shows("[2 Containers]", "> shop/web/app")


async def test_keys_of_the_list_of_events_say_so_elsewhere() -> None:
    async with showing() as shown:
        await shown.press("5")
        await shown.shows("[5 Sessions]", "interrupted")
        for key in ("F", "space"):
            await shown.press(key)
            await shown.shows(f"{shown_key(key)} is of the list of events, key 1")


async def test_the_palette_goes_to_the_view_that_can_do_it() -> None:
    async with showing(size=(100, 40)) as screen:
        await screen.press("ctrl+p")
        await screen.type("half a screen later")
        await screen.shows("Timeline: half a screen later")
        await screen.press("enter")
        await screen.shows("[3 Timeline]")
        await screen.press("ctrl+p")
        await screen.type("let the view stand")
        await screen.shows("Events: let the view stand still")
        await screen.press("enter")
        await screen.shows("[1 Events]")
