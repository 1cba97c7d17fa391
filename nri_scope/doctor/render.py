# SPDX-License-Identifier: Apache-2.0
"""Checks as text and as JSON."""

from __future__ import annotations

import json
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from nri_scope.text.escape import safe
from nri_scope.text.styled_text import Span, Style, StyledText

from .check import Check, Status

SCHEMA_VERSION = 1

_SYMBOLS = {Status.OK: "✓", Status.WARN: "!", Status.FAIL: "✗", Status.UNKNOWN: "?"}
_ASCII = {Status.OK: "+", Status.WARN: "!", Status.FAIL: "x", Status.UNKNOWN: "?"}
_STYLES = {
    Status.OK: Style.GOOD,
    Status.WARN: Style.WARN,
    Status.FAIL: Style.BAD,
    Status.UNKNOWN: Style.NOTE,
}
_INDENT = " " * 10


def as_json(checks: Iterable[Check]) -> str:
    """Return a JSON object with ``schema_version`` and the list ``checks``."""
    items = [asdict(check) for check in checks]
    return json.dumps({"schema_version": SCHEMA_VERSION, "checks": items}, indent=2)


def as_text(
    checks: Sequence[Check],
    *,
    width: int | None = 80,
    plain: bool = False,
) -> Iterator[str]:
    """Yield one or more lines for each check, and a summary.

    ``width`` is in columns; None disables wrapping: one line for a check, and one for its fix. With
    ``plain``, symbols are ASCII.
    """
    symbols = _ASCII if plain else _SYMBOLS
    for check in checks:
        head = Span(f"{symbols[check.status]} {check.status.value:<7}", _STYLES[check.status])
        body = _wrap(f"{check.name}: {check.detail}", width)
        yield StyledText(head, f" {body[0]}")
        if check.fix:
            body += _wrap(f"fix: {check.fix}", width, hanging="     ")
        yield from (_INDENT + line for line in body[1:])
        # Not wrapped, for copying.
        yield from (f"{_INDENT}  {safe(line)}" for line in check.config.splitlines())
    yield ""
    yield _summary(checks)


def _wrap(text: str, width: int | None, hanging: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        sys.maxsize if width is None else max(width - len(_INDENT), 30),
        subsequent_indent=hanging,
        break_long_words=False,  # keep paths whole, for copying
        break_on_hyphens=False,
    ) or [""]


def _summary(checks: Sequence[Check]) -> str:
    counts = Counter(check.status for check in checks)
    return ", ".join(
        f"{counts[status]} {label}"
        for status, label in (
            (Status.OK, "ok"),
            (Status.WARN, "warned"),
            (Status.FAIL, "failed"),
            (Status.UNKNOWN, "unknown"),
        )
        if counts[status] or status in (Status.OK, Status.FAIL)
    )
