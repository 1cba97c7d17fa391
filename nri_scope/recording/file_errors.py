# SPDX-License-Identifier: Apache-2.0
"""Describe errors of a recording's file, and what a user can do about them."""

from __future__ import annotations

import errno
import sqlite3

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

_ROOM = "make room, or choose another disk"
_PLACE = "choose another folder"
_READING = {
    "permission denied": "only its owner may read a recording: run as that user, or as root",
    LOCKED: "try again when that program is done",
    _OS_WORDS[errno.ELOOP]: "name the file itself",
    _OS_WORDS[errno.ENOTDIR]: "check the path",
    "file name too long": "check the path",
    "a value in it is too large": "nri-scope writes no value of that size: do not trust it",
}
_WRITING = {
    "permission denied": "choose another place, or run as root",
    LOCKED: "end that program, or choose another name",
    "it is read-only": _PLACE,
    "read-only file system": _PLACE,
    "the disk is full": _ROOM,
    "disk quota exceeded": _ROOM,
    "file name too long": "choose a shorter one",
}


def code_of(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; SQLITE_ERROR for an error of Python's own."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether damaged content caused the error."""
    # Invalid UTF-8 is found by Python, not by SQLite, so that error has no code.
    no_text = not hasattr(error, "sqlite_errorcode") and "decode" in str(error)
    return no_text or code_of(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def error_words(error: sqlite3.Error | OSError) -> str:
    """Describe the error in one phrase about the file: "the disk is full"."""
    if isinstance(error, OSError):
        words = _OS_WORDS.get(error.errno or 0)
        return words or (error.strerror or str(error)).lower()
    words = _WORDS.get(code_of(error))
    if words is not None:
        return words
    name = str(getattr(error, "sqlite_errorname", ""))
    return f"{error} ({name})" if name else str(error)


def reading_hint(words: str) -> str:
    """Return advice on reading a file; ``words`` is its problem as `error_words` describes it."""
    return _READING.get(words, "try it with a copy of the file")


def writing_hint(words: str) -> str:
    """Return advice on writing a file; ``words`` is its problem as `error_words` describes it."""
    return _WRITING.get(words, "choose another file")
