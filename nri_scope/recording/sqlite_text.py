# SPDX-License-Identifier: Apache-2.0
"""Values as SQLite can hold them and readers will take them, whatever a peer sent."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
"""What SQLite can hold of whole numbers."""

NAME_MAX = 1_024
"""Characters of a name, id or version. Kubernetes has names of at most 253, ids have 64, the name
of a plugin's file 255."""
WORDS_MAX = 16 << 10
"""Characters of an error's words, a reason or a note."""
LIST_MAX = 64 << 10
"""Characters of a JSON list: the paths that an event changed, and their owners."""
ITEMS_MAX = 2_000
"""Members of such a list."""

_NOTE_ROOM = 64
"""Characters that the remark about what was cut may take."""


def storable(text: str, most: int = WORDS_MAX) -> str:
    """Return ``text`` as SQLite can hold it, with at most ``most`` characters.

    Lone surrogates, which have no UTF-8, become ``\\udc80`` and the like. What was cut says how
    long it was, and has a hash of the whole, so that different texts stay different.
    """
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= most:
        return text
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{text[: most - _NOTE_ROOM]}… ({len(text)} characters, {digest})"


def named(text: str) -> str:
    """Return a name, id or version, as `storable`."""
    # Asked for every name of every event.
    return text if len(text) <= NAME_MAX and text.isascii() else storable(text, NAME_MAX)


def listed(texts: Sequence[str]) -> list[str]:
    """Return the members of a list that are stored; the last one counts those that are not."""
    kept: list[str] = []
    room = LIST_MAX - _NOTE_ROOM
    for number, text in enumerate(texts, 1):
        short = storable(text, NAME_MAX)
        if number == len(texts):
            # No note is needed for the rest; a list that was cut before has its note already.
            room += _NOTE_ROOM
        # In JSON a character that cannot be printed may take six.
        room -= len(short) if short.isprintable() else 6 * len(short)
        room -= 3 + short.count('"') + short.count("\\")
        # A list that was cut before has the last one more.
        if room < 0 or len(kept) == ITEMS_MAX < len(texts) - 1:
            return [*kept, more(len(texts) - len(kept))]
        kept.append(short)
    return kept


def more(count: int) -> str:
    """Return the last member of a list that has so many others that are not in it."""
    return f"… and {count} more"


def cut_sql(column: str, most: int) -> str:
    """Return an SQL expression for a text column of which readers get at most ``most`` characters.

    Whatever the file has there, Python never gets the whole.
    """
    return (
        f"CASE WHEN length({column}) > {most} THEN substr({column}, 1, {most - _NOTE_ROOM}) "
        f"|| '… (' || length({column}) || ' characters)' ELSE {column} END"
    )


def list_sql(column: str) -> str:
    """Return an SQL expression for a JSON list; one that is too long has only words about that."""
    return (
        f"CASE WHEN length({column}) > {LIST_MAX} THEN '[\"… (' || length({column}) "
        f"|| ' characters)\"]' ELSE coalesce({column}, '[]') END"
    )


def int64(number: int) -> int:
    """Return ``number``, or the nearest that has 64 bits."""
    return min(max(number, LOWEST), HIGHEST)
