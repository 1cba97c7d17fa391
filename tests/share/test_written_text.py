# SPDX-License-Identifier: Apache-2.0
"""A report is readable only by its owner and overwrites nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nri_scope.share.output_files import write_text


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    before = os.umask(0)
    try:
        assert write_text(path, ["a", "ß"]) == 3
    finally:
        os.umask(before)
    assert path.read_text() == "aß"
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_existing_path_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        write_text(path, ["new"])
    assert not path.exists()


def test_surrogates_are_replaced(tmp_path: Path) -> None:
    write_text(tmp_path / "report.md", ["a\udcffb"])
    assert (tmp_path / "report.md").read_text() == "a?b"
