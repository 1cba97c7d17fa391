# SPDX-License-Identifier: Apache-2.0
"""Results of checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Status(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    """NRI works, but something about it may be surprising."""
    FAIL = "fail"
    """This keeps NRI, or a part of it, from working."""
    UNKNOWN = "unknown"
    """The check could not be made."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. A name can occur more than once: one per file, table or plugin concerned."""

    name: str
    """Stable name for scripts: the subject, e.g. ``socket`` or ``containerd-enabled``."""
    status: Status
    detail: str
    fix: str = ""
    """The remedy; empty if none is needed."""


def ok(name: str, detail: str) -> Check:
    """Return a check that passed."""
    return Check(name, Status.OK, detail)


def warn(name: str, detail: str, fix: str = "") -> Check:
    """Return a check that found something worth knowing."""
    return Check(name, Status.WARN, detail, fix)


def fail(name: str, detail: str, fix: str = "") -> Check:
    """Return a check that found a reason why NRI does not work."""
    return Check(name, Status.FAIL, detail, fix)


def unknown(name: str, detail: str, fix: str = "") -> Check:
    """Return a check that could not be made."""
    return Check(name, Status.UNKNOWN, detail, fix)


def softened(checks: Iterable[Check], because: str) -> list[Check]:
    """Return failures as warnings, with the reason: they are true but have no effect here."""
    return [
        replace(check, status=Status.WARN, detail=f"{check.detail} ({because})")
        if check.status is Status.FAIL
        else check
        for check in checks
    ]


def exit_status(checks: Iterable[Check]) -> int:
    """Return 1 when a check failed, else 0."""
    return int(any(check.status is Status.FAIL for check in checks))
