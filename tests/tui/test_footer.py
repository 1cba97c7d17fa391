# SPDX-License-Identifier: Apache-2.0
"""The footer shows keys of the view and selection, as many as the width allows."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import pytest

from nri_scope.tui.actions import ACTION_OF, Scope, Situation, footer
from tests.tui.screen import RECORDINGS, Shown, showing

_BOOL = (False, True)


def test_keys_of_each_situation_work_there() -> None:
    places = [place for place in Scope if place not in (Scope.APP, Scope.COMPARE)]
    for place, marked in product(places, (0, 1, 2, 3)):
        for event, changed, narrowed, grows, busy in product(_BOOL, repeat=5):
            now = Situation(
                place,
                marked,
                is_event=event,
                is_changed=changed,
                is_narrowed=narrowed,
                grows=grows,
                is_busy=busy,
            )
            for name, _ in footer(now):
                assert {place, Scope.APP} & set(ACTION_OF[name].scopes), (place, name)


@pytest.mark.exhaustive
async def test_footer_follows_selection_filter_and_focus(tmp_path: Path) -> None:
    path = Path(shutil.copy(RECORDINGS / "containerd-2.1-conflict.nriscope.zip", tmp_path))
    async with showing(path, (120, 40), surveyed=True) as screen:
        await screen.shows("1 problem")

        def footer_line() -> str:
            return screen.text().splitlines()[-1]

        assert "b blame" not in footer_line()
        await screen.press("c")
        await screen.until(lambda: "b blame" in footer_line() and "x show all" in footer_line())
        assert "Enter connections" in footer_line()
        await screen.press("tab")
        await screen.until(lambda: "L next tab" in footer_line())
        await screen.press("escape", "f")
        await screen.until(lambda: "Enter accept" in footer_line())
        await screen.press("escape", "3")
        await screen.until(lambda: "+ zoom in" in footer_line())


async def test_wider_footer_shows_more_keys() -> None:
    lines = []
    for size in ((80, 24), (200, 60)):
        async with showing(size=size) as screen:
            lines.append(screen.text().splitlines()[-1].strip())
    assert lines[1].startswith(lines[0])
    assert "E export" in lines[1]
    assert "E export" not in lines[0]


@pytest.mark.exhaustive
async def test_footer_offers_what_keys_of_the_details_do_now() -> None:
    def labels(screen: Shown) -> str:
        return screen.text().splitlines()[-1]

    path = RECORDINGS / "containerd-2.1-conflict.nriscope.zip"
    async with showing(path, (120, 40), surveyed=True) as screen:
        await screen.shows("1 problem")
        await screen.press("c")
        await screen.until(lambda: "b blame" in labels(screen))
        await screen.press("b")
        await screen.until(lambda: "z maximise" in labels(screen))
        assert "b blame" not in labels(screen) and "Enter all lines" in labels(screen)
        await screen.press("enter")
        await screen.until(lambda: "Enter only changed lines" in labels(screen))
        await screen.press("z")
        await screen.until(lambda: "z restore" in labels(screen))
        await screen.press("]")
        await screen.until(lambda: "Enter" not in labels(screen))
        await screen.press("z", "p")
        await screen.until(lambda: "b blame" in labels(screen))
