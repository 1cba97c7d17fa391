# SPDX-License-Identifier: Apache-2.0
"""Text of strangers within GitHub's Markdown, where it must not become anything but text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from nri_scope.text.escape import safe

_FOLDED = 20
"""Rows from which on a table is folded away."""
_HARMLESS = re.compile(r"(?![0-9]+[.)])[A-Za-z0-9(][A-Za-z0-9 ,;()'\u2013\u2192\u00b5.:+-]*\Z")
"""Prose in which nothing can be a list, a mark, a link, a mention or a reference."""
_LINK = re.compile(r"www\.|https?:", re.IGNORECASE)


def code(text: str) -> str:
    """`text` as a code span, anywhere in a line, also in a table's cell; nothing for nothing."""
    text = safe(text)
    if not text:
        return ""
    if text.strip() == text and not {"`", "|"} & set(text):
        return f"`{text}`"
    # A table is cut at every bar before anything else is looked at, and how a backslash before it
    # counts differs; so nothing that means something to Markdown is left in it.
    return f"<code>{''.join(c if c.isalnum() else f'&#{ord(c)};' for c in text)}</code>"


def prose(text: str) -> str:
    """A sentence that may quote a stranger: as it is where that is harmless, else as code."""
    text = safe(text)
    return text if _HARMLESS.match(text) and not _LINK.search(text) else code(text)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], what: str) -> list[str]:
    """Rows of cells that are Markdown already; a long table is folded away.

    ``what`` is said of it together with its length, as in "25 changes".
    """
    lines = [_row(headings), "|".join(["", *("---" for _ in headings), ""])]
    lines += map(_row, rows)
    count = len(lines) - 2
    return folded(f"{count:,} {what}", lines) if count > _FOLDED else ["", *lines, ""]


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Lines that a click shows; ``summary`` is ours."""
    # Without the blank lines GitHub would take the inside for HTML.
    return ["", f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def squeezed(lines: Iterable[str]) -> Iterator[str]:
    """Lines with one blank line where there are several, and none in the beginning."""
    blank = True
    for line in lines:
        if line or not blank:
            yield line
        blank = not line


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
