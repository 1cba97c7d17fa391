# SPDX-License-Identifier: Apache-2.0
"""What went wrong with a recording's file, in words that help."""

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
    sqlite3.SQLITE_NOTADB: "it is no SQLite database",
    sqlite3.SQLITE_NOMEM: "not enough memory",
    sqlite3.SQLITE_PROTOCOL: LOCKED,
    sqlite3.SQLITE_TOOBIG: "a value in it is too large",
}


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code; SQLITE_ERROR where the module itself complains."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def is_damage(error: sqlite3.Error) -> bool:
    """Whether a file's content is at fault."""
    # What is no UTF-8 is found by the module, not by SQLite, so it has no code.
    no_text = not hasattr(error, "sqlite_errorcode") and "decode" in str(error)
    return no_text or code_of(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def in_words(error: sqlite3.Error | OSError) -> str:
    """One phrase about the file: "the disk is full"."""
    if isinstance(error, OSError):
        if error.errno in (errno.EACCES, errno.EPERM):
            return "permission denied"
        return (error.strerror or str(error)).lower()
    words = _WORDS.get(code_of(error))
    if words is not None:
        return words
    name = str(getattr(error, "sqlite_errorname", ""))
    return f"{error} ({name})" if name else str(error)
