# SPDX-License-Identifier: Apache-2.0
"""Decide where SQLite may open a recording by its name, and use small files in untrusted folders.

SQLite opens a recording's companions (``-wal``, ``-shm``, ``-journal``) by name, at unpredictable
times, and acts on their content: it writes to them, restores pages from them and deletes files that
they name. So a path is passed to SQLite only if no other user can create its companions.

Trusted users are the current user and root; under sudo also the calling user, who could run any
command as root anyway. In a container, user ids without a mapping are untrusted.
"""

from __future__ import annotations

import enum
import errno
import fcntl
import grp
import os
import pwd
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from nri_scope.errors import RecordingError, UsageError

_MAX_LINKS = 40
_WRITE_FLAGS = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

WAL, SHM, JOURNAL = "-wal", "-shm", "-journal"
COMPANIONS = (WAL, SHM, JOURNAL)
UNDO_HINT = (
    "only if you trust both files, open the recording once with sqlite3, which undoes the write "
    "and deletes the files that the journal names"
)
"""Hint for a recording with the journal of an interrupted write."""
_ACL = "system.posix_acl_access"
_RETRY_SECONDS = 0.01
"""Pause between attempts to lock a file; longer than others take to check a lock."""


class FolderAccess(enum.Enum):
    """Access of other users to a folder with this user's files."""

    PRIVATE = "private"
    """Other users cannot add, remove or rename files."""
    STICKY = "sticky"
    """Other users can add files, but only remove and rename their own, as in /tmp."""
    SHARED = "shared"
    """Other users can replace any file."""


class FolderFinding(NamedTuple):
    """Result of `folder_access`; ``problem`` is the reason for SHARED, else ""."""

    access: FolderAccess
    problem: str


def trusted_users() -> frozenset[int]:
    """Return the ids of the users who are trusted like the current one."""
    me = os.geteuid()
    caller = os.environ.get("SUDO_UID", "") if me == 0 else ""
    return frozenset({0, me, *([int(caller)] if caller.isascii() and caller.isdigit() else [])})


def folder_access(folder: Path) -> FolderFinding:
    """Return the access of other users to ``folder``, an absolute path without symbolic links.

    Parent folders are checked too, as renaming one of them replaces all files below it. Raises
    OSError.
    """
    users = trusted_users()
    access = FolderAccess.PRIVATE
    for parent in (*reversed(folder.parents), folder):
        status = os.lstat(parent)
        access = FolderAccess.PRIVATE
        if not stat.S_ISDIR(status.st_mode):
            number = errno.ELOOP if stat.S_ISLNK(status.st_mode) else errno.ENOTDIR
            raise OSError(number, os.strerror(number), str(parent))
        if status.st_uid not in users:
            return FolderFinding(
                FolderAccess.SHARED, f"{parent} belongs to another user ({name_of(status.st_uid)})"
            )
        if others_may_write(parent, status):
            if not status.st_mode & stat.S_ISVTX:
                return FolderFinding(FolderAccess.SHARED, f"other users can write to {parent}")
            access = FolderAccess.STICKY
    return FolderFinding(access, "")


def private_place(folder: Path, hint: str) -> Path:
    """Return the path of ``folder`` without symbolic links.

    If it is missing, its nearest parent is checked. Raises OSError, and UsageError with ``hint`` if
    other users can replace or, if it exists, write to it.
    """
    folder = Path(os.path.realpath(folder))
    existing = folder
    while status_of(existing) is None:
        existing = existing.parent
    access, problem = folder_access(existing)
    if existing == folder and access is FolderAccess.STICKY:
        problem = f"other users can write to {existing}"
    if problem:
        raise UsageError(f"{folder}: {problem}", hint)
    return folder


def name_of(user: int) -> str:
    """Return a user's name, or ``uid 1234`` if the user has none."""
    try:
        return pwd.getpwuid(user).pw_name
    except (KeyError, OSError):
        return f"uid {user}"


def others_may_write(path: Path, status: os.stat_result) -> bool:
    """Return whether users other than the owner and root may write to a file or folder."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_owners_own_group(path, status)


def _is_owners_own_group(path: Path, status: os.stat_result) -> bool:
    """Return whether the group is the owner's private group, which many systems create."""
    if status.st_uid == 0:
        # Users with root's group as their primary group are not listed as its members.
        return False
    try:
        user, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except (KeyError, OSError):
        return False
    if (user.pw_gid, user.pw_name) != (group.gr_gid, group.gr_name):
        return False
    if not {*group.gr_mem} <= {user.pw_name}:
        return False
    try:
        # With an access control list, the group bits of the mode are the list's mask.
        os.getxattr(path, _ACL, follow_symlinks=False)
    except OSError:
        return True
    return False


