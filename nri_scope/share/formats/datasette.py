# SPDX-License-Identifier: Apache-2.0
"""A plugin for Datasette that adds ``nri_json`` and ``nri_object`` to recordings it serves.

Datasette finds it through the entry point ``datasette``; nri-scope does not import it. The
functions read the file of the database in which they are called, and only exist in recordings.
"""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
import threading
from collections.abc import Callable
from typing import Protocol, cast

from nri_scope.events import Event
from nri_scope.recording.reader import Recording
from nri_scope.recording.schema import APPLICATION_ID
from nri_scope.recording.sql_functions import register


class Database(Protocol):
    """The part of Datasette's ``Database`` used here."""

    path: str | None


class Datasette(Protocol):
    """The part of Datasette's main class used here."""

    def get_database(self, name: str) -> Database:
        """Return the database. Raises KeyError."""
        ...


Hook = Callable[[sqlite3.Connection, str, Datasette], None]


def _marked(hook: Hook) -> Hook:
    """Mark the hook for Datasette; return it unchanged if Datasette is not installed."""
    try:
        datasette = importlib.import_module("datasette")
    except ImportError:
        return hook
    return cast(Hook, datasette.hookimpl(hook))


@_marked
def prepare_connection(conn: sqlite3.Connection, database: str, datasette: Datasette) -> None:
    """Register nri-scope's functions for a recording; Datasette calls this for each connection."""
    try:
        path = datasette.get_database(database).path
    except KeyError:
        # Datasette also passes its internal connections.
        return
    if path is None:
        return
    try:
        (application_id,) = conn.execute("PRAGMA application_id").fetchone()
    except sqlite3.DatabaseError:
        # Datasette itself reports problems of the file.
        return
    if application_id == APPLICATION_ID:
        register(conn, _Opened(path))


class _Opened:
    """A recording, opened by each thread when it first calls a function.

    Datasette may open a connection in one thread and use it in another one, and its connection is
    not set up to read untrusted files.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._here = threading.local()

    def event(self, event_id: int, /) -> Event | None:
        return self._recording().event(event_id)

    def request(self, event_id: int, /) -> bytes:
        return self._recording().request(event_id)

    def reply(self, event_id: int, /) -> bytes:
        return self._recording().reply(event_id)

    def object(self, object_id: int, /) -> tuple[int, bytes]:
        return self._recording().object(object_id)

    def _recording(self) -> Recording:
        kept: _Kept | None = getattr(self._here, "kept", None)
        if kept is None:
            kept = self._here.kept = _Kept(Recording.open(self._path))
        return kept.recording


class _Kept:
    """Closes a recording when its connection no longer exists; Datasette has no hook for this."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def __del__(self) -> None:
        # The last reference may be dropped by a thread other than the one that opened the
        # recording.
        with contextlib.suppress(sqlite3.ProgrammingError):
            self.recording.close()
