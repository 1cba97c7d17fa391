# SPDX-License-Identifier: Apache-2.0
"""Marks are extracted with their events, and comments are redacted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nri_scope.errors import RedactionLeak
from nri_scope.events import Mark
from nri_scope.filter import parse
from nri_scope.recording.marks import sidecar
from nri_scope.recording.marks.recorder_lock import RecorderLockProbe
from nri_scope.recording.marks.table import put
from nri_scope.recording.reader import Recording
from nri_scope.share.bundle import export
from nri_scope.share.extract import Selection, extract
from nri_scope.share.redacted_copy import redact
from nri_scope.share.redaction import Redactor, Rules
from tests.recording.marks.recordings import a_copy, a_mark, inside

_SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bD2fG4hJ6"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """With marks of three events in it, and of one beside it."""
    path = a_copy(tmp_path)
    watch = RecorderLockProbe(path)
    put(path, [a_mark(5, f"uses {_SECRET}", 2), a_mark(9, "here", 2), a_mark(30, "end", 2)], watch)
    watch.close()
    sidecar.write(sidecar.path_of(path), [a_mark(15, f"{_SECRET} again", 3)])
    return path


def _redactor() -> Redactor:
    return Redactor(Rules.DEFAULT, bytes(32))


def test_a_whole_recording_has_all_of_them(path: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.nriscope.db"
    with Recording.open(path) as recording:
        extract(recording, made)
    assert inside(made) == [
        a_mark(5, f"uses {_SECRET}", 2),
        a_mark(9, "here", 2),
        a_mark(15, f"{_SECRET} again", 3),
        a_mark(30, "end", 2),
    ]
    again = tmp_path / "again.nriscope.db"
    with Recording.open(path) as recording:
        extract(recording, again)
    assert again.read_bytes() == made.read_bytes()


def test_a_part_has_those_of_its_events(path: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.nriscope.db"
    with Recording.open(path) as recording:
        extract(recording, made, Selection(numbers=[9]))
    with Recording.open(made) as recording:
        kept = {event.id for event in recording.events()}
    # The context of what was chosen has its marks, too.
    assert [mark.event for mark in inside(made)] == sorted({5, 9, 15, 30} & kept)
    assert 30 not in kept and 9 in kept


def test_whoever_knows_them_better_gives_them(path: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.nriscope.db"
    with Recording.open(path) as recording:
        extract(recording, made, marks=[a_mark(7, "not saved yet"), Mark(9, 1)])
    assert inside(made) == [a_mark(7, "not saved yet")]


def test_comments_are_redacted_wherever_they_are_kept(path: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.nriscope.db"
    with Recording.open(path) as recording:
        redact(recording, made, redactor := _redactor())
    comments = [mark.comment for mark in inside(made)]
    assert comments[1] == "here" and comments[3] == "end"
    assert re.fullmatch(r"uses \S+", comments[0]) and _SECRET not in comments[0]
    # Tokens in different comments tell nothing about each other.
    assert re.fullmatch(r"redacted-\S+ again", comments[2])
    assert comments[2] != f"{comments[0].removeprefix('uses ')} again"
    assert _SECRET.encode() not in made.read_bytes()
    assert any(one.place == "mark.comment" for one in redactor.tally)


def test_what_is_left_in_a_comment_is_found(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Redactor.text
    monkeypatch.setattr(
        Redactor,
        "text",
        lambda self, words, place="text", **more: (
            words if place == "mark.comment" else text(self, words, place, **more)
        ),
    )
    with (
        Recording.open(path) as recording,
        pytest.raises(RedactionLeak, match=r"mark.comment, row 5"),
    ):
        redact(recording, tmp_path / "made.nriscope.db", _redactor())


def test_a_bundle_has_them_and_shows_them(path: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "made.nriscope.zip"
    selection = Selection(where=parse("pod:web"))
    with Recording.open(path) as recording:
        exported = export(recording, bundle, selection, redactor=_redactor())
    with Recording.open(bundle) as recording:
        events = {event.id for event in recording.events()}
    assert [mark.event for mark in inside(bundle)] == sorted({5, 9, 15, 30} & events) != []
    redaction = exported.bundles[0].manifest.redaction
    assert redaction is not None
    assert any(one.place == "mark.comment" for one in redaction.replaced)


def test_a_recording_with_marks_that_nobody_wrote_is_packed_without_harm(
    path: Path, tmp_path: Path
) -> None:
    sidecar.path_of(path).write_text("[" * 1000)
    made = tmp_path / "made.nriscope.db"
    with Recording.open(path) as recording:
        extract(recording, made)
    assert [mark.event for mark in inside(made)] == [5, 9, 30]
