# SPDX-License-Identifier: Apache-2.0
"""A bundle is opened as a recording is, and leaves nothing behind."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from nri_scope.errors import RecordingError
from nri_scope.recording.reader import Recording
from nri_scope.share.bundle.import_recording import import_bundle
from tests.share.bundle.bundles import SAMPLE, a_bundle


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_bundle_reads_as_the_recording_in_it(tmp_path: Path, temporary: Path) -> None:
    with Recording.open(SAMPLE) as one, Recording.open(a_bundle(tmp_path / "x.zip")) as other:
        # While it is open, too.
        assert not any(temporary.iterdir())
        assert list(one.exchanges()) == list(other.exchanges())
        assert one.sessions() == other.sessions()
        assert other.path == tmp_path / "x.zip"


def test_its_name_does_not_matter(tmp_path: Path) -> None:
    with Recording.open(a_bundle(tmp_path / "x.nriscope.db")) as recording:
        assert recording.event(1) is not None


def test_one_that_takes_its_place_is_read_next(tmp_path: Path) -> None:
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
def test_a_database_that_is_no_recording_is_refused_under_the_bundles_name(
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
def test_what_is_no_database_is_refused(content: bytes, tmp_path: Path, temporary: Path) -> None:
    path = a_bundle(tmp_path / "x.zip", content)
    with pytest.raises(RecordingError) as caught:
        Recording.open(path)
    assert caught.value.path == str(path)
    assert not any(temporary.iterdir())


def test_the_way_out_of_a_damaged_one_begins_with_the_zip(tmp_path: Path) -> None:
    path = a_bundle(tmp_path / "x.zip", SAMPLE.read_bytes()[:9999])
    with pytest.raises(RecordingError, match=r"short; unzip it, and `sqlite3 recording\.nriscope"):
        Recording.open(path)
    with pytest.raises(RecordingError, match=r"short; unzip it, and") as caught:
        import_bundle(path, tmp_path / "y.db")
    assert caught.value.path == str(path)


def test_a_place_for_temporary_files_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_bundle(tmp_path / "x.zip")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(RecordingError, match=r"cannot be unpacked: no such file .* TMPDIR"):
        Recording.open(path)
