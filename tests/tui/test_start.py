# SPDX-License-Identifier: Apache-2.0
"""The start of the terminal interface: the first rows come before everything else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nri_scope.errors import RecordingError
from nri_scope.tui import app
from nri_scope.tui.store.store import Store
from nri_scope.tui.views import EVENTS, SCOPES, Views

from .screen import copy_recording, showing

LATE = ("oci", "nri.merging", "wire", "transport", "differ", "survey.survey")
"""Modules that the list of events does not need."""


def test_no_module_of_the_other_views_is_loaded_with_the_app() -> None:
    program = "import sys, nri_scope.cli.tui, nri_scope.tui.app; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    loaded = [name for name in run.stdout.decode().split() if name.startswith("nri_scope.")]
    late = [f"nri_scope.{name}" for name in LATE]
    assert "nri_scope.tui.list.event_list" in loaded
    assert [one for one in loaded if one in late or one.endswith("_board")] == []


@pytest.mark.exhaustive
async def test_boards_are_created_once_all_rows_of_the_screen_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[list[bool]] = []
    complete = Views.complete

    async def completing(views: Views) -> None:
        events = views.events
        rows = (events.render_line(y).text for y in range(events.size.height))
        drawn.append([row.strip("> ") == "…" for row in rows])
        await complete(views)

    monkeypatch.setattr(Views, "complete", completing)
    monkeypatch.setattr(app, "_PAUSE_S", 0.0)
    async with showing(size=(160, 50)) as screen:
        await screen.until(lambda: screen.app.views.boards)
        assert [EVENTS, *screen.app.views.boards] == [*SCOPES]
    assert drawn and len(drawn[0]) > 20 and not any(drawn[0])


async def test_a_key_before_the_end_of_the_start_waits_for_the_views(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(app, "_PAUSE_S", 3600.0)
    async with showing(copy_recording(tmp_path), (120, 40)) as screen:
        assert not screen.app.views.boards
        await screen.press("2", "j", "j", "j", "m")
        await screen.shows("[2 Containers]", "is marked")


async def test_all_views_are_created_although_no_row_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> None:
        raise RecordingError("r.nriscope.db", "disk I/O error")

    monkeypatch.setattr(Store, "rows", fail)
    async with showing() as screen:
        await screen.until(lambda: screen.app.views.boards)
        await screen.shows("disk I/O error")


@pytest.mark.exhaustive
async def test_marks_that_were_loaded_before_the_views_are_shown_in_them(tmp_path: Path) -> None:
    path = copy_recording(tmp_path)
    async with showing(path) as screen:
        await screen.go_to(26)
        await screen.press("m")
        await screen.shows("is marked")
    async with showing(path) as screen:
        await screen.shows("1 marked")
        await screen.until(lambda: screen.app.views.boards)
        await screen.press("2")
        await screen.until(lambda: "*" in screen.line("x2x9z"))


async def test_a_key_for_a_view_that_was_not_created_before_the_end_is_ignored() -> None:
    async with showing() as screen:
        await screen.until(lambda: screen.app.views.events.selected_row is not None)
        screen.app.exit()
        await screen.app.views.complete()
        screen.app.views.show("containers")
        assert not screen.app.views.boards and screen.app.views.mode == EVENTS
