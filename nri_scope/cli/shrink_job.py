# SPDX-License-Identifier: Apache-2.0
"""Run ``shrink`` once its options are parsed: search, write the result, report."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import click

from nri_scope.errors import UsageError
from nri_scope.process.signals import interrupted_by_signals
from nri_scope.recording.display import many
from nri_scope.recording.file_errors import error_words
from nri_scope.recording.regular_files import check_folder
from nri_scope.replay.golden import Golden
from nri_scope.replay.run import Job, play
from nri_scope.replay.shrink import (
    Failure,
    Limits,
    Place,
    Progress,
    Shrinking,
    ShrinkJob,
    Shrunk,
    golden_of,
    write_test,
)
from nri_scope.share.extract import Extracted
from nri_scope.share.output_files import Outputs
from nri_scope.text.escape import safe

from .output import Output
from .params import create_folder, say


@dataclass(frozen=True, slots=True)
class Destination:
    """Files to write."""

    recording: Path | None
    folder: Path | None
    """The folder of a test case."""
    faults: tuple[str, ...]
    """Faults as written on the command line, for the test case."""
    force: bool = False
    """Whether existing files are overwritten."""


def perform(job: Job, golden: Path | None, check: int, limits: Limits, to: Destination) -> bool:
    """Reduce the recording; return whether the search was completed.

    Raises `UsageError`, also if no check fails, and `RecordingError`.
    """
    _check(to, job.recording)
    expected = None if golden is None else Golden.load(golden)
    with Output() as output, interrupted_by_signals():
        return _perform(output, ShrinkJob(job, expected, check, limits), to)
    return True


def _check(to: Destination, source: Path) -> None:
    """Raise predictable errors before the replays, which can take an hour."""
    if to.recording is not None:
        with Outputs(to.recording, source, force=to.force):
            pass
    if to.folder is not None:
        if os.path.lexists(to.folder) and not to.folder.is_dir():
            raise UsageError(
                f"{to.folder}: not a folder", "name an existing or new folder after --pytest"
            )
        # The folder and missing parents are created later.
        folders = to.folder, *to.folder.absolute().parents
        above = next(folder for folder in folders if os.path.lexists(folder))
        try:
            check_folder(above)
        except OSError as error:
            why = error_words(error)
            raise UsageError(
                f"{to.folder}: cannot be written: {why}", "name another folder after --pytest"
            ) from error


def _perform(output: Output, shrink_job: ShrinkJob, to: Destination) -> bool:
    progress = _ProgressLine()
    shrinking = Shrinking(shrink_job, play)
    failure = shrinking.confirm()
    for notice in (*shrink_job.job.notes, *shrinking.notices):
        say(notice)
    place = None if to.folder is None else Place.of(to.folder, failure.check, force=to.force)
    _report_failure(failure, shrink_job.check)
    try:
        shrunk = shrinking.shrink(failure, progress)
    finally:
        progress.clear()
    interrupted = shrunk.interrupted
    if interrupted and shrunk.after == shrunk.before:
        # Nothing was removed yet, so there is no result to write.
        raise KeyboardInterrupt
    _write(output, shrinking, shrunk, shrink_job, to, place)
    return not interrupted


# -- reporting --------------------------------------------------------------------------------


def _report_failure(failure: Failure, number: int) -> None:
    say(f"searching for the fewest events with: {failure.check.text}")
    others = len(failure.checks) - 1
    if others:
        more = "another check fails" if others == 1 else f"{others:,} other checks fail"
        option = "--check 2 selects the second one" if number == 1 else "--check selects one"
        say(f"{more}, and may pass in the result; {option}")
    if not failure.is_stable:
        say(
            f"warning: unstable: it failed in {failure.occurrences} of {failure.replays} replays "
            "of the whole recording, so each part is replayed as often; a smaller part may exist"
        )


@dataclass(slots=True)
class _ProgressLine:
    """Shows progress on stderr: one changing line on a terminal, else a line for each success."""

    _smallest: int = 0
    _width: int = 0
    _terminal: bool = field(default_factory=lambda: _is_terminal(sys.stderr))

    def __call__(self, progress: Progress) -> None:
        text = f"replay {progress.replays}, leaving out {progress.stage}: {progress.events:,} left"
        if self._terminal:
            self.clear()
            click.echo(text, err=True, nl=False)
            self._width = len(text)
        elif progress.events != self._smallest:
            self._smallest = progress.events
            say(text)

    def clear(self) -> None:
        """Erase the line."""
        if self._width:
            click.echo("\r" + " " * self._width + "\r", err=True, nl=False)
            self._width = 0


def _is_terminal(stream: TextIO | None) -> bool:
    # None: the stream was closed when this process started.
    return stream is not None and stream.isatty()


# -- writing ----------------------------------------------------------------------------------


def _write(
    output: Output,
    shrinking: Shrinking,
    shrunk: Shrunk,
    shrink_job: ShrinkJob,
    to: Destination,
    place: Place | None,
) -> None:
    check = shrunk.failure.check
    files = [] if to.recording is None else [to.recording]
    if place is not None:
        create_folder(place.folder)
        files.append(place.recording)
    first, *others = files
    rebuilt = _write_recording(first, shrinking, shrunk, shrink_job, to)
    for path in others:
        _write_recording(path, shrinking, shrunk, shrink_job, to)
    replayed, shown = shrinking.replay(shrunk.failure, first)
    if place is not None:
        if shrunk.against is not None:
            create_folder(place.golden.parent)
            golden_of(shrunk.against, check, replayed).save(place.golden)
        # The test file is written last: it makes the folder a test case.
        write_test(
            place,
            shrink_job.job,
            check,
            faults=to.faults,
            has_golden=bool(shrink_job.golden),
            force=to.force,
        )
    output.line(safe(check.text))
    counts = rebuilt.counts
    output.line(
        f"{many(shrunk.before, 'event')} → {shrunk.after:,}, of {many(counts.pods, 'pod')} and"
        f" {many(counts.containers, 'container')}; "
        f"{many(shrunk.replays, 'replay')} in {shrunk.seconds:.1f} s"
    )
    if shrunk.ended:
        output.line(f"{shrunk.ended}: a smaller part may exist")
    if not shown:
        output.line("warning: the written recording did not fail in a final replay")
    if to.recording is not None:
        output.line(f"wrote {safe(str(to.recording))}")
    if place is not None:
        output.line(f"wrote {safe(str(place.test))}")


def _write_recording(
    path: Path, shrinking: Shrinking, shrunk: Shrunk, shrink_job: ShrinkJob, to: Destination
) -> Extracted:
    with Outputs(path, shrink_job.job.recording, force=to.force) as outputs:
        draft = outputs.new(path.suffix)
        rebuilt = shrinking.write(shrunk, draft)
        outputs.place([draft])
    return rebuilt
