# SPDX-License-Identifier: Apache-2.0
"""Temporary files are removed, and errors do not show their names."""

from __future__ import annotations

import errno
import stat
import tempfile
from pathlib import Path

import pytest

from nri_scope.errors import RecordingError, UsageError
from nri_scope.recording.file.temporary_files import temporary_folder, writing_to


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set and return the folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_temporary_folder_is_private_and_always_removed(place: Path) -> None:
    def interrupted() -> None:
        with temporary_folder() as folder:
            assert folder.parent == place
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            (folder / "draft").write_text("secret")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not any(place.iterdir())


def test_an_unusable_temporary_folder_is_an_error_with_a_hint(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place / "nowhere"))
    with pytest.raises(UsageError, match=r"^a temporary file: cannot be written: no such file.*; "):
        with temporary_folder():
            pass


@pytest.mark.parametrize("of_sqlite", [True, False])
def test_a_full_disk_is_reported_without_the_temporary_name(of_sqlite: bool) -> None:
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


def test_problems_of_other_files_are_unchanged() -> None:
    with temporary_folder() as folder, pytest.raises(RecordingError, match=r"^x\.db: damaged$"):
        with writing_to(folder):
            raise RecordingError("x.db", "damaged")
