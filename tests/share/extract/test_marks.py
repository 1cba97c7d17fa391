# SPDX-License-Identifier: Apache-2.0
"""Marks are extracted with their events, and comments are redacted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nri_scope.errors import RedactionLeak
from nri_scope.events import UserMark
from nri_scope.filter import parse
from nri_scope.recording.marks import sidecar
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.bundle import BundleContent, export
from nri_scope.share.extract import Selection, extract
from nri_scope.share.redacted_copy import copy_recording
from nri_scope.share.redaction import Redactor, Rules
from tests.recording.marks.recordings import a_copy, a_mark, inside, put
from tests.sample_names import CHECKOUT_POD

_SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bD2fG4hJ6"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Recording with marks of three events inside, and of one in the sidecar."""
    path = a_copy(tmp_path)
    put(path, [a_mark(5, f"uses {_SECRET}", 2), a_mark(9, "here", 2), a_mark(30, "end", 2)])
    sidecar.write(sidecar.path_of(path), [a_mark(15, f"{_SECRET} again", 3)])
    return path


def _redactor() -> Redactor:
    return Redactor(Rules.DEFAULT, bytes(32))


def test_an_extract_of_the_whole_contains_all_marks(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "made.nriscope.db"
    with Recording.open(path) as recording:
        extract(recording, copy)
    assert inside(copy) == [
        a_mark(5, f"uses {_SECRET}", 2),
        a_mark(9, "here", 2),
        a_mark(15, f"{_SECRET} again", 3),
        a_mark(30, "end", 2),
    ]
    again = tmp_path / "again.nriscope.db"
    with Recording.open(path) as recording:
        extract(recording, again)
    assert again.read_bytes() == copy.read_bytes()


def test_a_part_contains_the_marks_of_its_events(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "made.nriscope.db"
    with Recording.open(path) as recording:
        extract(recording, copy, Selection(numbers=[9]))
    with Recording.open(copy) as recording:
        kept = {event.id for event in recording.events()}
    # Events of the context keep their marks, too.
    assert [mark.event for mark in inside(copy)] == sorted({5, 9, 15, 30} & kept)
    assert 30 not in kept and 9 in kept


def test_marks_passed_by_the_caller_replace_the_recorded_ones(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "made.nriscope.db"
    with Recording.open(path) as recording:
        extract(recording, copy, marks=[a_mark(7, "not saved yet"), UserMark(9, 1)])
    assert inside(copy) == [a_mark(7, "not saved yet")]


def test_comments_inside_and_in_the_sidecar_are_redacted(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "made.nriscope.db"
    with Recording.open(path) as recording:
        copy_recording(recording, copy, redactor := _redactor())
    comments = [mark.comment for mark in inside(copy)]
    assert comments[1] == "here" and comments[3] == "end"
    assert re.fullmatch(r"uses \S+", comments[0]) and _SECRET not in comments[0]
    # The same secret has different tokens in different comments.
    assert re.fullmatch(r"redacted-\S+ again", comments[2])
    assert comments[2] != f"{comments[0].removeprefix('uses ')} again"
    assert _SECRET.encode() not in copy.read_bytes()
    assert any(one.place == "mark.comment" for one in redactor.tally)


def test_a_secret_left_in_a_comment_is_a_leak(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Redactor.text
    monkeypatch.setattr(
        Redactor,
        "text",
        # Only the second comment, so that its secret is known to be one.
        lambda self, words, place="text", **more: (
            words if words.endswith(" again") else text(self, words, place, **more)
        ),
    )
    with (
        Recording.open(path) as recording,
        pytest.raises(RedactionLeak, match=r"mark.comment, row \d"),
    ):
        copy_recording(recording, tmp_path / "made.nriscope.db", _redactor())


def test_a_bundle_contains_marks_and_counts_redacted_comments(path: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "made.nriscope.zip"
    selection = Selection(where=parse(f"pod:{CHECKOUT_POD}"))
    with Recording.open(path) as recording:
        exported = export(recording, bundle, BundleContent(selection, _redactor()))
    with Recording.open(bundle) as recording:
        events = {event.id for event in recording.events()}
    assert [mark.event for mark in inside(bundle)] == sorted({5, 9, 15, 30} & events) != []
    redaction = exported.manifest.redaction
    assert redaction is not None
    assert any(one.place == "mark.comment" for one in redaction.replaced)


def test_an_invalid_sidecar_is_ignored(path: Path, tmp_path: Path) -> None:
    sidecar.path_of(path).write_text("[" * 1000)
    copy = tmp_path / "made.nriscope.db"
    with Recording.open(path) as recording:
        extract(recording, copy)
    assert [mark.event for mark in inside(copy)] == [5, 9, 30]
