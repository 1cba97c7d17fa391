# SPDX-License-Identifier: Apache-2.0
"""Query a recording, which is untrusted input, while another process may write it."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from nri_scope.errors import RecordingError

from ..file import row_limits
from ..file.file_errors import code_of, error_words, is_damage, reading_hint
from ..file.schema_check import repair_hint
from ..file.sqlite_text import WORDS_MAX, characters_sql
from .opening import connect, fingerprint, to_recording_error
from .rows import Row, ascending, number_of, optional_numbers_of
from .work_budget import QueryBudget

_ATTEMPTS = 5
"""Maximum number of attempts to open a file that is written in the meantime."""

T = TypeVar("T")
Value = str | int


class RecordingConnection:
    """Connection to a recording, which is renewed if the file was replaced or written.

    Methods raise RecordingError for a faulty file.
    """

    def __init__(self, path: Path) -> None:
        """Connect to ``path``."""
        self.path = path
        try:
            self._real_path = path.resolve()
        except (OSError, RuntimeError) as error:
            # Python 3.13 reports a loop of links only on opening, with the same message.
            problem = error_words(OSError(errno.ELOOP, ""))
            raise RecordingError(path, problem, reading_hint(problem)) from error
        self._outdated: list[sqlite3.Connection] = []
        self._unchanged: dict[str, tuple[tuple[sqlite3.Connection, int], list[Any]]] = {}
        """See `_while_unchanged`."""
        self._connect()

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a recording for reading, even while it is being written. Raises RecordingError.

        The file is not modified; files beside it are modified only while it is being written. If
        other users could replace the file or its companions, a private copy is read instead
        (``is_copy``).
        """
        return cls(Path(path))

    def close(self) -> None:
        """Close the file."""
        for connection in (self._connection, *self._outdated):
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connection(self) -> sqlite3.Connection:
        """Read-only connection with the views "events" and "log", REGEXP and SQL functions.

        Use this property for each query, as the file may have been reopened.
        """
        self._refresh()
        self._budget.renew()
        return self._connection

    def interrupt(self) -> None:
        """Interrupt the query that is running in another thread."""
        self._connection.interrupt()

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return all rows of an internal query, whose types the caller must check."""
        return self._read(lambda: self._connection.execute(sql, values).fetchall())

    def file_size(self) -> int:
        """Return the current size of the file in bytes."""
        try:
            return self._real_path.stat().st_size
        except OSError:
            # The file was moved in the meantime.
            return 0

    def _connect(self) -> None:
        for attempts_left in reversed(range(_ATTEMPTS)):
            # Determined before connecting, as another process may start writing at any time.
            self._fingerprint = fingerprint(self._real_path)
            try:
                self._connection, self.version, self.is_copy = connect(
                    self._real_path, known_fingerprint=self._fingerprint
                )
                break
            except RecordingError as error:
                # A settled file is read without locks: it may have been read during a write.
                if not (attempts_left and self._has_changed()):
                    raise RecordingError(self.path, error.problem, error.hint) from error
        if self.is_copy:
            self._fingerprint = None
        self._budget = QueryBudget(self._connection, _size(self._connection))

    def _refresh(self) -> bool:
        """Reopen the file if it was settled when opened, and has changed; return whether it did."""
        if not self._has_changed():
            return False
        # A caller may still use the old connection.
        self._outdated.append(self._connection)
        self._connect()
        return True

    def _has_changed(self) -> bool:
        """Return whether the file was settled when opened, and has changed."""
        return self._fingerprint is not None and (fingerprint(self._real_path) != self._fingerprint)

    def _read(self, work: Callable[[], T], location: Callable[[], str] = str) -> T:
        while True:
            self._budget.renew()
            try:
                result = work()
            except (sqlite3.Error, ValueError, MemoryError) as error:
                if self._refresh():
                    continue
                raise self._error(error, location()) from error
            # Discard a result from a file that has changed in the meantime.
            if not self._refresh():
                return result

    def _while_unchanged(self, read: Callable[[], list[T]]) -> list[T]:
        """Return a copy of the result of ``read``, a method, which is called if the file has
        changed since its last call.
        """
        (version,) = self._all(number_of, "PRAGMA data_version")
        state = self._connection, version
        earlier, values = self._unchanged.get(read.__name__, (None, []))
        if earlier != state:
            # The file may change during the call, which belongs to the state before.
            self._unchanged[read.__name__] = state, (values := read())
        return [*values]

    def _check_size(self, table: str, column: str) -> None:
        """Refuse a table with too many rows, or too much text in ``column``, before it is read into
        memory.
        """
        text = f"min(coalesce({characters_sql(column)}, 0), {WORDS_MAX})"
        query = (
            f"SELECT count(*), coalesce(sum({text}), 0) "
            f"FROM (SELECT * FROM {table} LIMIT {row_limits.MAX_ROWS + 1})"
        )
        ((rows, characters),) = self._all(optional_numbers_of, query)
        much = ""
        if (rows or 0) > row_limits.MAX_ROWS:
            much = f"{row_limits.MAX_ROWS:,} {table}s"
        elif (characters or 0) > row_limits.MAX_TEXT:
            much = f"{row_limits.MAX_TEXT:,} characters in its {table}s"
        if much:
            raise RecordingError(
                self.path,
                f"it has more than {much}, and no recorder writes so many",
                "get another copy of it",
            )

    def _table(self, make: Callable[[Row], T], query: str) -> list[T]:
        """Return the values of rows ordered by their key, the first column."""
        return self._read(
            lambda: [make(row) for row in ascending(self._connection.execute(query), (0,))]
        )

    def _all(self, make: Callable[[Row], T], query: str, values: Sequence[Value] = ()) -> list[T]:
        return self._read(lambda: [make(row) for row in self._connection.execute(query, values)])

    def _error(self, error: Exception, location: str) -> RecordingError:
        if isinstance(error, sqlite3.Error) and code_of(error) == sqlite3.SQLITE_INTERRUPT:
            if not self._budget.is_over:
                # A signal interrupted the query, which sqlite3 reports as this error.
                raise KeyboardInterrupt from error
            return RecordingError(
                self.path, "it is damaged: reading it would never end", "get another copy of it"
            )
        if isinstance(error, UnicodeError) or (
            isinstance(error, sqlite3.Error) and not is_damage(error)
        ):
            recording_error = to_recording_error(self._real_path, error)
            return RecordingError(self.path, recording_error.problem, recording_error.hint)
        reason = "" if isinstance(error, sqlite3.Error) else f": {error}"
        if isinstance(error, MemoryError):
            reason = ": a value is too large"
        return RecordingError(
            self.path, f"it is damaged{location and ' ' + location}{reason}", repair_hint(self.path)
        )


def _size(connection: sqlite3.Connection) -> int:
    """Return the size of an open recording in bytes, even if it was removed; 0 if unknown."""
    try:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (page,) = connection.execute("PRAGMA page_size").fetchone()
    except sqlite3.Error:
        return 0
    return int(pages) * int(page)
