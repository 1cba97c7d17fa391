# SPDX-License-Identifier: Apache-2.0
"""Private temporary files, whose errors are reported as such."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nri_scope.errors import RecordingError, UsageError

from .file_errors import error_words

_folders: set[Path] = set()
"""Temporary folders of this process."""
ELSEWHERE = "set TMPDIR to another folder"
"""Advice if a temporary file cannot be written."""


@contextmanager
def temporary_folder(beside: Path | None = None) -> Iterator[Path]:
    """Create a folder that only its owner can access; remove it at the end. Raises UsageError.

    It is created in the folder ``beside``; None: where the system has temporary files.
    """
    try:
        hidden = "" if beside is None else "."
        folder = tempfile.TemporaryDirectory(prefix=f"{hidden}nri-scope-", dir=beside)
    except OSError as error:
        raise unwritable(error) from error
    with folder as name:
        path = Path(name)
        _folders.add(path)
        try:
            yield path
        finally:
            _folders.discard(path)


def temporary_bytes() -> int:
    """Return the bytes of the files in the temporary folders of this process."""
    total = 0
    for folder in list(_folders):
        with suppress(OSError):
            for path in folder.iterdir():
                # A file may be removed meanwhile.
                with suppress(OSError):
                    total += path.stat().st_size
    return total


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Translate errors of writing to a temporary folder inside the block to UsageError.

    The UsageError does not name the file, which the user does not know. Every OSError in the block
    counts as such an error.
    """
    try:
        yield
    except RecordingError as error:
        if Path(error.path).parent != folder:
            raise
        raise UsageError(f"a temporary file: {error.problem}", ELSEWHERE) from error
    except OSError as error:
        raise unwritable(error) from error


@contextmanager
def standing_for(path: Path, name: str) -> Iterator[None]:
    """Name what a temporary recording was made from in errors about it inside the block."""
    try:
        yield
    except (RecordingError, UsageError) as error:
        if error.path != str(path):
            raise
        raise error.about(name) from error


def unwritable(error: OSError | sqlite3.Error) -> UsageError:
    """Return the UsageError for an error of writing a temporary file."""
    return UsageError(f"a temporary file: cannot be written: {error_words(error)}", ELSEWHERE)
