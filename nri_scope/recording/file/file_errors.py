# SPDX-License-Identifier: Apache-2.0
"""Describe errors of a recording's file, with advice for the user."""

from __future__ import annotations

import errno
import sqlite3

from nri_scope.errors import reason_of
from nri_scope.process.signals import root_hint

LOCKED = "it is locked by another program"

_WORDS = {
    sqlite3.SQLITE_PERM: "permission denied",
    sqlite3.SQLITE_BUSY: LOCKED,
    sqlite3.SQLITE_LOCKED: LOCKED,
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CORRUPT: "it is damaged",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database",
    sqlite3.SQLITE_NOMEM: "not enough memory",
    sqlite3.SQLITE_PROTOCOL: LOCKED,
    sqlite3.SQLITE_TOOBIG: "a value in it is too large",
}
_OS_WORDS = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ELOOP: "a symbolic link in its path leads back to itself",
    errno.ENOTDIR: "a part of its path is a file, not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENOSPC: "the disk is full",
}

_FREE_SPACE = "free some space, or choose another disk"
_OTHER_FOLDER = "choose another folder"
_READING_HINTS = {
    LOCKED: "try again when that program is done",
    _OS_WORDS[errno.ELOOP]: "name the file itself",
    _OS_WORDS[errno.ENOTDIR]: "check the path",
    "file name too long": "check the path",
    "a value in it is too large": "nri-scope writes no value of that size: do not trust it",
}
_WRITING_HINTS = {
    LOCKED: "end that program, or choose another name",
    "it is read-only": _OTHER_FOLDER,
    "read-only file system": _OTHER_FOLDER,
    "the disk is full": _FREE_SPACE,
    "disk quota exceeded": _FREE_SPACE,
    "file name too long": "choose a shorter one",
}


TOO_LARGE = "damaged: a value in it is too large"


def code_of(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; SQLITE_ERROR for errors of Python's sqlite3 module."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether damaged content caused the error."""
    # Python detects invalid UTF-8, so that error has no SQLite code.
    is_invalid_text = not hasattr(error, "sqlite_errorcode") and "decode" in str(error)
    return is_invalid_text or code_of(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def error_words(error: sqlite3.Error | OSError) -> str:
    """Return a phrase for an error of a file, such as "the disk is full"."""
    if isinstance(error, OSError):
        return _OS_WORDS.get(error.errno or 0) or reason_of(error)
    phrase = _WORDS.get(code_of(error))
    if phrase is not None:
        return phrase
    name = str(getattr(error, "sqlite_errorname", ""))
    return f"{error} ({name})" if name else str(error)


def reading_hint(problem: str) -> str:
    """Return advice for a file that cannot be read; ``problem``: from `error_words`."""
    if problem == "permission denied":
        return root_hint("only its owner may read a recording: run as that user, or as root")
    return _READING_HINTS.get(problem, "try it with a copy of the file")


def writing_hint(problem: str) -> str:
    """Return advice for a file that cannot be written; ``problem``: from `error_words`."""
    if problem == "permission denied":
        return root_hint("choose another place, or run as root")
    return _WRITING_HINTS.get(problem, "choose another file")
