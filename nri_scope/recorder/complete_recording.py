# SPDX-License-Identifier: Apache-2.0
"""Write a recording whose content is available as a whole: nothing is dropped."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from nri_scope.errors import RecordingError
from nri_scope.events import CapturedCall, Role, SessionStart, Tapped
from nri_scope.recording.file_errors import error_words, writing_hint
from nri_scope.recording.writable_file import RecordingFile

from .inbox import Begin, End, Entry, NoteEntry, size_of
from .ring import Ring
from .transactions import TransactionWriter

_BATCH, _BATCH_BYTES = 256, 4 << 20
"""Entries, or bytes of their messages, after which a transaction is written."""


def start_values(session: object) -> dict[str, Any]:
    """Return the fields of `SessionStart` of a session that was recorded elsewhere: an
    `events.Session`, or another object whose fields have the same names.
    """
    return {one.name: getattr(session, one.name) for one in fields(SessionStart)}


def start_of(session: object) -> SessionStart:
    """Return the start of a session, see `start_values`. Raises ValueError for an unknown role."""
    values = start_values(session)
    return SessionStart(**{**values, "role": Role(values["role"])})


def call_of(
    event: Any, request: bytes, reply: bytes, service: str = "", tapped: Tapped | None = None
) -> CapturedCall:
    """Return an event that was recorded elsewhere as it was captured: an `events.Event`, or another
    object whose fields have the same names.
    """
    return CapturedCall(
        wall_ns=event.at_ns,
        mono_ns=event.mono_ns,
        method=event.method,
        request=request,
        reply=reply,
        status_code=event.status_code,
        status_message=event.status_message,
        took_ns=event.took_ns,
        timeout_ns=event.timeout_ns,
        service=service,
        held_ns=None if tapped is None else tapped.held_ns,
        metadata=() if tapped is None else tapped.metadata,
    )


@contextmanager
def complete_recording(path: Path) -> Iterator[CompleteRecording]:
    """Create the recording at ``path``, to be filled inside the block. Raises RecordingError.

    After an exception, the file is removed.
    """
    path = path.absolute()
    try:
        writer = TransactionWriter(RecordingFile.open(path, only_new=True), Ring(None, None))
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
        words = error_words(error)
        raise RecordingError(path, f"cannot be written: {words}", writing_hint(words)) from error


class CompleteRecording:
    """A recording that is being written. The methods raise RecordingError and sqlite3.Error."""

    def __init__(self, path: Path, writer: TransactionWriter) -> None:
        self._path = path
        self._writer = writer
        self._sessions = 0
        self._batch: list[Entry] = []
        self._batch_bytes = 0

    def begin_session(self, start: SessionStart) -> int:
        """Begin a session; return its number."""
        self._sessions += 1
        self.put(Begin(self._sessions, start))
        return self._sessions

    def capture(self, session: int, item: CapturedCall) -> None:
        """Add an event."""
        self.put((session, item))

    def note(self, session: int | None, at_ns: int, text: str) -> None:
        """Add a note."""
        self.put(NoteEntry(session, at_ns, text))

    def end_session(self, session: int, reason: str, at_ns: int) -> None:
        """End a session."""
        self.put(End(session, reason, at_ns))

    def flush(self) -> None:
        """Write what was added."""
        written = self._writer.write(self._batch)
        self._batch, self._batch_bytes = [], 0
        if written.problems:
            raise RecordingError(self._path, written.problems[0])

    def put(self, entry: Entry) -> None:
        """Add an entry; those of sessions have their numbers."""
        self._batch.append(entry)
        if isinstance(entry, tuple):
            self._batch_bytes += size_of(entry[1])
        if len(self._batch) >= _BATCH or self._batch_bytes >= _BATCH_BYTES:
            self.flush()
