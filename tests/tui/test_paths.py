# SPDX-License-Identifier: Apache-2.0
"""Labels and pointers of paths in the terminal interface."""

from __future__ import annotations

import pytest

from tests.tui.screen import RECORDINGS, showing

CRI_O = RECORDINGS / "cri-o-1.37.nriscope.zip"


@pytest.mark.exhaustive
@pytest.mark.parametrize("text", ["env FOO", "/process/env/FOO", "FOO"])
async def test_the_search_and_the_filter_find_each_spelling(text: str) -> None:
    async with showing(CRI_O, (120, 40)) as screen:
        await screen.shows("1 of 37")
        await screen.press("/")
        await screen.type(text)
        await screen.press("enter")
        await screen.until(lambda: screen.selected == 17)
        await screen.press("escape", "f")
        await screen.type(f'changed:"{text}"')
        await screen.press("enter")
        await screen.shows("4 matches")
        await screen.shows(", 9 more")


@pytest.mark.exhaustive
@pytest.mark.parametrize("text", ["env FOO", "/process/env/FOO"])
async def test_the_details_show_labels_and_find_pointers(text: str) -> None:
    async with showing(CRI_O, (120, 40)) as screen:
        await screen.go_to(17)
        await screen.press("tab")
        await screen.shows("mounts[/mnt/tmp]", "env INJECTED")
        assert "/process/env" not in screen.text()
        await screen.press("/")
        await screen.type(text)
        await screen.press("enter")
        await screen.until(lambda: screen.app.views.detail.body.found > 0)
        await screen.hides("not found")
