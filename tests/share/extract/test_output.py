# SPDX-License-Identifier: Apache-2.0
"""Output files of new recordings: private, never overwritten, never incomplete."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_scope.errors import RecordingError
from nri_scope.recording.reading.reader import Recording
from nri_scope.share.extract import Selection, extract
from tests.recording.full_disk import file_size_limit
from tests.recording.traffic import lifecycles, record


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Recording]:
    record(tmp_path / "whole.db", lifecycles(100))
    with Recording.open(tmp_path / "whole.db") as recording:
        yield recording


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_private_with_any_umask(whole: Recording) -> None:
    output = whole.path.with_name("new.db")
    before = os.umask(0)
    try:
        extract(whole, output)
    finally:
        os.umask(before)
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert _files(output.parent) == ["new.db", "whole.db"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that takes no files")
def test_a_folder_that_rejects_files_is_named(whole: Recording) -> None:
    with pytest.raises(RecordingError, match=r"/proc/new\.db: cannot be written: "):
        extract(whole, Path("/proc/new.db"))


def test_an_existing_file_is_not_overwritten(whole: Recording, tmp_path: Path) -> None:
    output = tmp_path / "new.db"
    output.write_bytes(b"mine")
    with pytest.raises(RecordingError, match="cannot be written: file exists"):
        extract(whole, output)
    assert output.read_bytes() == b"mine"


def test_a_full_disk_leaves_no_file(whole: Recording, tmp_path: Path) -> None:
    with file_size_limit(96 << 10), pytest.raises(RecordingError, match="cannot be written: "):
        extract(whole, tmp_path / "new.db")
    assert _files(tmp_path) == ["whole.db"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("selection", [Selection(), Selection(pod="shop/web-99")])
def test_an_exception_of_the_progress_callback_leaves_no_file(
    error: type[BaseException], selection: Selection, whole: Recording, tmp_path: Path
) -> None:
    reported: list[float] = []

    def stop(done: float) -> None:
        reported.append(done)
        if len(reported) == 2:
            raise error

    with pytest.raises(error):
        extract(whole, tmp_path / "new.db", selection, on_progress=stop)
    assert _files(tmp_path) == ["whole.db"]
    # The original can still be used, and a second attempt succeeds.
    assert extract(whole, tmp_path / "new.db", selection).counts.events > 0


def test_progress_rises_to_1(whole: Recording, tmp_path: Path) -> None:
    for name, selection in (("a.db", Selection()), ("b.db", Selection(pod="shop/web-3"))):
        reported: list[float] = []
        extract(whole, tmp_path / name, selection, on_progress=reported.append)
        assert reported == sorted(reported)
        assert reported[-1] == 1.0
        assert 0 <= reported[0] < 1


def test_the_file_can_be_read_with_sqlite_alone(whole: Recording, tmp_path: Path) -> None:
    extract(whole, tmp_path / "new.db", Selection(pod="shop/web-3"))
    before = _files(tmp_path)
    sqlite = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(sys.argv[2]))"
    query = "SELECT count(*), min(pod) FROM log"
    done = subprocess.run(
        ["python3", "-c", sqlite, tmp_path / "new.db", query],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "(11, 'web-3')\n"
    assert _files(tmp_path) == before
