# SPDX-License-Identifier: Apache-2.0
"""Checks and their status, and their output."""

from __future__ import annotations

import json
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from nri_scope.process.signals import root_hint
from nri_scope.text.escape import safe
from nri_scope.text.styled_text import Span, Style, StyledText


class Health(StrEnum):
    """Result of a check."""

    OK = "ok"
    NOTE = "note"
    """NRI works, but this version of the runtime has a known bug."""
    WARN = "warn"
    """NRI works, but perhaps not as intended."""
    FAIL = "fail"
    """NRI, or a part of it, does not work because of this."""
    UNKNOWN = "unknown"
    """The check could not be made."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. Several checks may have one name, for example one for each plugin."""

    name: str
    """Stable name for scripts: the subject, e.g. ``socket`` or ``containerd-enabled``."""
    status: Health
    detail: str
    fix: str = ""
    """What to do; "" if nothing."""
    config: str = ""
    """Lines for the configuration file that `fix` names; "" for none."""


def ok(name: str, detail: str) -> Check:
    """Return a check that passed."""
    return Check(name, Health.OK, detail)


def warn(name: str, detail: str, fix: str = "", config: str = "") -> Check:
    """Return a check with a warning."""
    return Check(name, Health.WARN, detail, fix, config)


def fail(name: str, detail: str, fix: str = "", config: str = "") -> Check:
    """Return a check that failed."""
    return Check(name, Health.FAIL, detail, fix, config)


def unknown(name: str, detail: str, fix: str = "", config: str = "") -> Check:
    """Return a check that could not be made."""
    return Check(name, Health.UNKNOWN, detail, fix, config)


def not_permitted(name: str, detail: str) -> Check:
    """Return a check that could not be made without the permissions of root."""
    return unknown(name, detail, root_hint("run doctor as root"))


def unreadable(name: str, path: str, problem: str) -> Check:
    """Return a check of a file or folder that could not be read because of ``problem``."""
    make = not_permitted if problem == "permission denied" else unknown
    return make(name, f"{path}: {problem}")


def as_warnings(checks: Iterable[Check], reason: str) -> list[Check]:
    """Return ``checks`` with failures as warnings, for ``reason``: they have no effect now."""
    return [
        replace(check, status=Health.WARN, detail=f"{check.detail} ({reason})")
        if check.status is Health.FAIL
        else check
        for check in checks
    ]


def exit_status(checks: Iterable[Check]) -> int:
    """Return 1 when a check failed, else 0."""
    return int(any(check.status is Health.FAIL for check in checks))


SCHEMA_VERSION = 1

_SYMBOLS = {
    Health.OK: "✓",
    Health.NOTE: "·",
    Health.WARN: "!",
    Health.FAIL: "✗",
    Health.UNKNOWN: "?",
}
_ASCII = _SYMBOLS | {Health.OK: "+", Health.NOTE: "-", Health.FAIL: "x"}
_STYLES = {
    Health.OK: Style.GOOD,
    Health.NOTE: Style.NOTE,
    Health.WARN: Style.WARN,
    Health.FAIL: Style.BAD,
    Health.UNKNOWN: Style.NOTE,
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
            (Health.OK, "ok"),
            (Health.NOTE, "noted"),
            (Health.WARN, "warned"),
            (Health.FAIL, "failed"),
            (Health.UNKNOWN, "unknown"),
        )
        if counts[status] or status in (Health.OK, Health.FAIL)
    )
