# SPDX-License-Identifier: Apache-2.0
"""Read and write small files that another user may have replaced by something else."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from .trusted_location import trusted_users

_MOST_LINKS = 40


def read_regular(path: Path, most: int) -> bytes:
    """Read up to ``most`` bytes, without waiting. Raises OSError, also if not a regular file."""
    descriptor = _regular(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), path)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)


def write_private(path: Path, content: bytes, *, only_new: bool = False) -> None:
    """Write a file that only its owner can read, or overwrite our own file, keeping its mode.

    Raises OSError, also if the path is not a regular file, is a file or a link of another user, or
    exists despite ``only_new``.
    """
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    if not only_new:
        path = without_links(path)
    try:
        opened = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if only_new:
            raise
        opened = os.open(path, flags)
    descriptor = _regular(opened, path)
    if os.fstat(descriptor).st_uid not in trusted_users():
        os.close(descriptor)
        raise _of_another_user(path)
    with os.fdopen(descriptor, "wb") as file:
        file.truncate()
        file.write(content)


def without_links(path: Path) -> Path:
    """Return the path with links resolved; the file itself need not exist.

    Raises PermissionError for a link of another user, who could have chosen any file. Other
    OSErrors are left to the next use of the path.
    """
    for _ in range(_MOST_LINKS):
        try:
            status = os.lstat(path)
        except OSError:
            return path
        if not stat.S_ISLNK(status.st_mode):
            return path
        if status.st_uid not in trusted_users():
            raise _of_another_user(path)
        path = path.parent / path.readlink()
    return path


def _of_another_user(path: Path) -> PermissionError:
    return PermissionError(errno.EPERM, "it belongs to another user", str(path))


def _regular(descriptor: int, path: Path) -> int:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "not a regular file", str(path))
