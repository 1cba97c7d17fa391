# SPDX-License-Identifier: Apache-2.0
"""Temporary files leave nothing, and are not called by names that nobody knows."""

from __future__ import annotations

import errno
import stat
import tempfile
from pathlib import Path

import pytest

from nri_scope.errors import RecordingError, UsageError
from nri_scope.recording.temporary_files import temporary_folder, writing_to


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_private_and_gone_whatever_happens(place: Path) -> None:
    def interrupted() -> None:
        with temporary_folder() as folder:
            assert folder.parent == place
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            (folder / "draft").write_text("secret")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not any(place.iterdir())


def test_where_there_can_be_no_folder_the_way_out_is_told(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place / "nowhere"))
    with pytest.raises(UsageError, match=r"^a temporary file: cannot be written: no such file.*; "):
        with temporary_folder():
            pass


@pytest.mark.parametrize("of_sqlite", [True, False])
def test_a_full_disk_is_told_without_a_name_that_nobody_knows(of_sqlite: bool) -> None:
    def fail(folder: Path) -> None:
        with writing_to(folder):
            if of_sqlite:
                raise RecordingError(folder / "r.db", "cannot be written: the disk is full", "x")
            raise OSError(errno.ENOSPC, "No space left on device")

    with temporary_folder() as folder, pytest.raises(UsageError) as caught:
        fail(folder)
    assert str(caught.value) == (
        "a temporary file: cannot be written: the disk is full; set TMPDIR to another folder"
    )


def test_what_is_wrong_with_another_file_stays_what_it_is() -> None:
    with temporary_folder() as folder, pytest.raises(RecordingError, match=r"^x\.db: damaged$"):
        with writing_to(folder):
            raise RecordingError("x.db", "damaged")
