# SPDX-License-Identifier: Apache-2.0
"""Recordings as commands use them: redacted or not, with resolved filters, progress and remarks.

The remarks are those of commands that write files for sharing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.api import OpenRecording, redacted
from nri_scope.process.signals import interrupted_by_signals
from nri_scope.recording.reading.reader import Recording
from nri_scope.recording.reading.work_budget import OnShare
from nri_scope.text.quantities import many

from .params import say

if TYPE_CHECKING:
    from nri_scope.filter import Filter
    from nri_scope.share.redaction import Redactor, Rules


@contextmanager
def open_view(file: Path, rules: Rules | None) -> Iterator[OpenRecording]:
    """Open the recording ``file``, with redaction unless ``rules`` is None.

    Raises UsageError, RedactionLeak and RecordingError.
    """
    with open_views([file], rules) as views:
        yield views[0]


@contextmanager
def open_views(files: Sequence[Path], rules: Rules | None) -> Iterator[list[OpenRecording]]:
    """Open several recordings; containers of the same name get the same tokens in all files."""
    with ExitStack() as stack:
        recordings = [stack.enter_context(OpenRecording(file)) for file in files]
        if rules is not None:
            stack.enter_context(interrupted_by_signals())
            with progress(recordings[0].reader, "redacting") as on_progress:
                views = redacted(recordings, rules, on_progress=on_progress, remark=say)
                recordings = stack.enter_context(views)
        yield recordings


_PROGRESS_EVENTS_MIN = 20_000
"""Minimum number of events for which progress is shown."""


@contextmanager
def progress(recording: Recording, action: str) -> Iterator[OnShare | None]:
    """Yield a callback for the completed share, 0 to 1; None if progress is not shown."""
    from nri_scope.recording.query import lookup

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
    from nri_scope.recording.query.event_times import within
    from nri_scope.survey.foreground import resolved

    with Recording.open(file) as recording, progress(recording, "analysing") as on_share:
        return resolved(recording, within(recording, where), on_share)


def values_remark(recording: OpenRecording, redactor: Redactor | None) -> str:
    """Return a remark on the values of an output: which were replaced, or that none were."""
    before = recording.is_redacted
    if redactor is not None:
        return replacement_counts(redactor.tally.by_rule(), before=before)
    if before:
        return "values as in the recording, which is redacted"
    return "values as in the recording; --redact removes secrets"


def replacement_counts(by_rule: Mapping[str, int], *, before: bool) -> str:
    """Return the counts as text, such as ``63 values replaced (42 credential-keys, …)``.

    ``before``: the recording had been redacted before.
    """
    total = sum(by_rule.values())
    if not total and before:
        return "already redacted: no other values to replace were found"
    if not total:
        return "no values to replace were found"
    rules = sorted(by_rule.items(), key=lambda counted: (-counted[1], counted[0]))
    listed = ", ".join(f"{values:,} {rule}" for rule, values in rules)
    return f"{many(total, 'value')} replaced ({listed})"
