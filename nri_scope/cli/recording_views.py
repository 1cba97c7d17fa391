# SPDX-License-Identifier: Apache-2.0
"""Recordings as commands use them: redacted or not, with resolved filters, progress and remarks.

The remarks are those of commands that write files for sharing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.errors import UsageError
from nri_scope.events import Container, Event, Pod
from nri_scope.process.signals import interrupted_by_signals
from nri_scope.recording.display import many
from nri_scope.recording.lookup import Found
from nri_scope.recording.reader import Recording
from nri_scope.recording.temporary_files import temporary_folder, writing_to

from .params import say

if TYPE_CHECKING:
    from nri_scope.filter import Filter
    from nri_scope.share.redaction import Redactor, Rules


@dataclass(frozen=True, slots=True)
class RecordingView:
    """A recording prepared for display, redacted if requested."""

    name: str
    """The file's name, redacted."""
    original: Recording
    """The unredacted recording, in which names and filters of the command line are looked up."""
    recording: Recording
    """The recording to show: the original, or a redacted copy with equal event numbers and ids."""
    redactor: Redactor | None
    """The redactor that was applied; None without redaction."""

    def counterpart(self, item: Found) -> Found:
        """Return the shown recording's version of an item of the original. Raise UsageError."""
        found: Found | None = item
        if self.redactor is not None:
            match item:
                case Event():
                    found = self.recording.event(item.id)
                case Pod():
                    found = next((one for one in self.recording.pods() if one.id == item.id), None)
                case Container():
                    containers = self.recording.containers()
                    found = next((one for one in containers if one.id == item.id), None)
        if found is None:
            raise UsageError(
                "the redaction rules replace the id of the named event, pod or container",
                "write a redacted copy with `export --redact`, and look up its id there",
            )
        return found


@contextmanager
def open_view(file: Path, rules: Rules | None) -> Iterator[RecordingView]:
    """Open the recording ``file``, with redaction unless ``rules`` is None.

    Raises UsageError, RedactionLeak and RecordingError.
    """
    with open_views([file], rules) as views:
        yield views[0]


@contextmanager
def open_views(files: Sequence[Path], rules: Rules | None) -> Iterator[list[RecordingView]]:
    """Open several recordings; containers of the same name get the same tokens in all files."""
    with ExitStack() as stack:
        originals = [stack.enter_context(Recording.open(file)) for file in files]
        if rules is None:
            yield [
                RecordingView(file.name, original, original, None)
                for file, original in zip(files, originals, strict=True)
            ]
            return
        from nri_scope.share.bundle import redactor_for_comparison
        from nri_scope.share.redacted_copy import redact_for_comparison

        stack.enter_context(interrupted_by_signals())
        folder = stack.enter_context(temporary_folder())
        redactor = redactor_for_comparison(originals, rules)
        with writing_to(folder), progress(originals[0], "redacting") as on_progress:
            drafts = redact_for_comparison(originals, folder, redactor, on_progress)
        for draft in drafts:
            if draft.damage:
                say(f"data after the damage is missing: {draft.damage}")
        views: list[RecordingView] = []
        for file, original, draft in zip(files, originals, drafts, strict=True):
            recording = stack.enter_context(Recording.open(draft.path))
            # A default name of `record` contains the host name.
            name = redactor.text(file.name, "file.name")
            views.append(RecordingView(name, original, recording, redactor))
        yield views


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


def as_recorded(*, redacted: bool) -> str:
    """Return a remark on the values of an output to which no redaction was applied.

    ``redacted``: the recording had been redacted before.
    """
    if redacted:
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
    rules = sorted(by_rule.items(), key=lambda one: (-one[1], one[0]))
    listed = ", ".join(f"{values:,} {rule}" for rule, values in rules)
    return f"{many(total, 'value')} replaced ({listed})"
