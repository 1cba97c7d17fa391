# SPDX-License-Identifier: Apache-2.0
"""Redacted and other events are not mixed in one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.events import REDACTED
from nri_scope.recorder.writer import Recorder
from nri_scope.share.source_redaction import check_continued
from tests.recording.recordings import a_start


@pytest.fixture(params=["few rows", "too many rows"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "too many rows":
        monkeypatch.setattr("nri_scope.recording.file.row_limits.MAX_ROWS", 0)
    return tmp_path / "x.nriscope.db"


def record(path: Path, *notes: str) -> None:
    recorder = Recorder.open(path)
    recorder.begin_session(a_start())
    for note in notes:
        recorder.note(None, 1, note)
    recorder.close()


@pytest.mark.parametrize("redacts", [True, False])
def test_redacted_and_unredacted_recordings_are_not_mixed(path: Path, redacts: bool) -> None:
    record(path, "an ordinary word", *([] if redacts else [REDACTED]))
    check_continued(path, redacts=not redacts)
    words = "recorded without --redact" if redacts else "is redacted; add --redact"
    with pytest.raises(UsageError, match=words):
        check_continued(path, redacts=redacts)


@pytest.mark.parametrize("redacts", [True, False])
def test_new_empty_and_unreadable_files_are_accepted(path: Path, redacts: bool) -> None:
    check_continued(path, redacts=redacts)
    Recorder.open(path).close()
    check_continued(path, redacts=redacts)
    journal = path.with_name(f"{path.name}-journal")
    journal.write_bytes(b"of a write that was interrupted")
    check_continued(path, redacts=redacts)
    assert journal.exists()
    journal.unlink()
    path.write_bytes(b"something else")
    check_continued(path, redacts=redacts)
