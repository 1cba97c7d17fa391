# SPDX-License-Identifier: Apache-2.0
"""Temporary files: private, gone in the end, and named as what they are when they cannot be had."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nri_scope.errors import RecordingError, UsageError

from .file_errors import in_words

ELSEWHERE = "set TMPDIR to another folder"
"""What helps where one cannot be written."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a new folder for its owner alone. Raises UsageError where that fails."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="nri-scope-")
    except OSError as error:
        raise _unwritable(error) from error
    with folder as name:
        yield Path(name)


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Translate failing writes to a temporary folder in this block to a UsageError.

    The user does not know the files in it: their names would not help. Every OSError in the block
    is taken for one of theirs.
    """
    try:
        yield
    except RecordingError as error:
        if Path(error.path).parent != folder:
            raise
        raise UsageError(f"a temporary file: {error.problem}", ELSEWHERE) from error
    except OSError as error:
        raise _unwritable(error) from error


def _unwritable(error: OSError) -> UsageError:
    return UsageError(f"a temporary file: cannot be written: {in_words(error)}", ELSEWHERE)
