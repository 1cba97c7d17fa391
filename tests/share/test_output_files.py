# SPDX-License-Identifier: Apache-2.0
"""Outputs are complete or absent, and drafts are inaccessible to other users."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.errors import UsageError
from nri_scope.share.output_files import Outputs
from tests.amount import amount


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
        outputs.place([draft])
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
            outputs._place(draft, target)
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def _place(outputs: Outputs, contents: list[str], failing: int | None = None) -> None:
    """Place drafts; for draft number ``failing`` the disk is full."""
    drafts = []
    for content in contents:
        drafts.append(outputs.new(""))
        drafts[-1].write_text(content)
    place = outputs._place

    def placing(draft: Path, target: Path) -> None:
        if failing is not None and draft is drafts[failing]:
            raise OSError(errno.ENOSPC, "no space left on device")
        place(draft, target)

    with mock.patch.object(outputs, "_place", placing):
        outputs.place(drafts)


@pytest.mark.parametrize("mode", [0o700, 0o777])
@pytest.mark.parametrize("links", [True, False])
@settings(max_examples=amount(25, 25))
@given(
    there=st.lists(st.sampled_from(["", "file", "link"]), min_size=2, max_size=4), data=st.data()
)
def test_a_failed_placement_restores_all_previous_files(
    mode: int, links: bool, there: list[str], data: st.DataObject
) -> None:
    failing = data.draw(st.integers(0, len(there) - 1))
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        folder.chmod(mode)
        (folder / "elsewhere").write_text("linked")
        for number, what in enumerate(there, 1):
            path = folder / f"out-{number}"
            if what == "file":
                path.write_text(f"previous {number}")
            elif what == "link":
                path.symlink_to("elsewhere")
        before = _snapshot(folder)
        if not links:
            patch.setattr(os, "link", _no_links)
        with (
            pytest.raises(UsageError, match="the disk is full"),
            Outputs(folder / "out", folder / "source", force=True) as outputs,
        ):
            _place(outputs, ["new"] * len(there), failing)
        assert _snapshot(folder) == before
        with Outputs(folder / "out", folder / "source", force=True) as outputs:
            _place(outputs, ["new"] * len(there))
        expected = {f"out-{number}": "new" for number in range(1, len(there) + 1)}
        assert _snapshot(folder) == {"elsewhere": "linked", **expected}


def _snapshot(folder: Path) -> dict[str, str | Path]:
    return {
        each.name: each.readlink() if each.is_symlink() else each.read_text()
        for each in folder.iterdir()
    }


def _no_links(*_: object, **__: object) -> None:
    raise OSError(errno.EOPNOTSUPP, "operation not supported")
