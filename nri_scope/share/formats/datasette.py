# SPDX-License-Identifier: Apache-2.0
"""A plugin for Datasette: ``nri_json`` and ``nri_object`` for recordings that it serves.

Datasette finds it through the entry point ``datasette``; nothing of ours imports it. The functions
are about the file that they are asked in, and exist for recordings only.
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
    """What we need of Datasette's class of that name."""

    path: str | None


class Datasette(Protocol):
    """Likewise."""

    def get_database(self, name: str) -> Database:
        """Raises KeyError."""
        ...


Hook = Callable[[sqlite3.Connection, str, Datasette], None]


def _marked(hook: Hook) -> Hook:
    """The hook as Datasette wants it marked; as it is where there is no Datasette."""
    try:
        datasette = importlib.import_module("datasette")
    except ImportError:
        return hook
    return cast(Hook, datasette.hookimpl(hook))


@_marked
def prepare_connection(conn: sqlite3.Connection, database: str, datasette: Datasette) -> None:
    """Datasette's hook: give a connection to a recording our functions."""
    try:
        path = datasette.get_database(database).path
    except KeyError:
        # It looks at connections of its own, too.
        return
    if path is None:
        return
    try:
        (application_id,) = conn.execute("PRAGMA application_id").fetchone()
    except sqlite3.DatabaseError:
        # Datasette says what is wrong with the file.
        return
    if application_id == APPLICATION_ID:
        register(conn, _Opened(path))


class _Opened:
    """A recording that is opened when something is asked, by each thread for itself.

    Datasette opens a connection in one thread and may use it in another one, and its connection is
    none that can be trusted to read a stranger's file.
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
    """Closes a recording when nobody has the connection any more: Datasette does not tell."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def __del__(self) -> None:
        # Another thread than the one that opened it may be the last to let it go.
        with contextlib.suppress(sqlite3.ProgrammingError):
            self.recording.close()
