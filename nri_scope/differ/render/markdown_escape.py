# SPDX-License-Identifier: Apache-2.0
"""Escape untrusted text for GitHub's Markdown, so that it is shown as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from nri_scope.text.escape import safe

_UNFOLDED_MAX = 20
"""Maximum number of rows of a table that is not folded."""
_HARMLESS = re.compile(r"(?![0-9]+[.)])[A-Za-z0-9(][A-Za-z0-9 ,;()'\u2013\u2192\u00b5.:+-]*\Z")
"""Prose without Markdown syntax, links, mentions and references."""
_LINK = re.compile(r"www\.|https?:", re.IGNORECASE)


def code(text: str) -> str:
    """Return `text` as a code span that is valid in a line and in a table cell; "" for no text."""
    text = safe(text)
    if not text:
        return ""
    if text.strip() == text and not {"`", "|"} & set(text):
        return f"`{text}`"
    # Parsers split a table at every bar first, and differ in the treatment of "\\|". So every
    # character that may have a meaning in Markdown becomes a character reference.
    return f"<code>{''.join(c if c.isalnum() else f'&#{ord(c)};' for c in text)}</code>"


def prose(text: str) -> str:
    """Return a sentence with untrusted quotes: unchanged if harmless, otherwise as code."""
    text = safe(text)
    return text if _HARMLESS.match(text) and not _LINK.search(text) else code(text)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], what: str) -> list[str]:
    """Return a table, folded if it is long. The cells must be escaped already.

    The summary of a folded table is the number of rows and ``what``, as in "25 changes".
    """
    lines = [_row(headings), "|".join(["", *("---" for _ in headings), ""])]
    lines += map(_row, rows)
    count = len(lines) - 2
    return folded(f"{count:,} {what}", lines) if count > _UNFOLDED_MAX else ["", *lines, ""]


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Return lines in a collapsed block. ``summary`` must be trusted text."""
    # GitHub parses the content as HTML unless blank lines surround it.
    return ["", f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def squeezed(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without leading and repeated blank lines."""
    blank = True
    for line in lines:
        if line or not blank:
            yield line
        blank = not line


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
