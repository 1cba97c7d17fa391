# SPDX-License-Identifier: Apache-2.0
"""Write a file to a private folder, then move it to its final path."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Self

from nri_scope.errors import RecordingError, UsageError
from nri_scope.recording.file.file_errors import error_words, writing_hint
from nri_scope.recording.file.trusted_location import FolderAccess, folder_access
from nri_scope.recording.reading.opening import is_settled


class Outputs:
    """Context manager for a private folder of drafts, which is removed on exit.

    Raises UsageError on entry if the output cannot be written, or if it exists and ``force`` is not
    set; also for file system errors inside the block.
    """

    def __init__(self, output: Path, source: Path, *, force: bool) -> None:
        """Prepare to write ``output``. The input file ``source`` is never overwritten."""
        self.output = output
        self._source = source
        self._force = force
        self._folder: Path | None = None
        self._count = 0
        self._moves = True

    def __enter__(self) -> Self:
        self.check(self.output)
        try:
            parent = Path(os.path.realpath(self.output.parent))
            self._moves = folder_access(parent).access is not FolderAccess.SHARED
            # Beside the output, so that drafts can be renamed instead of copied; unless other users
            # could replace the folder and read the drafts.
            folder = tempfile.mkdtemp(prefix=".nri-scope-", dir=parent if self._moves else None)
        except OSError as error:
            raise self._unwritable(error) from error
        self._folder = Path(folder)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise self._unwritable(error) from error
        if isinstance(error, RecordingError) and Path(error.path).parent == self._folder:
            # The paths of drafts mean nothing to the user.
            raise RecordingError(self.output, error.problem, error.hint) from error

    @property
    def folder(self) -> Path:
        """Folder of the drafts, accessible only to this user."""
        assert self._folder is not None
        return self._folder

    def new(self, suffix: str) -> Path:
        """Return an unused name for a draft."""
        self._count += 1
        return self.folder / f"{self._count}{suffix}"

    def place(self, draft: Path) -> None:
        """Move a draft to the output path."""
        self.check(self.output)
        if self._moves:
            self._move(draft)
            return
        part = self.output.with_name(f".nri-scope-{secrets.token_hex(8)}.part")
        try:
            with draft.open("rb") as file, open(part, "xb", opener=_private) as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
            self._move(part)
        finally:
            part.unlink(missing_ok=True)

    def _move(self, draft: Path) -> None:
        target = self.output
        if self._force:
            draft.replace(target)
            return
        try:
            # Do not replace a file created meanwhile.
            os.link(draft, target)
        except FileExistsError as error:
            raise _exists(target) from error
        except OSError:
            # A file system without hard links.
            self.check(target)
            draft.replace(target)

    def check(self, target: Path) -> None:
        """Raise UsageError if a file cannot be written, or must not be replaced."""
        if target.is_dir():
            raise UsageError(f"{target} is a folder", "name a file in it")
        # Never replace a device, a pipe, or a link to one of these with a file.
        if target.exists() and not target.is_file():
            raise UsageError(f"{target} is not a regular file", "name another one after -o")
        # SQLite would apply an existing log or journal to the new file.
        if not is_settled(target.absolute()):
            raise UsageError(f"{target} is being recorded to", "name another file after -o")
        if not os.path.lexists(target):
            if not target.absolute().parent.is_dir():
                raise UsageError(f"{target}: no such folder", "make it, or name another one")
            return
        # A missing source is reported when it is opened.
        if target.exists() and self._source.exists() and target.samefile(self._source):
            raise UsageError(f"{target} is the input file", "name another file after -o")
        if not self._force:
            raise _exists(target)

    def _unwritable(self, error: OSError) -> UsageError:
        problem = error_words(error)
        return UsageError(f"{self.output}: cannot be written: {problem}", writing_hint(problem))


def create_private(path: Path) -> BinaryIO:
    """Create a file that only its owner can read, whatever the umask. Raises OSError."""
    # Opened by path: formats create temporary files in the folder of ``stream.name``.
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def write_text(path: Path, parts: Iterable[str]) -> int:
    """Create a private UTF-8 file; return its size in bytes. Raises OSError."""
    with create_private(path) as stream:
        for part in parts:
            # A recording may contain lone surrogates.
            stream.write(part.encode("utf-8", "replace"))
        return stream.tell()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _exists(target: Path) -> UsageError:
    return UsageError(f"{target} exists", "name another file, or replace it with --force")
