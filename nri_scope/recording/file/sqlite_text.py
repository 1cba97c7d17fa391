# SPDX-License-Identifier: Apache-2.0
"""Convert values received from peers to values that SQLite can store and readers accept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
"""Range of SQLite integers."""

NAME_MAX = 1_024
"""Maximum number of characters of a name, id or version. Kubernetes names have at most 253, ids 64
and file names of plugins 255.
"""
WORDS_MAX = 16 << 10
"""Maximum number of characters of an error message, a reason or a note."""
LIST_MAX = 64 << 10
"""Maximum number of characters of a JSON list: the paths that an event changed, or the owners."""
ITEMS_MAX = 2_000
"""Maximum number of members of such a list."""

_REMARK_MAX = 64
"""Maximum number of characters of the remark at the end of a truncated text."""


def storable(text: str, most: int = WORDS_MAX) -> str:
    """Return ``text`` in a form that SQLite can store, with at most ``most`` characters.

    Lone surrogates, which UTF-8 cannot encode, are escaped as ``\\udc80``. A truncated text ends
    with its original length and a hash of the whole, so that different texts stay distinct.
    """
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= most:
        return text
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{text[: most - _REMARK_MAX]}… ({len(text):,} characters, {digest})"


def named(text: str) -> str:
    """Return a name, id or version in the form of `storable`."""
    # The fast path matters: this runs for every name of every event.
    return text if len(text) <= NAME_MAX and text.isascii() else storable(text, NAME_MAX)


def number_list(numbers: Iterable[int]) -> str:
    """Return numbers as a parenthesized SQL list, for the operator IN."""
    return f"({', '.join(str(int(number)) for number in numbers)})"


def listed(texts: Sequence[str]) -> list[str]:
    """Return the members of ``texts`` to store, and a remark if others were omitted."""
    shortened: list[str] = []
    budget = LIST_MAX - _REMARK_MAX
    for number, text in enumerate(texts, 1):
        short = storable(text, NAME_MAX)
        if number == len(texts):
            # The last member needs no space for a remark after it.
            budget += _REMARK_MAX
        # JSON may escape a non-printable character as six.
        budget -= len(short) if short.isprintable() else 6 * len(short)
        budget -= 3 + short.count('"') + short.count("\\")
        # A list that was shortened before has one member more, its remark.
        if budget < 0 or len(shortened) == ITEMS_MAX < len(texts) - 1:
            return [*shortened, more(len(texts) - len(shortened))]
        shortened.append(short)
    return shortened


def more(count: int) -> str:
    """Return the remark at the end of a list from which ``count`` members were omitted."""
    return f"… and {count} more"


def characters_sql(column: str) -> str:
    """Return an SQL expression for the number of characters in a text column.

    SQLite's ``length`` stops at a NUL; for a text with one, the result is at least a quarter of its
    bytes.
    """
    return f"max(length({column}), length(CAST({column} AS BLOB)) / 4)"


def _size_sql(column: str) -> str:
    """Return an SQL expression for a text's size: ``1,234 characters``, or bytes with a NUL."""
    content = f"CAST({column} AS BLOB)"
    return (
        f"CASE WHEN instr({content}, x'00') THEN printf('%,d bytes', length({content})) "
        f"ELSE printf('%,d characters', length({column})) END"
    )


def cut_sql(column: str, most: int) -> str:
    """Return an SQL expression for a text column, truncated to ``most`` characters.

    SQLite truncates it, so that an overlong text of an untrusted file never reaches Python.
    """
    return (
        f"CASE WHEN {characters_sql(column)} > {most} "
        f"THEN substr({column}, 1, {most - _REMARK_MAX}) || '… (' || {_size_sql(column)} || ')' "
        f"ELSE {column} END"
    )


def list_sql(column: str) -> str:
    """Return an SQL expression for a JSON list, with a remark in place of an overlong one."""
    return (
        f"CASE WHEN {characters_sql(column)} > {LIST_MAX} "
        f"THEN '[\"… (' || {_size_sql(column)} || ')\"]' ELSE coalesce({column}, '[]') END"
    )


def int64(number: int) -> int:
    """Return ``number``, or the nearest 64-bit integer."""
    return min(max(number, LOWEST), HIGHEST)
