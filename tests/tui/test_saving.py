# SPDX-License-Identifier: Apache-2.0
"""Saving shown events as a recording or as a bundle."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from nri_scope._gen.nri.api_pb2 import CreateContainerRequest
from nri_scope.errors import NriScopeError, RedactionLeak, UsageError
from nri_scope.events import UserMark
from nri_scope.filter import parse
from nri_scope.recording.bundle.unpack import read_manifest
from nri_scope.recording.marks.sidecar import marks_in
from nri_scope.recording.reading.reader import Recording
from nri_scope.share import bundle, redacted_copy
from nri_scope.share.extract import Extracted, Selection
from nri_scope.share.redaction import Redactor
from nri_scope.tui.commands import save
from tests.sample_names import CHECKOUT, CHECKOUT_API
from tests.tui.screen import RECORDINGS, Shown, copy_recording, showing

DEMO = RECORDINGS / "demo.nriscope.db"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy a recording; the current folder is another one."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return copy_recording(tmp_path)


def _saved_files() -> list[Path]:
    return list(Path.cwd().glob("*.nriscope.db"))


_TO_RECORDING = ("backspace", "backspace", "backspace", "d", "b", "tab", "down", "enter")
"""Keys in the form that make the file a recording that is not redacted."""


async def _save(screen: Shown) -> Recording:
    await screen.press("E", *_TO_RECORDING)
    await screen.shows("exported ./nri-", ": not redacted, ")
    (path,) = _saved_files()
    assert path.stat().st_mode & 0o777 == 0o600
    assert screen.app.made == [path]
    return Recording.open(path)


async def test_all_events_are_saved_without_a_filter(path: Path) -> None:
    async with showing(path, size=(120, 24)) as screen:
        await screen.shows("1 of 32")
        with await _save(screen) as recording:
            assert len(list(recording.events())) == 32
        await screen.shows("all 32 events")


async def test_filtered_events_are_saved_with_their_context(path: Path) -> None:
    async with showing(path, size=(120, 24), where=parse("event:StopContainer")) as screen:
        await screen.shows("4 matches")
        with await _save(screen) as recording:
            events = [event.event for event in recording.events()]
        assert events.count("StopContainer") == 4 and "CreateContainer" in events
        await screen.shows("4 shown events, plus ", " for context")


@pytest.mark.exhaustive
async def test_marked_events_are_saved_even_if_not_shown(path: Path) -> None:
    async with showing(path, size=(120, 24)) as screen:
        await screen.go_to(15)
        await screen.until(lambda: screen.app.views.events.selected_row)
        await screen.press("m")
        await screen.shows("event 15 is marked")
        await screen.press("e")
        await screen.shows("0 matches")
        await screen.press("E")
        await screen.shows("1 marked event, or 0 shown?")
        await screen.press("escape", "E", "m", *_TO_RECORDING)
        await screen.shows("exported ./nri-event-15-")
        with Recording.open(*_saved_files()) as recording:
            assert recording.event(15) is not None
        await screen.shows("1 marked event")


@pytest.mark.exhaustive
async def test_marks_are_saved_and_exported_from_a_read_only_recording(path: Path) -> None:
    path.chmod(0o400)
    async with showing(path, size=(120, 24)) as screen:
        await screen.go_to(15)
        await screen.until(lambda: screen.app.views.events.selected_row)
        await screen.press("M")
        await screen.type("mail me at jo@acme.test")
        await screen.press("enter")
        await screen.shows("event 15 is marked")
        await screen.press("*")
        await screen.shows("1 match: marked")
        # The marked events are the shown ones: no question.
        with await _save(screen) as recording:
            assert [mark.comment for mark in marks_in(recording)] == ["mail me at jo@acme.test"]
        await screen.press("E", "enter")
        await screen.shows("mark.comment")
    (bundle,) = Path.cwd().glob("*.nriscope.zip")
    assert read_manifest(bundle).selection == {"events": "selected individually"}
    with Recording.open(bundle) as recording:
        (mark,) = marks_in(recording)
    assert mark.event == 15
    assert mark.comment.startswith("mail me at ") and "acme" not in mark.comment
    async with showing(bundle, size=(120, 40)) as screen:
        await screen.shows("· 1 marked")
        await screen.until(lambda: "*" in screen.line("11:52:26.725 ")[:4])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("key", "subject"), [("I", f"pod {CHECKOUT}"), ("i", f"container {CHECKOUT_API}")]
)
async def test_a_bundle_names_the_pod_or_container_that_was_shown(
    key: str, subject: str, path: Path
) -> None:
    async with showing(path, size=(160, 40)) as screen:
        await screen.go_to(5)
        await screen.press(key)
        await screen.until(lambda: screen.app.context.about)
        await screen.shows(f"matches: {subject.removeprefix('container ')}")
        await screen.press("f", *"event:*Start*", "enter")
        await screen.shows("event:*Start*", "matches")
        await screen.until(lambda: screen.app.views.events.view.complete)
        await screen.press("E", "enter")
        await screen.shows("bundle", "plus ")
        # The page is narrower than the words.
        rows = (row.split("│") for row in screen.text().splitlines())
        page = "".join(row[1] for row in rows if len(row) > 2)
        assert f"events of {subject}, plus ".replace(" ", "") in page.replace(" ", "")
    (bundle,) = Path.cwd().glob("*.nriscope.zip")
    with Recording.open(bundle) as recording:
        assert f"events were selected ({subject})" in recording.notes()[0].text
    kind, name = subject.split()
    assert read_manifest(bundle).selection == {kind: name, "--where": "event:*Start*"}


@pytest.mark.exhaustive
async def test_a_bundle_of_filtered_operations_says_that_they_are_whole(path: Path) -> None:
    conflict = RECORDINGS / "containerd-2.1-conflict.nriscope.zip"
    async with showing(conflict, size=(120, 40), where=parse("plugin:30-*")) as screen:
        await screen.shows("matches: plugin:30-*")
        await screen.press("E", "enter")
        await screen.shows("bundle", " events")
    (bundle,) = Path.cwd().glob("*.nriscope.zip")
    expected = {"--where": "plugin:30-*", "events": "all of each operation that matches"}
    assert read_manifest(bundle).selection == expected


@pytest.mark.exhaustive
async def test_marked_events_are_selected_one_by_one(path: Path) -> None:
    async with showing(path, size=(120, 40)) as screen:
        await screen.go_to(5)
        await screen.press("I", "m", "E", "m", "enter")
        await screen.shows("bundle", "1 event, plus ")
    (bundle,) = Path.cwd().glob("*.nriscope.zip")
    assert read_manifest(bundle).selection == {"events": "selected individually"}


async def test_nothing_is_saved_if_no_event_is_shown(path: Path) -> None:
    async with showing(path) as screen:
        await screen.press("e")
        await screen.shows("0 matches")
        await screen.press("E")
        await screen.shows("no event is shown")
    assert not _saved_files()


class _Held:
    """`copy_recording` that blocks, before or after its work, until released."""

    def __init__(self, *, done: bool) -> None:
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self._done = done
        self._copy = redacted_copy.copy_recording
        self._loop = asyncio.get_running_loop()

    def __call__(
        self,
        source: Recording,
        output: Path,
        redactor: Redactor | None,
        selection: Selection,
        *,
        marks: Sequence[UserMark],
        note: str,
        on_progress: Callable[[float], None],
    ) -> Extracted:
        def progress(part: float) -> None:
            self._hold()
            on_progress(0.5)

        if not self._done:
            return self._copy(
                source, output, redactor, selection, marks=marks, note=note, on_progress=progress
            )
        extracted = self._copy(source, output, redactor, selection, marks=marks, note=note)
        self._hold()
        return extracted

    def _hold(self) -> None:
        self._loop.call_soon_threadsafe(self.started.set)
        asyncio.run_coroutine_threadsafe(self.release.wait(), self._loop).result()


@pytest.mark.exhaustive
async def test_escape_stops_saving_and_leaves_no_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = _Held(done=False)
    monkeypatch.setattr(redacted_copy, "copy_recording", held)
    async with showing(path) as screen:
        await screen.shows("1 of 32")
        await screen.press("E", *_TO_RECORDING)
        await asyncio.wait_for(held.started.wait(), 30)
        await screen.shows("exporting all 32 events: 0%")
        await screen.press("E")
        await screen.shows("another job is still running; Esc stops it")
        await screen.press("escape")
        held.release.set()
        await screen.shows("stopped: nothing was written")
    assert not list(Path.cwd().iterdir())


async def test_escape_after_the_file_was_written_reports_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = _Held(done=True)
    monkeypatch.setattr(redacted_copy, "copy_recording", held)
    async with showing(path, size=(120, 24)) as screen:
        await screen.shows("1 of 32")
        await screen.press("E", *_TO_RECORDING)
        await asyncio.wait_for(held.started.wait(), 30)
        # A second Escape does not change the message.
        await screen.press("escape", "escape")
        held.release.set()
        (made,) = _saved_files()
        await screen.shows(f"too late to stop: ./{made.name} was already written")
        assert screen.app.made == [made]


async def test_quitting_stops_saving_and_leaves_no_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = _Held(done=False)
    monkeypatch.setattr(redacted_copy, "copy_recording", held)
    async with showing(path) as screen:
        await screen.shows("1 of 32")
        await screen.press("E", *_TO_RECORDING)
        await asyncio.wait_for(held.started.wait(), 30)
        screen.app.exit()
        asyncio.get_running_loop().call_later(0.1, held.release.set)
    assert not list(Path.cwd().iterdir()) and screen.app.made == []


async def test_deleted_current_folder_is_reported(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    async with showing(path) as screen:
        await screen.shows("1 of 32")
        gone.rmdir()
        await screen.press("E")
        await screen.shows("! the current folder no longer exists; start in another folder")


async def test_home_is_used_if_the_current_folder_is_not_writable(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    current = Path.cwd()
    # Patched, because root may write to any folder.
    monkeypatch.setattr(save, "_is_writable", lambda folder: folder != current)
    monkeypatch.setenv("HOME", str(home))
    async with showing(path, size=(160, 24)) as screen:
        await screen.shows("1 of 32")
        await screen.press("E", *_TO_RECORDING)
        await screen.shows(f"exported {home}/nri-32-events-")
        assert [made.parent for made in screen.app.made] == [home]
    assert not list(current.iterdir())


def test_temporary_folder_is_created_if_no_folder_is_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save, "_is_writable", lambda folder: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = save.new_path([7], ".yaml")
    assert found.parent.parent == tmp_path and found.parent.stat().st_mode & 0o777 == 0o700


async def test_bundle_is_redacted_and_replacements_are_listed(path: Path) -> None:
    async with showing(path, size=(100, 40), where=parse("container:checkout-api")) as screen:
        await screen.shows("matches: container:checkout-api")
        await screen.press("E", "enter")
        await screen.shows("bundle", "8 events, plus 4 for context", "values replaced by")
        await screen.shows(
            "credential-keys", "container.env.DB_PASSWORD", "The bundle was searched"
        )
        (made,) = Path.cwd().glob("*.nriscope.zip")
        assert screen.app.made == [made] and made.stat().st_mode & 0o777 == 0o600
        with Recording.open(made) as bundled, Recording.open(path) as original:
            secret = _variable(original, 5)
            assert secret and _variable(bundled, 5) not in ("", secret)
        assert secret not in screen.text()
        await screen.press("escape")
        await screen.shows(f"exported ./{made.name}")
        assert "redacted" not in screen.text().splitlines()[0]
    async with showing(made, size=(100, 40)) as screen:
        assert " · redacted · " in screen.text().splitlines()[0]
        await screen.press("E", "enter")
        await screen.shows("The recording was already redacted; nothing else was replaced.")


def _variable(recording: Recording, event: int) -> str:
    message = CreateContainerRequest.FromString(recording.request(event))
    found = (one for one in message.container.env if one.startswith("DB_PASSWORD="))
    return next(found, "").removeprefix("DB_PASSWORD=")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RedactionLeak("x.nriscope.zip", "env-values", "a free page"), "'env-values'"),
        (
            UsageError(
                "the bundle would have 40 MiB",
                "choose a part, say with a filter of a time or a pod",
            ),
            "40 MiB",
        ),
    ],
)
async def test_error_of_a_failed_export_is_shown_in_full(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: NriScopeError, words: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(bundle, "export", fail)
    async with showing(path) as screen:
        await screen.shows("1 of 32")
        await screen.press("E", "enter")
        await screen.shows("error", words)
        assert screen.app.made == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("keys", [("2", "down", "down", "I", "E"), ("1", *["down"] * 24, "I", "E")])
async def test_an_export_just_after_narrowing_is_of_the_pod_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    async with showing(DEMO, (120, 30)) as screen:
        *first, narrow, export = keys
        await screen.press(*first)
        await screen.until(lambda: screen.app.views.current.selected_event_id is not None)
        await screen.press(narrow, export)
        await screen.shows("exports ")
        shown = screen.app.views.events.view.events
        assert 0 < shown < screen.app.store.grouping.view.events / 2
        await screen.shows(f"exports {shown} shown operations")
