# SPDX-License-Identifier: Apache-2.0
"""Convert values from peers to values that SQLite can store and readers accept."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
"""Range of SQLite's integers."""

NAME_MAX = 1_024
"""Maximum number of characters of a name, id or version. Kubernetes has names of at most 253, ids
have 64, the name of a plugin's file 255.
"""
WORDS_MAX = 16 << 10
"""Maximum number of characters of an error message, a reason or a note."""
LIST_MAX = 64 << 10
"""Maximum number of characters of a JSON list: paths that an event changed, or their owners."""
ITEMS_MAX = 2_000
"""Maximum number of members of such a list."""

_NOTE_ROOM = 64
"""Maximum number of characters of the remark about a cut."""


def storable(text: str, most: int = WORDS_MAX) -> str:
    """Return ``text`` in a form that SQLite can store, with at most ``most`` characters.

    Lone surrogates, which have no UTF-8, become ``\\udc80`` and the like. A cut text states its
    original length and a hash of the whole, so that different texts stay different.
    """
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= most:
        return text
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{text[: most - _NOTE_ROOM]}… ({len(text):,} characters, {digest})"


def named(text: str) -> str:
    """Return a name, id or version, as `storable`."""
    # Called for every name of every event.
    return text if len(text) <= NAME_MAX and text.isascii() else storable(text, NAME_MAX)


def listed(texts: Sequence[str]) -> list[str]:
    """Return the members of a list that are stored; the last one counts the omitted ones."""
    kept: list[str] = []
    room = LIST_MAX - _NOTE_ROOM
    for number, text in enumerate(texts, 1):
        short = storable(text, NAME_MAX)
        if number == len(texts):
            # If all the rest fits, no remark is needed; a list that was cut before already has one.
            room += _NOTE_ROOM
        # In JSON a non-printable character may take six.
        room -= len(short) if short.isprintable() else 6 * len(short)
        room -= 3 + short.count('"') + short.count("\\")
        # A list that was cut before has one member more.
        if room < 0 or len(kept) == ITEMS_MAX < len(texts) - 1:
            return [*kept, more(len(texts) - len(kept))]
        kept.append(short)
    return kept


def more(count: int) -> str:
    """Return the last member of a list from which ``count`` members were omitted."""
    return f"… and {count} more"


def characters_sql(column: str) -> str:
    """Return an SQL expression for the number of characters in a text column.

    SQLite's own ``length`` ends at a NUL. If a text has one, the result is at least a quarter of
    its bytes.
    """
    return f"max(length({column}), length(CAST({column} AS BLOB)) / 4)"


def _size_sql(column: str) -> str:
    """Return an SQL expression for the size of a text in words."""
    content = f"CAST({column} AS BLOB)"
    return (
        f"CASE WHEN instr({content}, x'00') THEN printf('%,d bytes', length({content})) "
        f"ELSE printf('%,d characters', length({column})) END"
    )


def cut_sql(column: str, most: int) -> str:
    """Return an SQL expression for a text column that readers get cut to ``most`` characters.

    So Python never gets the whole text, regardless of its length in the file.
    """
    return (
        f"CASE WHEN {characters_sql(column)} > {most} "
        f"THEN substr({column}, 1, {most - _NOTE_ROOM}) || '… (' || {_size_sql(column)} || ')' "
        f"ELSE {column} END"
    )


def list_sql(column: str) -> str:
    """Return an SQL expression for a JSON list; an overlong one is replaced by a remark."""
    return (
        f"CASE WHEN {characters_sql(column)} > {LIST_MAX} "
        f"THEN '[\"… (' || {_size_sql(column)} || ')\"]' ELSE coalesce({column}, '[]') END"
    )


def int64(number: int) -> int:
    """Return ``number``, or the nearest 64-bit integer."""
    return min(max(number, LOWEST), HIGHEST)
