# SPDX-License-Identifier: Apache-2.0
"""Steps of replacing an installed file such that an interruption leaves a complete one."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

from nri_scope.errors import UsageError

_LABEL = "security.selinux"

LOCK_WAIT_S = 5.0
"""Maximum time in seconds to wait for another process that wraps or unwraps a plugin in the same
folder, which takes less than one second."""


def write_file(path: Path, data: bytes, mode: int) -> None:
    """Write a file atomically: under its name, it is never incomplete."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def sync_folders(*folders: Path) -> None:
    """Sync folders in this order, so that after a power failure no later step is on disk alone."""
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def copy_label(path: Path, original: Path) -> None:
    """Copy the SELinux label of a file, if it has one."""
    # Some systems have no labels.
    with contextlib.suppress(OSError):
        os.setxattr(path, _LABEL, os.getxattr(original, _LABEL))


@contextlib.contextmanager
def locked(folder: Path, missing: UsageError) -> Iterator[None]:
    """Lock a folder against other processes that replace files in it.

    The lock is on the folder itself, as the folder must not contain a lock file. ``missing`` is
    raised if there is no such folder.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise missing from None
    try:
        deadline = monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() > deadline:
                    raise UsageError(
                        f"{folder} is locked by another process, maybe by another nri-scope",
                        "try again later",
                    ) from None
                sleep(0.02)
            except OSError:
                # Some file systems, such as NFS, cannot lock folders.
                break
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def usage_errors(path: Path) -> Iterator[None]:
    """Translate OSError to UsageError."""
    try:
        yield
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        hint = "run it as root" if isinstance(error, PermissionError) else ""
        raise UsageError(f"{error.filename or path}: {words}", hint) from error
