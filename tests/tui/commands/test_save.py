# SPDX-License-Identifier: Apache-2.0
"""Files saved by commands."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from nri_scope.errors import UsageError
from nri_scope.tui.commands.copy import CLIPBOARD_MAX, joined_for_clipboard
from nri_scope.tui.commands.save import save


def test_each_text_is_saved_to_a_new_private_file(tmp_path: Path) -> None:
    paths = [save([text], [7], tmp_path) for text in ("one", "two")]
    assert [path.read_text() for path in paths] == ["one", "two"]
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}


def test_full_disk_is_reported_and_leaves_no_partial_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, *_: object, **__: object) -> NoReturn:
        os.close(descriptor)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(UsageError, match="the disk is full"):
        save(["text"], [7], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or directory"):
        save(["text"], [7], tmp_path / "gone")


def test_interrupted_save_leaves_no_partial_file(tmp_path: Path) -> None:
    def texts() -> Iterator[str]:
        yield "half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save(texts(), [7], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_text_for_the_clipboard_is_not_generated_beyond_its_limit() -> None:
    generated = 0

    def texts() -> Iterator[str]:
        nonlocal generated
        while True:
            generated += 1
            yield "é" * 500

    assert joined_for_clipboard(texts()) is None
    assert generated == CLIPBOARD_MAX // 1_000 + 1
    assert joined_for_clipboard(["one", "\udcff"]) == "one\udcff"
