# SPDX-License-Identifier: Apache-2.0
"""Bundles open like recordings, and leave no temporary files."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from nri_scope.errors import RecordingError
from nri_scope.recording.reading.reader import Recording
from tests.share.bundle.bundles import SAMPLE, a_bundle


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_bundle_has_the_events_and_sessions_of_its_recording(
    tmp_path: Path, temporary: Path
) -> None:
    with Recording.open(SAMPLE) as one, Recording.open(a_bundle(tmp_path / "x.zip")) as other:
        # Not even while the bundle is open.
        assert not any(temporary.iterdir())
        assert list(one.exchanges()) == list(other.exchanges())
        assert one.sessions() == other.sessions()
        assert other.path == tmp_path / "x.zip"


def test_a_bundle_with_any_suffix_can_be_opened(tmp_path: Path) -> None:
    with Recording.open(a_bundle(tmp_path / "x.nriscope.db")) as recording:
        assert recording.event(1) is not None


def test_a_replaced_bundle_is_read_again(tmp_path: Path) -> None:
    path = a_bundle(tmp_path / "x.zip")
    with Recording.open(path) as recording:
        assert recording.sessions()
        empty = tmp_path / "empty.db"
        empty.write_bytes(SAMPLE.read_bytes())
        with closing(sqlite3.connect(empty)) as connection:
            connection.execute("DELETE FROM session")
            connection.commit()
        a_bundle(tmp_path / "other.zip", empty.read_bytes()).replace(path)
        assert not recording.sessions()


def _changed(path: Path, *statements: str) -> bytes:
    path.write_bytes(SAMPLE.read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("PRAGMA application_id = 7", "some other SQLite database"),
        ("PRAGMA user_version = 9", "version 9, and this nri-scope reads up to 1; upgrade"),
        ("CREATE VIEW v AS SELECT 1", "holds a view"),
        ("CREATE TRIGGER t AFTER INSERT ON event BEGIN SELECT 1; END", "holds a trigger"),
        ("DROP TABLE note", "no id in its table note"),
    ],
)
def test_an_invalid_database_is_rejected_with_the_bundles_path(
    statement: str, words: str, tmp_path: Path, temporary: Path
) -> None:
    path = a_bundle(tmp_path / "x.zip", _changed(tmp_path / "r.db", statement))
    with pytest.raises(RecordingError, match=words) as caught:
        Recording.open(path)
    assert caught.value.path == str(path)
    assert not any(temporary.iterdir())


@pytest.mark.parametrize(
    "content", [b"", b"no database", b"PK\x03\x04", SAMPLE.read_bytes()[:9999]]
)
def test_content_that_is_no_database_is_rejected(
    content: bytes, tmp_path: Path, temporary: Path
) -> None:
    path = a_bundle(tmp_path / "x.zip", content)
    with pytest.raises(RecordingError) as caught:
        Recording.open(path)
    assert caught.value.path == str(path)
    assert not any(temporary.iterdir())


def test_the_remedy_for_a_damaged_recording_begins_with_unzip(tmp_path: Path) -> None:
    path = a_bundle(tmp_path / "x.zip", SAMPLE.read_bytes()[:9999])
    with pytest.raises(RecordingError, match=r"short; unzip it, and `sqlite3 recording\.nriscope"):
        Recording.open(path)


def test_an_unusable_temporary_folder_is_reported_with_tmpdir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_bundle(tmp_path / "x.zip")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(RecordingError, match=r"cannot be unpacked: no such file .* TMPDIR"):
        Recording.open(path)
