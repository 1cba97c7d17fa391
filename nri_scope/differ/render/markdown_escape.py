# SPDX-License-Identifier: Apache-2.0
"""Escape untrusted text for GitHub's Markdown, so that it is shown as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from nri_scope.text.escape import safe

_FOLDED = 20
"""Number of rows beyond which a table is folded away."""
_HARMLESS = re.compile(r"(?![0-9]+[.)])[A-Za-z0-9(][A-Za-z0-9 ,;()'\u2013\u2192\u00b5.:+-]*\Z")
"""Prose that cannot contain a list, a mark, a link, a mention or a reference."""
_LINK = re.compile(r"www\.|https?:", re.IGNORECASE)


def code(text: str) -> str:
    """Return `text` as a code span, valid in a line or a table's cell; "" for no text."""
    text = safe(text)
    if not text:
        return ""
    if text.strip() == text and not {"`", "|"} & set(text):
        return f"`{text}`"
    # A table is split at every bar before anything else is parsed, and parsers treat a backslash
    # before a bar differently; so no character with a meaning in Markdown is left as it is.
    return f"<code>{''.join(c if c.isalnum() else f'&#{ord(c)};' for c in text)}</code>"


def prose(text: str) -> str:
    """Return a sentence that may quote untrusted text: unchanged if harmless, else as code."""
    text = safe(text)
    return text if _HARMLESS.match(text) and not _LINK.search(text) else code(text)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], what: str) -> list[str]:
    """Return a table whose cells are Markdown already; a long one is folded away.

    The summary of a folded table is its length and ``what``, as in "25 changes".
    """
    lines = [_row(headings), "|".join(["", *("---" for _ in headings), ""])]
    lines += map(_row, rows)
    count = len(lines) - 2
    return folded(f"{count:,} {what}", lines) if count > _FOLDED else ["", *lines, ""]


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Return lines that are shown on a click. ``summary`` must be trusted text."""
    # Without the blank lines GitHub would take the content for HTML.
    return ["", f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def squeezed(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without consecutive blank ones and without blank ones at the beginning."""
    blank = True
    for line in lines:
        if line or not blank:
            yield line
        blank = not line


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
