# SPDX-License-Identifier: Apache-2.0
"""Temporary files: private, removed at the end, with errors that name their purpose."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nri_scope.errors import RecordingError, UsageError

from .file_errors import error_words

ELSEWHERE = "set TMPDIR to another folder"
"""Advice if a temporary file cannot be written."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a new folder that only its owner can access. Raises UsageError if that fails."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="nri-scope-")
    except OSError as error:
        raise _unwritable(error) from error
    with folder as name:
        yield Path(name)


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Translate failed writes to a temporary folder in this block to a UsageError.

    Names of files in the folder would not help the user. Every OSError in the block is taken for an
    error of such a write.
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
    return UsageError(f"a temporary file: cannot be written: {error_words(error)}", ELSEWHERE)
