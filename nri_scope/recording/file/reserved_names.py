# SPDX-License-Identifier: Apache-2.0
"""Reserve the names of a recording's companions in a folder to which other users can add files.

In a sticky folder such as /tmp, other users can neither remove nor rename this user's files. So a
recorder creates the companions before SQLite opens the recording, and removes them after it is
closed:

- ``-wal`` and ``-shm``, which SQLite then uses,
- ``-journal``, which stays empty: SQLite ignores an empty journal.

Readers lock the journal while they open the recording (`trusted_location.opening_by_name`), and the
names are released only while no reader holds that lock.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nri_scope.errors import RecordingError

from .trusted_location import (
    COMPANIONS,
    JOURNAL,
    UNDO_HINT,
    WAL,
    companion,
    name_of,
    others_may_write,
    try_lock,
)

_LOCK_SECONDS = 1.0
"""Maximum wait for a lock, which a reader holds only while it opens the recording."""


@dataclass(slots=True)
class ReservedNames:
    """Companions of a recording, created by this user so that no other user can create them."""

    path: Path
    _journal: int

    @classmethod
    def create(cls, path: Path, *, is_new: bool) -> Self:
        """Create the companions; for a continued recording, reuse those of a killed recorder.

        Raises RecordingError for unusable existing files, and OSError.
        """
        made: list[Path] = []
        descriptors: dict[str, int] = {}
        try:
            for suffix in COMPANIONS:
                beside = companion(path, suffix)
                try:
                    descriptors[suffix] = _make(beside)
                    made.append(beside)
                except FileExistsError:
                    if is_new:
                        raise refused(path, suffix, "already exists") from None
                    descriptors[suffix] = _adopt(path, suffix)
            journal = descriptors.pop(JOURNAL)
        except BaseException:
            for path in made:
                path.unlink(missing_ok=True)
            raise
        finally:
            for descriptor in descriptors.values():
                os.close(descriptor)
        return cls(path, journal)

    def lock(self) -> bool:
        """Wait until no reader locks the journal, then lock it; return False after one second."""
        with suppress(OSError):
            return try_lock(self._journal, _LOCK_SECONDS)
        return False

    def release(self) -> None:
        """Remove the companions, unless the recording still needs them. Never raises."""
        with suppress(OSError):
            if not os.path.lexists(companion(self.path, WAL)):
                self.remove()
        with suppress(OSError):
            os.close(self._journal)

    def remove(self) -> None:
        """Remove all companions. Raises OSError."""
        for suffix in COMPANIONS:
            companion(self.path, suffix).unlink(missing_ok=True)


def check_companions(path: Path, *, is_new: bool) -> None:
    """Check that all companions of a recording in a private folder belong to this user.

    Raises RecordingError and OSError.
    """
    for suffix in COMPANIONS:
        if os.path.lexists(companion(path, suffix)):
            if is_new:
                raise refused(path, suffix, "already exists")
            os.close(_adopt(path, suffix))


def refused(path: Path, suffix: str, problem: str, hint: str = "") -> RecordingError:
    """Return the error for a companion that prevents writing a recording."""
    name = f"{path.name}{suffix}"
    return RecordingError(
        path,
        f"{name} {problem}; nothing was written",
        hint or f"choose another name, or remove {name} if nothing needs it",
    )


def _make(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def _adopt(path: Path, suffix: str) -> int:
    beside = companion(path, suffix)
    try:
        status = os.lstat(beside)
    except FileNotFoundError:
        raise refused(path, suffix, "has just disappeared") from None
    if not stat.S_ISREG(status.st_mode):
        raise refused(path, suffix, "is not a regular file")
    if status.st_uid != os.geteuid():
        raise refused(path, suffix, f"belongs to another user ({name_of(status.st_uid)})")
    if status.st_nlink != 1 or others_may_write(beside, status):
        raise refused(path, suffix, "can be written by others")
    if suffix == JOURNAL and status.st_size:
        raise refused(path, suffix, "is left from an interrupted write", UNDO_HINT)
    opened = os.open(beside, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    # SQLite gave it the mode of the recording, which may have been made readable for others.
    with suppress(OSError):
        os.fchmod(opened, 0o600)
    return opened
