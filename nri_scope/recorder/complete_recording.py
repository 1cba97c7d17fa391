# SPDX-License-Identifier: Apache-2.0
"""Write a recording whose content is available as a whole: nothing is dropped."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from nri_scope.capture.sink import Begin, ControlEntry, End, Sink
from nri_scope.entries import Began, Ended, Entry, RecordedCall
from nri_scope.errors import RecordingError
from nri_scope.events import CapturedCall, Session, SessionStart
from nri_scope.recording.file.file_errors import error_words, writing_hint
from nri_scope.recording.file.writable_file import RecordingFile

from .entry_writer import Written
from .ring import Ring
from .transactions import TransactionWriter

_BATCH, _BATCH_BYTES = 2_048, 4 << 20
"""Entries, or bytes of their messages, after which a transaction is written."""


def start_of(session: Session) -> SessionStart:
    """Return the start of a session that was recorded elsewhere."""
    return SessionStart(**{attr.name: getattr(session, attr.name) for attr in fields(SessionStart)})


@contextmanager
def complete_recording(path: Path, *, is_draft: bool = False) -> Iterator[CompleteRecording]:
    """Create the recording at ``path``, to be filled inside the block. Raises RecordingError.

    After an exception, the file is removed. ``is_draft``: whether no process reads the
    file before its end, see `RecordingFile.open`.
    """
    path = path.absolute()
    try:
        file = RecordingFile.open(path, only_new=True, is_draft=is_draft)
        writer = TransactionWriter(file, Ring(None, None))
        recording = CompleteRecording(path, writer)
        try:
            yield recording
            recording.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            writer.close()
    except sqlite3.Error as error:
        reason = error_words(error)
        raise RecordingError(path, f"cannot be written: {reason}", writing_hint(reason)) from error


class CompleteRecording(Sink):
    """A recording that is being written. The methods raise RecordingError and sqlite3.Error."""

    def __init__(self, path: Path, writer: TransactionWriter) -> None:
        self._path = path
        self._writer = writer
        self._sessions = 0
        self._batch: list[Written] = []
        self._batch_bytes = 0

    def begin_session(self, start: SessionStart) -> int:
        """Add the start of a session; return its number."""
        self._sessions += 1
        self._add(Begin(self._sessions, start))
        return self._sessions

    def capture(self, session: int, item: CapturedCall) -> None:
        """Add an event."""
        self._add((session, item), len(item.request) + len(item.reply))

    def put_control(self, entry: ControlEntry) -> None:
        """Add an entry other than an event."""
        self._add(entry)

    def put(self, entry: Entry) -> None:
        """Add an entry, with its numbers. A session that has ended may begin again."""
        match entry:
            case Began(session):
                self._add(Begin(session.id, start_of(session), session.synced_ns))
            case Ended(session):
                self._add(End(session.id, session.end_reason, session.ended_ns))
            case RecordedCall():
                self._add(entry, len(entry.request) + len(entry.reply))
            case _:
                self._add(entry)

    def flush(self) -> None:
        """Write what was added."""
        written = self._writer.write(self._batch)
        self._batch, self._batch_bytes = [], 0
        if written.problems:
            raise RecordingError(self._path, written.problems[0])

    def _add(self, entry: Written, size: int = 0) -> None:
        self._batch.append(entry)
        self._batch_bytes += size
        if len(self._batch) >= _BATCH or self._batch_bytes >= _BATCH_BYTES:
            self.flush()
