# SPDX-License-Identifier: Apache-2.0
"""A report is written wholly or not at all, for its owner alone, and over nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_scope.errors import RecordingError, UsageError
from nri_scope.report.file import check, write


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    before = os.umask(0)
    try:
        assert write(path, ["a", "ß"], force=False) == 3
    finally:
        os.umask(before)
    assert path.read_text() == "aß"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_of_one_that_fails_in_the_middle(tmp_path: Path) -> None:
    def parts() -> Iterator[str]:
        yield "half"
        raise RecordingError("x", "damaged")

    with pytest.raises(RecordingError):
        write(tmp_path / "report.html", parts(), force=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("force", [False, True])
def test_what_is_there_stays_unless_told_otherwise(tmp_path: Path, *, force: bool) -> None:
    path = tmp_path / "report.md"
    path.write_text("mine")
    if force:
        check(path, force=True)
        write(path, ["new"], force=True)
        assert path.read_text() == "new"
        return
    with pytest.raises(UsageError, match="exists already; name another file, or say --force"):
        check(path, force=False)
    with pytest.raises(UsageError, match="exists already"):
        # It may have come after it was looked.
        write(path, ["new"], force=False)
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link.md").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="exists already"):
        check(tmp_path / "link.md", force=False)
    with pytest.raises(UsageError, match="exists already"):
        write(tmp_path / "link.md", ["x"], force=False)
    write(tmp_path / "link.md", ["x"], force=True)
    assert not (tmp_path / "elsewhere").exists()


def test_places_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        check(tmp_path, force=True)
    with pytest.raises(UsageError, match="is no folder; make it first"):
        check(tmp_path / "none" / "report.md", force=False)
    with pytest.raises(UsageError, match="cannot write"):
        write(tmp_path / "none" / "report.md", ["x"], force=False)


def test_text_that_no_file_can_hold_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "report.md", ["a\udcffb"], force=False)
    assert (tmp_path / "report.md").read_text() == "a?b"
