# SPDX-License-Identifier: Apache-2.0
"""Errors of our own SQL on an untrusted recording: they are the recording's fault."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from nri_scope.errors import RecordingError

from .opening import explained
from .reader import Recording
from .rows import RowError
from .schema_check import recover


@contextmanager
def sound(recording: Recording) -> Iterator[None]:
    """Translate errors that a damaged file causes inside the block to RecordingError."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        raise explained(recording.path, error) from error
    except RowError as error:
        raise RecordingError(
            recording.path, f"damaged: {error}", recover(recording.path)
        ) from error
