# SPDX-License-Identifier: Apache-2.0
"""Checks and their status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Status(StrEnum):
    """Result of a check."""

    OK = "ok"
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
    status: Status
    detail: str
    fix: str = ""
    """What to do; "" if nothing."""
    config: str = ""
    """Lines for the configuration file that `fix` names; "" for none."""


def ok(name: str, detail: str) -> Check:
    """Return a check that passed."""
    return Check(name, Status.OK, detail)


def warn(name: str, detail: str, fix: str = "", config: str = "") -> Check:
    """Return a check with a warning."""
    return Check(name, Status.WARN, detail, fix, config)


def fail(name: str, detail: str, fix: str = "", config: str = "") -> Check:
    """Return a check that failed."""
    return Check(name, Status.FAIL, detail, fix, config)


def unknown(name: str, detail: str, fix: str = "", config: str = "") -> Check:
    """Return a check that could not be made."""
    return Check(name, Status.UNKNOWN, detail, fix, config)


def as_warnings(checks: Iterable[Check], reason: str) -> list[Check]:
    """Return ``checks`` with failures as warnings, for ``reason``: they have no effect now."""
    return [
        replace(check, status=Status.WARN, detail=f"{check.detail} ({reason})")
        if check.status is Status.FAIL
        else check
        for check in checks
    ]


def exit_status(checks: Iterable[Check]) -> int:
    """Return 1 when a check failed, else 0."""
    return int(any(check.status is Status.FAIL for check in checks))
