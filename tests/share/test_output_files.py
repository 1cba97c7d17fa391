# SPDX-License-Identifier: Apache-2.0
"""Outputs come whole to their places, and drafts are where no other user reaches them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.share.output_files import Outputs


@pytest.mark.parametrize("mode", [0o700, 0o1777, 0o777])
@pytest.mark.parametrize("force", [False, True])
def test_drafts_are_elsewhere_where_others_could_exchange_their_folder(
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


def test_what_came_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    target = tmp_path / "out"
    with Outputs(target, tmp_path / "source", force=False) as outputs:
        draft = outputs.new("")
        draft.touch()
        target.touch()
        with pytest.raises(UsageError, match="exists"):
            outputs._place(draft, target)
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
