# SPDX-License-Identifier: Apache-2.0
"""Read and write small files whose paths other users may have replaced."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from .trusted_location import trusted_users

_MAX_LINKS = 40
_WRITE_FLAGS = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def read_regular(path: Path, most: int) -> bytes:
    """Return up to ``most`` bytes of a file, without blocking. Raises OSError, also for a path that
    is not a regular file.
    """
    descriptor = _regular(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), path)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)


def write_private(path: Path, content: bytes, *, only_new: bool = False) -> None:
    """Create a file that only its owner can read, or overwrite this user's file, keeping its mode.

    Raises OSError, also if the path is not a regular file, belongs to another user, or exists
    despite ``only_new``.
    """
    if not only_new:
        path = without_links(path)
    try:
        descriptor = _trusted(os.open(path, _WRITE_FLAGS | os.O_CREAT | os.O_EXCL, 0o600), path)
    except FileExistsError:
        if only_new:
            raise
        descriptor = _trusted(os.open(path, _WRITE_FLAGS), path)
    with os.fdopen(descriptor, "wb") as file:
        file.truncate()
        file.write(content)


def check_private(path: Path) -> None:
    """Raise the OSError of `write_private`, as far as it is predictable; modify nothing."""
    path = without_links(path)
    try:
        os.close(_trusted(os.open(path, _WRITE_FLAGS), path))
    except FileNotFoundError:
        check_folder(path.parent)


def check_folder(folder: Path) -> None:
    """Raise OSError if cannot create a file in a folder."""
    if not stat.S_ISDIR(folder.stat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def without_links(path: Path) -> Path:
    """Return ``path``, following it while it is a symbolic link; the target need not exist.

    Raises PermissionError for a link of another user, which could lead to any file. Other errors
    are ignored, as the next use of the path raises them.
    """
    for _ in range(_MAX_LINKS):
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


def _trusted(descriptor: int, path: Path) -> int:
    """Return the descriptor of a regular file of a trusted user; close others and raise OSError."""
    descriptor = _regular(descriptor, path)
    if os.fstat(descriptor).st_uid in trusted_users():
        return descriptor
    os.close(descriptor)
    raise _of_another_user(path)


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
