# SPDX-License-Identifier: Apache-2.0
"""Questions before a command uses marked events, and the form before it writes a file."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from nri_scope.events import REDACTED
from nri_scope.recording.bundle.manifest import MANIFEST
from nri_scope.recording.reading.reader import Recording
from tests.amount import sampled
from tests.sample_names import CHECKOUT, CHECKOUT_POD

from .screen import Shown, copy_recording, showing

WIDE = (120, 30)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy a recording; the current folder is another one."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return copy_recording(tmp_path)


async def mark(screen: Shown, *events: int) -> None:
    for event in events:
        await screen.go_to(event)
        await screen.press("m")
        await screen.shows(f"event {event} is marked")


@pytest.mark.exhaustive
async def test_a_form_sets_name_redaction_and_note_of_a_recording(path: Path) -> None:
    async with showing(path, WIDE) as screen:
        await screen.press("E")
        await screen.shows("Enter exports 32 shown events")
        await screen.press("ctrl+u", *"mine.nriscope.db", "tab", "tab", *"seen today", "enter")
        await screen.shows("exported ", ": redacted, all 32 events")
    with Recording.open(Path.cwd() / "mine.nriscope.db") as recording:
        assert [note.text for note in recording.notes()] == [
            "note by the user: seen today",
            REDACTED,
        ]
        texts = b"".join(request for _, request, _ in recording.exchanges())
    assert b"redacted-" in texts


async def test_an_export_without_redaction_says_so(path: Path) -> None:
    async with showing(path, WIDE) as screen:
        await screen.press("E")
        await screen.shows("redaction: default rules", "Enter exports 32 shown events")
        await screen.press("ctrl+u", *"b", "tab", "down", "tab", *"why", "enter")
        await screen.shows("Nothing was redacted: secrets are included.")
    with zipfile.ZipFile(Path.cwd() / "b.nriscope.zip") as bundle:
        assert '"note": "why"' in bundle.read(MANIFEST).decode()


@pytest.mark.parametrize(
    ("key", "question", "answer", "result"),
    sampled(
        [
            ("E", "2 marked events, or 32 shown?", "m", "Enter exports 2 marked events"),
            ("E", "2 marked events, or 32 shown?", "s", "Enter exports 32 shown events"),
            ("E", "2 marked events, or 32 shown?", "enter", "Enter exports 2 marked events"),
            ("y", "2 marked events, or the selected event 9?", "m", "copied 2 marked events"),
        ],
        2,
    ),
)
async def test_a_command_asks_which_events_are_meant(
    path: Path, key: str, question: str, answer: str, result: str
) -> None:
    async with showing(path, WIDE) as screen:
        await mark(screen, 5, 7)
        await screen.go_to(9)
        await screen.press(key)
        await screen.shows(question)
        await screen.press(answer)
        await screen.shows(result)


@pytest.mark.exhaustive
async def test_a_narrowed_view_is_the_first_choice_so_that_enter_exports_it(path: Path) -> None:
    """The README's keys lead to the pod, whether or not a mark is left over."""
    async with showing(path, WIDE) as screen:
        await mark(screen, 4)
        await screen.press("2", "down", "down", "I")
        await screen.shows(f"> pod {CHECKOUT}")
        await screen.press("E")
        await screen.shows("1 marked event, or ")
        await screen.press("enter")
        await screen.shows("shown events")
        await screen.press("enter")
        await screen.shows("Esc closes")
    (bundle,) = Path.cwd().glob("*.nriscope.zip")
    with Recording.open(bundle) as part:
        pods = {event.pod for event in part.events() if event.pod}
    assert pods == {CHECKOUT_POD}


@pytest.mark.exhaustive
async def test_nothing_is_asked_if_the_marked_events_are_shown_alone(path: Path) -> None:
    async with showing(path, WIDE) as screen:
        await mark(screen, 5, 7)
        await screen.press("*")
        await screen.shows("2 matches")
        await screen.press("E")
        await screen.shows("Enter exports 2 marked events")


async def test_a_comparison_names_two_of_more_marked_events(path: Path) -> None:
    async with showing(path, WIDE) as screen:
        await mark(screen, 5, 9, 12)
        await screen.go_to(12)
        await screen.press("d")
        await screen.shows("of 3 marked events")
