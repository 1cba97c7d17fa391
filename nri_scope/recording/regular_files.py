# SPDX-License-Identifier: Apache-2.0
"""Read and write small files that another user may have replaced by something else."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, most: int) -> bytes:
    """Read up to ``most`` bytes of a file, never waiting. Raises OSError for all but a file."""
    descriptor = _regular(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), path)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)


def write_private(path: Path, content: bytes, *, only_new: bool = False) -> None:
    """Write a file that only its owner can read, or one that is there, whose mode it keeps.

    Raises OSError, also for all but a file, and where there is one for ``only_new``.
    """
    new = os.O_EXCL if only_new else 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | new
    descriptor = _regular(os.open(path, flags, 0o600), path)
    with os.fdopen(descriptor, "wb") as file:
        file.truncate()
        file.write(content)


def _regular(descriptor: int, path: Path) -> int:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "not a regular file", str(path))
