# SPDX-License-Identifier: Apache-2.0
"""Companion files of a recording with any content, owner and mode, made from bytes for fuzzing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self
from unittest import mock

from nri_scope.errors import RecordingError
from nri_scope.events import Event
from nri_scope.recording.file import writable_file
from nri_scope.recording.file.writable_file import RecordingFile
from nri_scope.recording.marks import sidecar
from nri_scope.recording.marks.user_marks import UserMarks
from nri_scope.recording.reading.reader import Recording
from tests.recording.marks.recordings import SAMPLE, events_of
from tests.recording.other_user import USER, journal_naming, make_other_kind

_SUFFIXES = ("-wal", "-shm", "-journal")
_KINDS = ("pipe", "socket", "folder", "link")
_FOLDER_MODES = (0o700, 0o755, 0o1777, 0o777, 0o775)
_FILE_MODES = (0o600, 0o644, 0o666)


@dataclass(frozen=True, slots=True)
class Companion:
    """Companion file: ``content`` is one of `_CONTENTS` or `_KINDS`, or "" for no file."""

    content: str
    cut: int
    """Share of the content that is written, in 1/256."""
    mode: int
    is_theirs: bool


@dataclass(frozen=True, slots=True)
class RecordingFacts:
    """Modes and owners of a recording, its folder and its companions."""

    folder_mode: int
    folder_is_theirs: bool
    mode: int
    is_theirs: bool
    companions: tuple[Companion, ...]

    @property
    def has_other_owner(self) -> bool:
        """Whether the folder or the recording belongs to another user."""
        return self.folder_is_theirs or self.is_theirs

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Parse four bytes for the recording and four for each companion; missing bytes are 0.

        Most values describe files that SQLite would use: companions with complete, suitable content
        and one owner for all files. Other scenes are mostly rejected for a simple reason.
        """
        data = data.ljust(16, b"\0")
        others = ("", *_CONTENTS, *_KINDS)
        contents = {
            at: (*usual * len(others), *others)
            for at, usual in ((4, ("log",)), (8, ("",)), (12, ("journal", "naming")))
        }
        return cls(
            _FOLDER_MODES[data[0] % len(_FOLDER_MODES)],
            data[1] % 4 == 1,
            _FILE_MODES[data[2] % len(_FILE_MODES)],
            data[3] % 4 == 1,
            tuple(
                Companion(
                    contents[at][data[at] % len(contents[at])],
                    data[at + 1] + 1 if data[at + 1] % 4 == 1 else 256,
                    _FILE_MODES[data[at + 2] % len(_FILE_MODES)],
                    data[at + 3] % 4 == 1,
                )
                for at in (4, 8, 12)
            ),
        )


@cache
def _wal(folder: Path) -> bytes:
    """Return a write-ahead log of the sample that sets the same duration in every event."""
    path = Path(shutil.copy(SAMPLE, folder / "w.db"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE event SET took_ns = 12345")
        found = path.with_name("w.db-wal").read_bytes()
    path.unlink()
    return found


def _rollback(_: Path, victim: Path) -> bytes:
    """Return a journal that truncates the recording by a page and names no other file."""
    pages = SAMPLE.stat().st_size // 4096
    head = journal_naming(victim, 0)[:8] + struct.pack(">IIIII", 0, 0, pages - 1, 512, 4096)
    return head.ljust(512, b"\0")


_CONTENTS: dict[str, Callable[[Path, Path], bytes]] = {
    "empty": lambda _folder, _victim: b"",
    "zeros": lambda _folder, _victim: bytes(4096),
    "noise": lambda _folder, _victim: bytes(range(256)) * 40,
    "log": lambda folder, _victim: _wal(folder),
    "journal": _rollback,
    "naming": lambda _folder, victim: journal_naming(victim, SAMPLE.stat().st_size),
}


@contextmanager
def impatient() -> Iterator[None]:
    """Shorten the time that writers wait for a lock."""
    with (
        mock.patch.object(sidecar, "LOCK_SECONDS", 0.02),
        mock.patch.object(writable_file, "OPENING_TIMEOUT_MS", 20),
    ):
        yield


def one_scene(folder: Path, scene: RecordingFacts) -> None:
    """Read, mark and record in ``folder``, and check that no other file changes."""
    root = os.geteuid() == 0
    private = folder / "private"
    private.mkdir(0o700, exist_ok=True)
    victim = private / "victim"
    victim.write_text("precious")
    for work in (_read, _mark, _record):
        place = folder / "place"
        place.mkdir()
        try:
            path = place / "r.db"
            shutil.copyfile(SAMPLE, path)
            path.chmod(scene.mode)
            other = place / "other"
            other.write_text("precious")
            for suffix, companion in zip(_SUFFIXES, scene.companions, strict=True):
                _put(place / f"r.db{suffix}", companion, private, victim, root)
            if root and scene.is_theirs:
                os.chown(path, USER, USER)
            if root and scene.folder_is_theirs:
                os.chown(place, USER, USER)
            place.chmod(scene.folder_mode)
            before = _state(place)
            with suppress(RecordingError):
                work(path)
            after = _state(place)
            # Marks are stored in a file of their own.
            marks = after.pop("r.db.marks.json", None)
            assert marks is None or work is _mark
            assert victim.read_text() == other.read_text() == "precious"
            assert set(after) <= {"other", "r.db", *(f"r.db{suffix}" for suffix in _SUFFIXES)}
            theirs = (root and scene.has_other_owner) or scene.folder_mode in (0o777, 0o775)
            only_reads = work is not _record
            if only_reads and not theirs and (len(after) == 5 or scene.folder_mode != 0o1777):
                # All companions exist, as while recording, or SQLite may create them: it may
                # rebuild the index in -shm.
                for state in (before, after):
                    state.pop("r.db-shm", None)
            if theirs or only_reads:
                # No file changes where other users could have replaced it or can still write to it.
                assert after == before, scene
        finally:
            shutil.rmtree(place)
    assert [each.name for each in folder.iterdir()] == [private.name]


def _put(path: Path, companion: Companion, private: Path, victim: Path, root: bool) -> None:
    if not companion.content:
        return
    make = _CONTENTS.get(companion.content)
    if make is None:
        make_other_kind(path, companion.content, victim)
    else:
        content = make(private, victim)
        path.write_bytes(content[: len(content) * companion.cut // 256])
        path.chmod(companion.mode)
    if root and companion.is_theirs:
        os.chown(path, USER, USER, follow_symlinks=False)


def _state(folder: Path) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for each in folder.iterdir():
        status = each.lstat()
        kept = status.st_ino, status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns
        found[each.name] = kept
    return found


def _read(path: Path) -> None:
    with Recording.open(path) as recording:
        for event in recording.events():
            recording.request(event.id)


def _mark(path: Path) -> None:
    marks = UserMarks(path)
    marks.load()
    marks.comment(_marked_event(), "a comment")
    marks.save()


@cache
def _marked_event() -> Event:
    return events_of()[3]


def _record(path: Path) -> None:
    RecordingFile.open(path).close()
    with suppress(FileNotFoundError):
        path.unlink()
    RecordingFile.open(path).close()
