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
from nri_scope.recording.reader import Recording
from nri_scope.share.extract import Selection, extract
from tests.recording.test_faults import file_size_limit
from tests.recording.traffic import lifecycles, record


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Recording]:
    record(tmp_path / "whole.db", lifecycles(100))
    with Recording.open(tmp_path / "whole.db") as recording:
        yield recording


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_only_its_owner_can_read_it_whatever_the_umask_is(whole: Recording) -> None:
    output = whole.path.with_name("new.db")
    before = os.umask(0)
    try:
        extract(whole, output)
    finally:
        os.umask(before)
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert _files(output.parent) == ["new.db", "whole.db"]


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "folder", "the original"])
def test_nothing_is_written_over(kind: str, whole: Recording, tmp_path: Path) -> None:
    output = tmp_path / "new.db"
    match kind:
        case "file":
            output.write_bytes(b"mine")
        case "link":
            output.symlink_to(tmp_path / "whole.db")
        case "dangling link":
            output.symlink_to(tmp_path / "nowhere.db")
        case "folder":
            output.mkdir()
        case _:
            output = whole.path
    before = _files(tmp_path)
    content = whole.path.read_bytes()
    with pytest.raises(RecordingError, match="the file exists; nothing was written; choose"):
        extract(whole, output)
    assert _files(tmp_path) == before
    assert whole.path.read_bytes() == content


def test_nor_over_what_comes_meanwhile(whole: Recording, tmp_path: Path) -> None:
    output = tmp_path / "new.db"

    def another_program(_: float) -> None:
        output.write_bytes(b"theirs")

    with pytest.raises(RecordingError, match="the file exists"):
        extract(whole, output, on_progress=another_program)
    assert output.read_bytes() == b"theirs"
    assert _files(tmp_path) == ["new.db", "whole.db"]


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_what_another_file_left_is_not_taken_for_its_own(
    suffix: str, whole: Recording, tmp_path: Path
) -> None:
    (tmp_path / f"new.db{suffix}").write_bytes(b"of a recording that was deleted")
    with pytest.raises(RecordingError, match=f"new.db{suffix} of another database exists"):
        extract(whole, tmp_path / "new.db")


def test_a_long_name_is_no_matter(whole: Recording, tmp_path: Path) -> None:
    output = tmp_path / f"{'ü' * 126}.db"
    assert extract(whole, output).path == output
    with pytest.raises(RecordingError, match="file name too long; choose a shorter one"):
        extract(whole, tmp_path / f"{'ü' * 127}.db")


def test_a_folder_that_is_not_there_is_named(whole: Recording, tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"no such folder: .*/none; create it first"):
        extract(whole, tmp_path / "none" / "new.db")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that takes no files")
def test_a_folder_that_takes_no_files_is_named(whole: Recording) -> None:
    with pytest.raises(RecordingError, match=r"/proc/new\.db: cannot be written: "):
        extract(whole, Path("/proc/new.db"))


def test_a_full_disk_leaves_nothing_behind(whole: Recording, tmp_path: Path) -> None:
    with file_size_limit(96 << 10), pytest.raises(RecordingError, match="cannot be written: "):
        extract(whole, tmp_path / "new.db")
    assert _files(tmp_path) == ["whole.db"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("selection", [Selection(), Selection(pod="shop/web-99")])
def test_who_watches_the_progress_can_end_it(
    error: type[BaseException], selection: Selection, whole: Recording, tmp_path: Path
) -> None:
    told: list[float] = []

    def stop(done: float) -> None:
        told.append(done)
        if len(told) == 2:
            raise error

    with pytest.raises(error):
        extract(whole, tmp_path / "new.db", selection, on_progress=stop)
    assert _files(tmp_path) == ["whole.db"]
    # The original can still be used, and it works the next time.
    assert extract(whole, tmp_path / "new.db", selection).counts.events > 0


def test_progress_goes_from_nothing_to_all(whole: Recording, tmp_path: Path) -> None:
    for name, selection in (("a.db", Selection()), ("b.db", Selection(pod="shop/web-3"))):
        told: list[float] = []
        extract(whole, tmp_path / name, selection, on_progress=told.append)
        assert told == sorted(told)
        assert told[-1] == 1.0
        assert 0 <= told[0] < 1


def test_no_other_program_is_needed_to_read_it(whole: Recording, tmp_path: Path) -> None:
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
