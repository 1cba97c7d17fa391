# SPDX-License-Identifier: Apache-2.0
"""Messages of the commands that write files for sharing: progress, warnings, counts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from nri_scope.recording.display import many

from .params import say

if TYPE_CHECKING:
    from pathlib import Path

    from nri_scope.filter import Filter
    from nri_scope.recording.reader import Recording

_PROGRESS_EVENTS_MIN = 20_000
"""Minimum number of events for which progress is shown."""


@contextmanager
def progress(recording: Recording, action: str) -> Iterator[Callable[[float], None] | None]:
    """Yield a callback for the completed share, 0 to 1; None if progress is not shown."""
    from nri_scope.recording import lookup

    first, last = lookup.event_range(recording)
    if last - first < _PROGRESS_EVENTS_MIN or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return

    def show(share: float) -> None:
        click.echo(f"\r{action}: {share:4.0%}", nl=False, err=True)

    try:
        yield show
    finally:
        click.echo("\r\x1b[K", nl=False, err=True)


def resolved_where(file: Path, where: Filter | None) -> Filter | None:
    """Return ``where`` with the times that it means in the recording, and with the matches on
    changes and problems that only several events show.
    """
    if where is None:
        return None
    from nri_scope.recording.event_times import within
    from nri_scope.recording.reader import Recording
    from nri_scope.survey.foreground import resolved

    with Recording.open(file) as recording, progress(recording, "analysing") as on_share:
        return resolved(recording, within(recording, where), on_share)


def warn_unreadable_marks(recording: Recording) -> None:
    """Warn if the marks beside a recording cannot be read and were not copied."""
    from nri_scope.recording.marks import sidecar

    try:
        sidecar.read(sidecar.path_of(recording.path))
    except sidecar.Unusable as error:
        say(f"{error}; its marks were not copied")


def as_recorded(*, redacted: bool) -> str:
    """Return a remark on the values of an output to which no redaction was applied.

    ``redacted``: the recording had been redacted before.
    """
    if redacted:
        return "values as in the recording, which is redacted"
    return "values as in the recording; --redact removes secrets"


def replacement_counts(by_rule: Mapping[str, int], *, before: bool) -> str:
    """Return the counts as text, such as ``63 values replaced (42 env-values, …)``.

    ``before``: the recording had been redacted before.
    """
    total = sum(by_rule.values())
    if not total and before:
        return "already redacted: no other values to replace were found"
    if not total:
        return "no values to replace were found"
    rules = sorted(by_rule.items(), key=lambda one: (-one[1], one[0]))
    listed = ", ".join(f"{values:,} {rule}" for rule, values in rules)
    return f"{many(total, 'value')} replaced ({listed})"
