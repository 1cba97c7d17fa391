# SPDX-License-Identifier: Apache-2.0
"""Outputs are complete or absent, and drafts are inaccessible to other users."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.share.output_files import Outputs


@pytest.mark.parametrize("mode", [0o700, 0o1777, 0o777])
@pytest.mark.parametrize("force", [False, True])
def test_drafts_are_not_in_folders_that_other_users_can_write_to(
    tmp_path: Path, mode: int, force: bool
) -> None:
    tmp_path.chmod(mode)
    target = tmp_path / "out"
    with Outputs(target, tmp_path / "source", force=force) as outputs:
        expected = Path(tempfile.gettempdir()) if mode == 0o777 else tmp_path
        assert outputs.folder.parent == expected
        draft = outputs.new("")
        draft.write_text("whole")
        draft.chmod(0o600)
        outputs.place(draft)
    assert target.read_text() == "whole"
    assert target.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_file_created_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    target = tmp_path / "out"
    with Outputs(target, tmp_path / "source", force=False) as outputs:
        draft = outputs.new("")
        draft.touch()
        target.touch()
        with pytest.raises(UsageError, match="exists"):
            outputs.place(draft)
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("mode", [0o700, 0o777])
@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("there", ["", "file", "link"])
@pytest.mark.parametrize("fails", [True, False])
def test_a_failed_placement_leaves_the_previous_file(
    mode: int, links: bool, there: str, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(mode)
        (folder / "elsewhere").write_text("linked")
        path = folder / "out"
        if there == "file":
            path.write_text("previous")
        elif there == "link":
            path.symlink_to("elsewhere")
        before = _snapshot(folder)
        if not links:
            monkeypatch.setattr(os, "link", _no_links)
        if fails:
            monkeypatch.setattr(Path, "replace", _no_space)
        placing = pytest.raises(UsageError, match="the disk is full") if fails else nullcontext()
        with placing, Outputs(path, folder / "source", force=True) as outputs:
            draft = outputs.new("")
            draft.write_text("new")
            outputs.place(draft)
        expected = before if fails else {"elsewhere": "linked", "out": "new"}
        assert _snapshot(folder) == expected


def _snapshot(folder: Path) -> dict[str, str | Path]:
    return {
        each.name: each.readlink() if each.is_symlink() else each.read_text()
        for each in folder.iterdir()
    }


def _no_links(*_: object, **__: object) -> None:
    raise OSError(errno.EOPNOTSUPP, "operation not supported")


def _no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "no space left on device")
