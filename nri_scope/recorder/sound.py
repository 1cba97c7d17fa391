# SPDX-License-Identifier: Apache-2.0
"""For SQL of our own on somebody's recording: what goes wrong in it is the recording's fault."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from nri_scope.errors import RecordingError
from nri_scope.recorder.check import recover
from nri_scope.recorder.reader import Recording
from nri_scope.recorder.rows import RowError
from nri_scope.recorder.source import explained


@contextmanager
def sound(recording: Recording) -> Iterator[None]:
    """Turns what a damaged file causes inside the block into RecordingError."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        raise explained(recording.path, error) from error
    except RowError as error:
        raise RecordingError(
            recording.path, f"damaged: {error}", recover(recording.path)
        ) from error