def companion(path: Path, suffix: str) -> Path:
    """Return the path of a recording's companion."""
    return path.with_name(f"{path.name}{suffix}")


def status_of(path: Path) -> os.stat_result | None:
    """Return the status of ``path`` without following links; None if it does not exist. Raises
    OSError.
    """
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def is_trusted_file(path: Path, status: os.stat_result) -> bool:
    """Return whether ``path`` is a regular file that only trusted users could have written."""
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_uid in trusted_users()
        and not others_may_write(path, status)
    )


def interrupted_write(path: Path) -> RecordingError:
    """Return the error for a recording that cannot be read until a write to it is undone."""
    return RecordingError(
        path,
        f"a write to it was interrupted: {path.name}{JOURNAL} is beside it",
        UNDO_HINT,
    )


@contextmanager
def opening_by_name(path: Path, *, immutable: bool) -> Iterator[bool]:
    """Yield whether SQLite may open the recording ``path`` by name inside the block.

    ``immutable``: whether the connection opens only the file itself, no companions. ``path`` is
    absolute and without symbolic links. Raises OSError.
    """
    access = folder_access(path.parent).access
    if access is FolderAccess.SHARED:
        yield False
    elif immutable:
        # In a sticky folder, the owner of the file can replace it.
        yield access is FolderAccess.PRIVATE or os.lstat(path).st_uid in trusted_users()
    elif not _are_trusted(path, access):
        yield False
    elif access is FolderAccess.PRIVATE:
        yield True
    else:
        with _names_locked(companion(path, JOURNAL)) as is_locked:
            yield is_locked and _are_trusted(path, access)


def _are_trusted(path: Path, access: FolderAccess) -> bool:
    if os.lstat(path).st_uid not in trusted_users():
        return False
    for suffix in COMPANIONS:
        beside = companion(path, suffix)
        status = status_of(beside)
        if status is None:
            if access is FolderAccess.STICKY:
                # Another user could create this companion at any time.
                return False
        elif not is_trusted_file(beside, status) or (
            access is FolderAccess.STICKY
            and (status.st_nlink != 1 or (suffix == JOURNAL and status.st_size))
        ):
            return False
    return True


@contextmanager
def _names_locked(journal: Path) -> Iterator[bool]:
    """Prevent a recorder from releasing its `ReservedNames` inside the block; yield whether that
    succeeded.
    """
    try:
        opened = os.open(journal, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        is_locked = False
        with suppress(OSError):
            is_locked = try_lock(opened, is_shared=True)
        yield is_locked
    finally:
        os.close(opened)


def try_lock(descriptor: int, seconds: float = 0.0, *, is_shared: bool = False) -> bool:
    """Lock a file or folder; return False if another process has locked it for ``seconds``.

    Raises OSError, also if its file system, such as NFS, cannot lock it.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(_RETRY_SECONDS)
        else:
            return True


def read_regular(path: Path, most: int, *, follows: bool = True) -> bytes:
    """Return up to ``most`` bytes of a file, without blocking. Raises OSError, also for a path that
    is not a regular file, or a link unless it ``follows`` links.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follows else os.O_NOFOLLOW)
    with os.fdopen(_regular(os.open(path, flags), path), "rb") as file:
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


def write_atomically(
    path: Path, content: bytes, mode: int = 0o600, *, only_new: bool = False
) -> None:
    """Create or replace a file, which is never incomplete under its name, and sync it.

    Raises OSError; an existing file then keeps its content. With ``only_new``, raises
    FileExistsError if it exists.
    """
    draft = path.with_name(f".{path.name[:80]}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, _WRITE_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if mode != 0o600:
                os.fchmod(descriptor, mode)
            file.flush()
            os.fsync(descriptor)
        if only_new:
            os.link(draft, path)
        else:
            draft.replace(path)
    finally:
        # It has no such name after a replacement.
        with suppress(OSError):
            draft.unlink()


def check_private(path: Path) -> None:
    """Raise the OSError of `write_private`, as far as it is predictable; modify nothing."""
    path = without_links(path)
    try:
        os.close(_trusted(os.open(path, _WRITE_FLAGS), path))
    except FileNotFoundError:
        check_folder(path.parent)


def check_folder(folder: Path) -> None:
    """Raise OSError if no file can be created in a folder."""
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
