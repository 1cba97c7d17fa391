# SPDX-License-Identifier: Apache-2.0
"""Translate errors of internal queries on an untrusted recording: the recording is at fault."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from nri_scope.errors import RecordingError

from ..file.schema_check import repair_hint
from .connection import Value
from .opening import to_recording_error
from .reader import Recording
from .rows import Row, RowError, number_of


@contextmanager
def recording_errors(recording: Recording) -> Iterator[None]:
    """Translate SQLite, text and row errors inside the block to RecordingError."""
    try:
        yield
    except (sqlite3.Error, UnicodeError, MemoryError) as error:
        raise to_recording_error(recording.path, error) from error
    except RowError as error:
        raise RecordingError(
            recording.path, f"damaged: {error}", repair_hint(recording.path)
        ) from error


def query_rows(recording: Recording, query: str, *values: Value) -> list[Row]:
    """Return all rows, whose types the caller must check. Raises RecordingError."""
    with recording_errors(recording):
        return recording.connection.execute(query, values).fetchall()


def query_numbers(recording: Recording, query: str, *values: Value) -> list[tuple[int, ...]]:
    """Return all rows of a query for integers. Raises RecordingError for other values, too."""
    with recording_errors(recording):
        return [
            tuple(number_of((value,)) for value in row)
            for row in recording.connection.execute(query, values)
        ]


def query_column(recording: Recording, query: str, *values: Value) -> list[int]:
    """Return the only column of a query for integers. Raises RecordingError for other values."""
    return [number for (number,) in query_numbers(recording, query, *values)]
